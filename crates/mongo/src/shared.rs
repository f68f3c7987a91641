//! The state that an engine shares with its sessions: the driver on its own thread, the models'
//! shapes, the operations in progress, and closing.

pub(crate) mod counts;
pub(crate) mod turn;
pub(crate) mod waiting;

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::engine::Capability;
use parking_lot::{Mutex, RwLock};
use tokio::runtime::{Handle, Runtime};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::counts::Counts;
use self::turn::Turns;
use self::waiting::wait_on;
use crate::database::Database;
use crate::database::transaction::OpenTransactions;
use crate::fault;
use crate::options::Options;
use crate::shape::Shape;

/// The longest time that a close waits for open transactions.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// The state that an engine shares with its sessions.
#[derive(Debug)]
pub(crate) struct Shared {
    runtime: Mutex<Option<Runtime>>,
    pub(crate) handle: Handle,
    pub(crate) database: Database,
    pub(crate) options: Options,
    pub(crate) counts: Arc<Counts>,
    pub(crate) turns: Turns,
    shapes: RwLock<HashMap<String, Arc<Shape>>>,
    /// The number of operations in progress.
    under_way: AtomicU64,
    /// The callers' transactions that have not ended.
    pub(crate) transactions_open: OpenTransactions,
    closed: AtomicBool,
    /// For each table with automatic keys, a key that is known to be in use.
    keys: Mutex<HashMap<String, i64>>,
    pub(crate) capability: Capability,
    /// The task that receives the writes of others for a store's cache.
    listener: Mutex<Option<JoinHandle<()>>>,
}

/// Counts an operation as in progress until it is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Shared>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    pub(crate) fn new(
        runtime: Runtime,
        database: Database,
        options: Options,
        counts: Arc<Counts>,
        capability: Capability,
    ) -> Self {
        Self {
            handle: runtime.handle().clone(),
            runtime: Mutex::new(Some(runtime)),
            database,
            options,
            counts,
            turns: Turns::default(),
            shapes: RwLock::default(),
            under_way: AtomicU64::new(0),
            transactions_open: OpenTransactions::default(),
            closed: AtomicBool::new(false),
            keys: Mutex::default(),
            capability,
            listener: Mutex::default(),
        }
    }

    /// Adds the shapes of prepared tables.
    pub(crate) fn add_shapes(&self, shapes: impl IntoIterator<Item = Arc<Shape>>) {
        let mut known = self.shapes.write();
        for shape in shapes {
            known.insert(shape.name().to_owned(), shape);
        }
    }

    /// Returns a table's shape.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a table that was not prepared.
    pub(crate) fn shape(&self, table: &Table) -> Result<Arc<Shape>> {
        self.named(table.name()).ok_or_else(|| {
            let message = format!(
                "table `{}` is not known; register its model with the store first",
                table.name()
            );
            Error::new(ErrorKind::Invalid, message)
        })
    }

    pub(crate) fn named(&self, name: &str) -> Option<Arc<Shape>> {
        self.shapes.read().get(name).cloned()
    }

    /// Returns the fields that refer to a table.
    pub(crate) fn referrers(&self, table: &str) -> Vec<(Arc<Shape>, usize)> {
        let mut referrers = Vec::new();
        for shape in self.shapes.read().values() {
            for (at, field) in shape.table.fields().iter().enumerate() {
                if matches!(&field.kind, marmota_model::Kind::Reference { table: to, .. } if to == table)
                {
                    referrers.push((Arc::clone(shape), at));
                }
            }
        }
        referrers.sort_by(|a, b| (a.0.name(), a.1).cmp(&(b.0.name(), b.1)));
        referrers
    }

    /// Returns an automatic key of a table that is known to be in use.
    pub(crate) fn key_known(&self, table: &str) -> i64 {
        self.keys.lock().get(table).copied().unwrap_or(0)
    }

    /// Records that a key is in use.
    pub(crate) fn know_key(&self, table: &str, key: i64) {
        let mut keys = self.keys.lock();
        match keys.get_mut(table) {
            Some(known) => *known = (*known).max(key),
            None => drop(keys.insert(table.to_owned(), key)),
        }
    }

    /// # Errors
    /// [`ErrorKind::Closed`].
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) { Err(fault::closed()) } else { Ok(()) }
    }

    /// Keeps the task that receives the writes of others; a close ends it.
    pub(crate) fn listens(&self, listener: JoinHandle<()>) {
        *self.listener.lock() = Some(listener);
    }

    /// Counts a new operation.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`], or [`ErrorKind::Busy`] if too many are in progress.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<UnderWay> {
        self.check_open()?;
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let entered = UnderWay(Arc::clone(self));
        if before >= self.options.operations_max {
            self.counts.refused();
            let message = format!(
                "{} operations already wait for MongoDB (`operations_max`); try again later",
                self.options.operations_max
            );
            return Err(Error::new(ErrorKind::Busy, message));
        }
        Ok(entered)
    }

    /// Counts an operation that is part of a counted one or of an open transaction. It is never
    /// refused.
    pub(crate) fn enter_further(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(self))
    }

    /// Runs a future with the engine's time limit.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.until(Instant::now() + self.options.timeout, work).await
    }

    /// Runs a future until `end` at most.
    pub(crate) async fn until<T>(
        &self,
        end: Instant,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let _request = self.counts.begin_request();
        match tokio::time::timeout_at(end, work).await {
            Ok(done) => done,
            Err(_) => {
                let message = format!(
                    "MongoDB has not answered within {} ms (`operation_timeout_ms`); a write may \
                     or may not have been committed",
                    self.options.timeout.as_millis()
                );
                Err(Error::new(ErrorKind::Timeout, message))
            }
        }
    }

    /// Closes the engine when no caller's transaction is open.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if a transaction does not end in time.
    pub(crate) fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        // Open transactions may finish. If that takes too long, the engine stays open and can be
        // closed later.
        let until = std::time::Instant::now() + CLOSE_WAIT.min(self.options.timeout);
        while self.transactions_open.is_any() {
            if std::time::Instant::now() >= until {
                self.closed.store(false, Ordering::SeqCst);
                let message = "a transaction is still open and did not end in time; end it, then close the \
                     store again";
                return Err(Error::new(ErrorKind::Busy, message));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(listener) = self.listener.lock().take() {
            listener.abort();
        }
        // Writes in progress finish first, within their time limit.
        let until = std::time::Instant::now() + self.options.timeout;
        while self.under_way.load(Ordering::SeqCst) > 0 && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(runtime) = self.runtime.lock().take() {
            let client = self.database.client.clone();
            let done = wait_on(runtime.handle(), async move {
                let shut = client.shutdown().immediate(true);
                let _ = tokio::time::timeout(Duration::from_secs(2), shut).await;
                Ok(())
            });
            drop(done);
            // Does not wait, so it may be called on a runtime's thread.
            runtime.shutdown_background();
        }
        Ok(())
    }
}
