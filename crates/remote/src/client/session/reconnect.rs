//! Connecting a session, and reconnecting to a server that is gone.

use std::ops::RangeInclusive;
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind};
use marmota_rpc::Reconnect;
use marmota_store::engine::caller_blocks;
use marmota_store::refusal::copy_of;

use super::RemoteSession;

/// The shortest and the longest pause between attempts to reconnect.
const PAUSES: RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(500);

impl RemoteSession {
    /// Takes an idle connection or the one that a helper thread has made, or starts to connect if
    /// the pause is over. Only a blocking caller connects on its own thread.
    pub(super) fn reconnect(&mut self) {
        let began = self.attempt.as_ref().map_or_else(Instant::now, |attempt| attempt.since());
        let pauses = |reconnect: &Reconnect| began < reconnect.next_attempt();
        let made = match &self.attempt {
            Some(attempt) => attempt.take(),
            None if self.reconnect.as_ref().is_some_and(pauses) => return,
            None => match self.state.spare_connection() {
                Some(connection) => Some(Ok(connection)),
                None if caller_blocks() || self.state.is_in_process() => Some(self.state.connect()),
                None => {
                    self.attempt = Some(self.state.start(&self.watch));
                    return;
                }
            },
        };
        let Some(made) = made else { return };
        self.attempt = None;
        match made {
            Ok(connection) => {
                self.connection = Some(connection);
                self.reconnect = None;
            }
            Err(error) => {
                let timeout = self.state.reconnect_timeout;
                let reconnect = self.reconnect.get_or_insert_with(|| {
                    let mut reconnect = Reconnect::new(PAUSES, Some(timeout));
                    reconnect.begin(began);
                    reconnect
                });
                let is_worth_it =
                    matches!(error.kind(), ErrorKind::Refused | ErrorKind::Lost | ErrorKind::Io);
                if is_worth_it && !reconnect.is_over() {
                    reconnect.pause();
                    return;
                }
                self.reconnect = None;
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
