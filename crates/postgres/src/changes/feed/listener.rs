//! Receives the notifications of other processes' commits. While the connection is lost, the store
//! finds commits by polling.

use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Error, Result};
use marmota_store::change::ChangeRecorder;

use super::CHANNEL;
use crate::changes::listening_thread::{ListeningThread, Subscriber};
use crate::connection::Connection;
use crate::connection::query::Texts;
use crate::options::PostgresOptions;

/// The listening thread. It ends when this is dropped.
pub(super) struct FeedListener {
    _thread: ListeningThread<FeedSubscriber>,
}

struct FeedSubscriber {
    options: Arc<PostgresOptions>,
    recorder: Arc<ChangeRecorder>,
    /// The name of this engine: its own notifications are ignored.
    name: String,
}

impl FeedListener {
    /// Starts to listen.
    ///
    /// # Errors
    /// The error that prevented it.
    pub(super) fn start(
        options: &Arc<PostgresOptions>,
        recorder: &Arc<ChangeRecorder>,
        name: &str,
    ) -> Result<Self> {
        let subscriber = FeedSubscriber {
            options: Arc::clone(options),
            recorder: Arc::clone(recorder),
            name: name.to_owned(),
        };
        Ok(Self { _thread: ListeningThread::start(options, subscriber)? })
    }
}

impl Subscriber for FeedSubscriber {
    const THREAD: &'static str = "marmota-postgres-feed";
    const SILENCE_MAX: Duration = Duration::from_secs(5);
    type Loss = ();

    fn listen(&self, connection: &mut Connection, _: bool) -> Result<()> {
        let (recorder, name) = (Arc::clone(&self.recorder), self.name.clone());
        connection.hear(Box::new(move |payload| {
            if payload != name {
                recorder.changed();
            }
        }));
        let listens = connection.query(&format!("LISTEN {CHANNEL}"), |_| {});
        listens.map_err(|error| error.into_error(&self.options))
    }

    fn query(&self) -> &str {
        "SELECT WHERE false"
    }

    fn failed(&self, _: &Texts) {}

    fn lost(&self, _: &Connection) {}

    fn restored(&self, (): ()) {
        self.recorder.changed();
    }

    fn refused(&self, error: &Error) {
        log::debug!("no notifications of commits: {error}");
    }
}
