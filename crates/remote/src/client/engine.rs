//! The `Engine` implementation of the client: tables, sessions, close.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::engine::{Capability, Engine, Session};
use marmota_store::operation::ANSWERS;
use marmota_store::plan::{Destructive, Plan};

use super::Remote;
use super::session::RemoteSession;

/// The table of applied migrations.
const MIGRATIONS: &str = "marmota_migration";
/// How long a close waits for open transactions.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(2);

impl Engine for Remote {
    fn capability(&self) -> &Capability {
        match self.state.declared.get() {
            Some((_, capability)) => capability,
            None => &self.opening,
        }
    }

    /// Returns an empty plan if the server has the same tables: tables are migrated by the server.
    fn plan(&self, tables: &[Arc<Table>], _: u32) -> Result<Plan> {
        if tables.iter().any(|table| table.name() == MIGRATIONS) {
            let message = "a client cannot run migrations: add them to the builder of the store in \
                           the program that serves it";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        self.state.know(tables);
        let connection = self.state.connect()?;
        self.state.give_back(connection);
        if tables.iter().any(|table| table.name() == ANSWERS) {
            let what = "storing the answers to batches (idempotency)";
            self.capability().check_transactions(what)?;
        }
        Ok(Plan::default())
    }

    fn migrate(&self, tables: &[Arc<Table>], version: u32, _: &Destructive) -> Result<Plan> {
        self.plan(tables, version)
    }

    /// The internal tables of the store are not accessible to clients.
    fn open_table(&self, _: &Arc<Table>) -> Result<bool> {
        Ok(false)
    }

    /// Returns the tables that the server has for this client, without internal tables such as
    /// accounts.
    fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        let mut names = self.state.served_tables()?;
        names.sort_unstable();
        Ok(Some(names))
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(RemoteSession::new(Arc::clone(&self.state))))
    }

    /// Waits for open transactions, and closes the connections; the server keeps running.
    fn close(&self) -> Result<()> {
        self.state.closed.store(true, Ordering::SeqCst);
        let mut open = self.state.transactions.lock();
        let until = Instant::now() + CLOSE_WAIT_MAX;
        while *open > 0 && !self.state.ended.wait_until(&mut open, until).timed_out() {}
        if *open > 0 {
            self.state.closed.store(false, Ordering::SeqCst);
            let message = format!("{} transactions are still open; end them first", *open);
            return Err(Error::new(ErrorKind::Busy, message));
        }
        drop(open);
        self.state.departures.wait_for_all();
        self.state.connect_threads.dismiss();
        self.state.spare.lock().clear();
        Ok(())
    }
}
