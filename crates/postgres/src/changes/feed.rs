//! The change feed: triggers at the server record the changes, so that those of raw SQL, of
//! references and of other programs are recorded as well.
//!
//! A trigger of each statement encodes the rows that it has changed (`triggers.rs`), in the format
//! that `rows.rs` decodes. There are two ways into the table of commits:
//!
//! - *Direct*: a write of one statement, on a connection whose setting [`SETTING`] is
//!   [`DIRECT`]. The trigger inserts the row of the commit.
//! - *Pending*: any other transaction. The triggers collect the changes in a setting of the
//!   transaction and, if they are large, in the table `marmota_pending`. A deferred trigger inserts
//!   the row of the commit at COMMIT, so that an open transaction holds no number.
//!
//! Either way the number is taken while the transaction holds its row locks, so numbers are in the
//! order of conflicting writes. The server sends the number to the store's own connections as an
//! INFO message with the code [`COMMIT_CODE`].

mod listener;
mod rows;
mod triggers;

use std::sync::Arc;

use marmota_model::{ErrorKind, Result};
use marmota_store::change::ChangeRecorder;
use parking_lot::Mutex;

use self::listener::FeedListener;
use crate::connection::Connection;
use crate::connection::connector::{self, Purpose};
use crate::connection::query::Texts;
use crate::options::PostgresOptions;
use crate::statement::sql_words::literal;

pub(crate) use self::rows::TriggerRows;
pub(crate) use self::triggers::{install, uninstall};
use crate::options::own_connections::{COMMIT_CODE, DIRECT, FEED_SETTING as SETTING};

/// The channel on which processes notify each other of commits.
const CHANNEL: &str = "marmota_feed";

/// The feed of an engine.
pub(crate) struct PostgresFeed {
    recorder: Arc<ChangeRecorder>,
    options: Arc<PostgresOptions>,
    /// The connection of the store's keeper, made at its first use.
    connection: Mutex<Option<Connection>>,
    /// A name that no other engine has.
    name: String,
    listener: Mutex<Option<FeedListener>>,
}

impl PostgresFeed {
    /// Starts to receive notifications of other processes' commits, over a connection with the
    /// options `listens`; `None` if the server cannot be reached without a pooler.
    pub(crate) fn new(
        recorder: &Arc<ChangeRecorder>,
        options: &Arc<PostgresOptions>,
        listens: Option<Arc<PostgresOptions>>,
    ) -> Result<Self> {
        let name = options.own.name(0);
        let listener = match listens {
            Some(listens) => Some(FeedListener::start(&listens, recorder, &name)?),
            None => None,
        };
        Ok(Self {
            recorder: Arc::clone(recorder),
            options: Arc::clone(options),
            connection: Mutex::default(),
            name,
            listener: Mutex::new(listener),
        })
    }

    pub(crate) const fn recorder(&self) -> &Arc<ChangeRecorder> {
        &self.recorder
    }

    /// Returns the transactions that may have taken a number: those that have locked the table of
    /// commits for a write.
    pub(crate) fn open_commits(&self) -> Result<Vec<u64>> {
        let mut open = Vec::new();
        let table = literal(self.recorder.table().name());
        let sql = format!(
            "SELECT virtualtransaction FROM pg_locks WHERE locktype='relation' AND granted \
             AND relation=to_regclass({table}) AND mode='RowExclusiveLock' \
             AND database=(SELECT oid FROM pg_database WHERE datname=current_database())"
        );
        self.query(&sql, |row| {
            // The number of a process, or -1 for a prepared transaction, and a number within it.
            let (process, number) = row.text(0).split_once('/').unwrap_or_default();
            let process = process.parse::<i32>().unwrap_or(-1) as u32;
            open.push(u64::from(process) << 32 | number.parse::<u64>().unwrap_or(0) & 0xffff_ffff);
        })?;
        Ok(open)
    }

    /// Notifies other processes.
    pub(crate) fn announce(&self) -> Result<()> {
        // Not in the transactions of the writes: the server commits notifications one by one.
        let sql = format!("SELECT pg_notify('{CHANNEL}',{})", literal(&self.name));
        self.query(&sql, |_| {})
    }

    fn query(&self, sql: &str, take: impl FnMut(&Texts)) -> Result<()> {
        let mut connection = self.connection.lock();
        if connection.as_ref().is_none_or(|connection| connection.loss().is_some()) {
            let made = connector::connect(&self.options, Purpose::Exclusive);
            let made = connection.insert(made.map_err(|refused| refused.error())?);
            if !self.options.is_pooled {
                // Nothing that it writes has to survive.
                made.query("SET synchronous_commit=off", |_| {})
                    .map_err(|error| error.into_error(&self.options))?;
            }
        }
        let Some(made) = connection.as_mut() else { return Ok(()) };
        let done = made.query(sql, take).map_err(|error| error.into_error(&self.options));
        if done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Lost) {
            *connection = None;
        }
        done
    }

    /// Ends its connections.
    pub(crate) fn close(&self) {
        drop(self.listener.lock().take());
        if let Some(mut connection) = self.connection.lock().take() {
            connection.close();
        }
    }
}
