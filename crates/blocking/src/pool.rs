//! The idle connections of an engine.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::changes::BlockingFeed;
use crate::connection::{BlockingDriver, SqlConnection};
use crate::dialect::Dialect;
use crate::failure::SqlFailure;

/// An idle connection is closed after this time: servers and firewalls forget it later.
pub(crate) const IDLE: Duration = Duration::from_secs(300);
/// A connection that is idle for longer is tested before it is used.
pub(crate) const TRUSTED: Duration = Duration::from_millis(500);
/// The most idle connections.
const IDLE_MAX: usize = 64;

/// The idle connections of an engine. The number of connections is limited by the threads that use
/// them, and by the number of open transactions.
pub(crate) struct ConnectionPool {
    pub(crate) driver: Box<dyn BlockingDriver>,
    /// The feed that connections are prepared for.
    feed: OnceLock<BlockingFeed>,
    idle: Mutex<Vec<(Box<dyn SqlConnection>, Instant)>>,
    /// How often all connections were given up.
    generation: AtomicU64,
}

impl ConnectionPool {
    pub(crate) const fn new(driver: Box<dyn BlockingDriver>) -> Self {
        Self {
            driver,
            feed: OnceLock::new(),
            idle: Mutex::new(Vec::new()),
            generation: AtomicU64::new(0),
        }
    }

    /// Returns the feed, if changes are recorded.
    pub(crate) fn feed(&self) -> Option<&BlockingFeed> {
        self.feed.get()
    }

    /// Prepares all connections from now on for a feed.
    pub(crate) fn record(&self, feed: BlockingFeed) {
        // The store sets it once. Connections of before would record like other programs.
        let _ = self.feed.set(feed);
        self.clear();
    }

    /// Returns a number that changes when connections of before should not be used again.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Returns an idle connection, or a new one.
    pub(crate) fn take(&self) -> Result<Box<dyn SqlConnection>, SqlFailure> {
        loop {
            let idle = {
                let mut idle = self.idle.lock();
                // The one that is idle for the longest time is the first.
                while idle.first().is_some_and(|(_, since)| since.elapsed() >= IDLE) {
                    drop(idle.remove(0));
                }
                idle.pop()
            };
            let Some((mut connection, since)) = idle else {
                let mut made = self.driver.connect()?;
                if let Some(feed) = self.feed.get() {
                    feed.prepare(&mut *made)?;
                }
                return Ok(made);
            };
            // The server may have closed it: a write would not know whether it was executed.
            if since.elapsed() < TRUSTED || connection.execute(connection.dialect().ping).is_ok() {
                return Ok(connection);
            }
        }
    }

    /// Puts a connection back, unless it is broken.
    pub(crate) fn put(&self, connection: Box<dyn SqlConnection>) {
        if connection.is_broken() {
            // The server has probably closed the others, too.
            return self.clear();
        }
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push((connection, Instant::now()));
        }
    }

    /// Ends the statement that a connection executes.
    pub(crate) fn kill(&self, id: u64) {
        self.ask(|dialect| dialect.kill.map(|kill| kill.replace("{}", &id.to_string())));
    }

    /// Executes a statement for another connection, on one that is free.
    pub(crate) fn ask(&self, sql: impl FnOnce(&Dialect) -> Option<String>) {
        let asked = self.take().and_then(|mut connection| {
            if let Some(sql) = sql(connection.dialect()) {
                connection.execute(&sql)?;
            }
            self.put(connection);
            Ok(())
        });
        if let Err(failure) = asked {
            log::debug!("statement of another connection not ended: {}", failure.message);
        }
    }

    /// Closes the idle connections.
    pub(crate) fn clear(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.idle.lock().clear();
    }
}
