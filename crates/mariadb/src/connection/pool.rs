//! The idle connections of an engine.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Connection, DriverOptions};
use crate::fault::Failure;

/// An idle connection is closed after this time: servers and firewalls forget it later.
const IDLE: Duration = Duration::from_secs(300);
/// A connection that is idle for longer is tested before it is used.
const TRUSTED: Duration = Duration::from_millis(500);
/// The most idle connections.
const IDLE_MAX: usize = 64;

/// The idle connections of an engine. The number of connections is limited by the threads that use
/// them, and by the number of open transactions.
pub(crate) struct Pool {
    options: DriverOptions,
    lock_timeout: Duration,
    idle: Mutex<Vec<(Connection, Instant)>>,
}

impl Pool {
    pub(crate) const fn new(options: DriverOptions, lock_timeout: Duration) -> Self {
        Self { options, lock_timeout, idle: Mutex::new(Vec::new()) }
    }

    /// Returns an idle connection, or a new one.
    pub(crate) fn take(&self) -> Result<Connection, Failure> {
        loop {
            let idle = {
                let mut idle = self.idle.lock();
                idle.retain(|(_, since)| since.elapsed() < IDLE);
                idle.pop()
            };
            let Some((mut connection, since)) = idle else {
                return Connection::open(&self.options, self.lock_timeout);
            };
            // The server may have closed it: a write would not know whether it was executed.
            if since.elapsed() < TRUSTED || connection.execute("DO 1").is_ok() {
                return Ok(connection);
            }
        }
    }

    /// Puts a connection back, unless it is broken.
    pub(crate) fn put(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if connection.is_broken() {
            // The server has probably closed the others, too.
            idle.clear();
        } else if idle.len() < IDLE_MAX {
            idle.push((connection, Instant::now()));
        }
    }

    /// Ends the statement that a connection executes.
    pub(crate) fn kill(&self, id: u32) {
        let killed = self.take().and_then(|mut connection| {
            connection.execute(&format!("KILL QUERY {id}"))?;
            self.put(connection);
            Ok(())
        });
        if let Err(failure) = killed {
            log::debug!("statement of connection {id} not ended: {}", failure.message);
        }
    }

    /// Closes the idle connections.
    pub(crate) fn clear(&self) {
        self.idle.lock().clear();
    }
}
