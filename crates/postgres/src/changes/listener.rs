//! Receives the writes of others and notifies a store's cache.
//!
//! When the connection is lost or the server has been silent for too long, the feed is paused and
//! the store caches no rows until the connection is established again.

pub(crate) mod notify;

use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::{FeedPause, InvalidationFeed};
use parking_lot::Mutex;

use self::notify::CHANNEL;
use super::listening_thread::{ListeningThread, Subscriber};
use crate::connection::Connection;
use crate::connection::query::Texts;
use crate::options::PostgresOptions;

/// The listening thread. It ends when this is dropped.
pub(crate) struct Listener {
    _thread: ListeningThread<CacheSubscriber>,
}

struct CacheSubscriber {
    options: Arc<PostgresOptions>,
    tables: Vec<Arc<Table>>,
    feed: Arc<InvalidationFeed>,
    /// Finds a table whose writes are no longer announced.
    find_silent: String,
    /// The last reason that was logged, until the connection is established again.
    logged: Mutex<Option<String>>,
}

impl Listener {
    /// Starts to listen. All writes after this function returns are received.
    ///
    /// # Errors
    /// The error that prevented it.
    pub(crate) fn start(
        options: &Arc<PostgresOptions>,
        tables: &[Arc<Table>],
        feed: &Arc<InvalidationFeed>,
    ) -> Result<Self> {
        let subscriber = CacheSubscriber {
            options: Arc::clone(options),
            tables: tables.to_vec(),
            feed: Arc::clone(feed),
            find_silent: notify::find_silent(tables),
            logged: Mutex::default(),
        };
        let _pause = feed.pause(tables);
        Ok(Self { _thread: ListeningThread::start(options, subscriber)? })
    }
}

impl CacheSubscriber {
    /// Logs the reason why rows are not cached, unless it equals the last one logged.
    fn warn(&self, error: &Error) {
        let words = error.to_string();
        let mut logged = self.logged.lock();
        if logged.as_ref() != Some(&words) {
            log::warn!("rows are not cached: {words}");
        }
        *logged = Some(words);
    }
}

impl Subscriber for CacheSubscriber {
    const THREAD: &'static str = "marmota-postgres-listen";
    const SILENCE_MAX: Duration = Duration::from_secs(1);
    type Loss = FeedPause;

    /// Creates missing triggers for the first connection; later they are not created again, since
    /// they were dropped on purpose.
    fn listen(&self, connection: &mut Connection, is_first: bool) -> Result<()> {
        let options = &self.options;
        if is_first {
            notify::prepare(connection, &self.tables, &options.own, options)?;
        }
        let (feed, own) = (Arc::clone(&self.feed), options.own.clone());
        connection.hear(Box::new(move |payload| match notify::read(payload) {
            Some((writer, _)) if own.knows(writer) => {}
            Some((_, table)) => feed.invalidate(table),
            None => {}
        }));
        let mut silent = None;
        let asked =
            connection.query(&self.find_silent, |row| silent = Some(row.text(0).to_owned()));
        asked.map_err(|error| error.into_error(options))?;
        if let Some(table) = silent {
            return Err(notify::silent(&table));
        }
        let listens = connection.query(&format!("LISTEN {CHANNEL}"), |_| {});
        listens.map_err(|error| error.into_error(options))
    }

    fn query(&self) -> &str {
        &self.find_silent
    }

    fn failed(&self, row: &Texts) {
        self.warn(&notify::silent(row.text(0)));
    }

    fn lost(&self, connection: &Connection) -> FeedPause {
        let pause = self.feed.pause(&self.tables);
        if let Some(loss) = connection.loss() {
            let place = self.options.place();
            log::debug!("no notifications from PostgreSQL at {place}: {}", loss.0);
        }
        pause
    }

    fn restored(&self, pause: FeedPause) {
        *self.logged.lock() = None;
        drop(pause);
    }

    fn refused(&self, error: &Error) {
        match error.kind() {
            ErrorKind::Refused | ErrorKind::Lost => log::debug!("{error}"),
            _ => self.warn(error),
        }
    }
}
