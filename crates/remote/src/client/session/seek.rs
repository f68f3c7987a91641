//! Connecting a session, and reconnecting to a server that is gone.

use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind};
use marmota_store::backoff::Backoff;
use marmota_store::engine::caller_blocks;
use marmota_store::refusal::copy_of;

use super::RemoteSession;

/// The shortest and the longest pause between attempts to reconnect.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The state of reconnecting: since when, and the time of the next attempt.
pub(super) struct Seeking {
    pub(super) since: Instant,
    pub(super) next: Instant,
    pub(super) backoff: Backoff,
}

impl RemoteSession {
    /// Takes an idle connection or the one that a helper thread has made, or starts to connect if
    /// the pause is over. Only a blocking caller connects on its own thread.
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
