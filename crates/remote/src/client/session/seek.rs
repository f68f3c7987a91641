//! How a session gets a connection, and how long it seeks a server that has gone.

use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind};
use marmota_store::backoff::Backoff;
use marmota_store::engine::caller_blocks;
use marmota_store::refusal::copy_of;

use super::RemoteSession;

/// The first pause before a server is sought again, and the longest.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// When a server is sought again, and since when it has been.
pub(super) struct Seeking {
    pub(super) since: Instant,
    pub(super) next: Instant,
    pub(super) backoff: Backoff,
}

impl RemoteSession {
    /// Takes a spare connection or the one that was being made, or begins to connect if it is time
    /// to. Only a caller that gives its thread to its operation waits for that here.
    pub(super) fn seek(&mut self) {
        let began = self.connecting.as_ref().map_or_else(Instant::now, |attempt| attempt.since);
        let made = match &self.connecting {
            Some(attempt) => attempt.take(),
            None if self.seeking.as_ref().is_some_and(|seeking| began < seeking.next) => return,
            None => match self.connector.spare_line() {
                Some(line) => Some(Ok(line)),
                None if caller_blocks() || self.connector.is_in_process() => {
                    Some(self.connector.connect())
                }
                None => {
                    self.connecting = Some(self.connector.start(&self.watch));
                    return;
                }
            },
        };
        let Some(made) = made else { return };
        self.connecting = None;
        match made {
            Ok(line) => {
                self.line = Some(line);
                self.seeking = None;
            }
            Err(error) => {
                let backoff = Backoff::new(PAUSE, PAUSE_MAX);
                let seeking =
                    self.seeking.get_or_insert(Seeking { since: began, next: began, backoff });
                let is_worth_it =
                    matches!(error.kind(), ErrorKind::Refused | ErrorKind::Lost | ErrorKind::Io);
                if is_worth_it && seeking.since.elapsed() < self.connector.reconnect_timeout {
                    seeking.next = Instant::now() + seeking.backoff.pause();
                    return;
                }
                self.seeking = None;
                self.fail_unsent(&error);
            }
        }
    }

    fn fail_unsent(&mut self, error: &Error) {
        for one in self.waiting.iter_mut().filter(|one| !one.is_sent && one.reply.is_none()) {
            one.reply = Some(Err(copy_of(error)));
            one.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}
