//! The memory engine: typed rows in compact pages, indexes, transactions and
//! files to save to and load from.
//!
//! ```text
//! session ─ locked ─ write ─ table_rows ─ pages (the rows)
//!    │         │       │         ├─ key_index   (by key, in its order)
//!  gate     catalog   log        └─ row_index   (unique: hashed; all: ordered)
//!                                plan ─ scan ─ predicate   (reads)
//! ```
//! It is the oracle of the conformance suite: what it answers is what an
//! operation means.
//!
//! # What a session sees
//! Reads are of what is committed. One transaction is open at a time; the
//! tables that it has written to are its own until it ends, and every other
//! session's operations on them wait for that (reads too: there are no old
//! versions of rows). Operations outside a transaction take place at once
//! and whole. A waiting operation holds nothing and answers
//! [`Submitted::Waiting`](crate::engine::Submitted::Waiting); what
//! [`Session::submit`] does block on is only another thread's running
//! operation.

mod catalog;
mod compare;
mod gate;
mod hashed;
mod key_index;
mod layout;
mod locked;
mod log;
mod ordered;
mod page;
mod plan;
mod predicate;
mod row_index;
mod scan;
mod session;
mod table_rows;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use marmota_model::{Error, ErrorKind, Result, Table};
use parking_lot::RwLock;

use crate::engine::{Capability, Engine, Session};
use catalog::Catalog;
use gate::Gate;
use session::MemorySession;
use table_rows::TableRows;

/// The memory engine.
pub struct Memory {
    shared: Arc<Shared>,
    capability: Capability,
}

/// What the engine's sessions share.
struct Shared {
    catalog: Arc<ArcSwap<Catalog>>,
    gate: Gate,
    closed: AtomicBool,
    /// How many sessions there were; their numbers.
    sessions: AtomicU64,
}

impl Shared {
    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Closed, "the memory engine is closed"));
        }
        Ok(())
    }

    /// Holds the gate, so that no transaction is open while `run` runs.
    fn between_transactions<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<T> {
        struct Opened<'g>(&'g Gate);
        impl Drop for Opened<'_> {
            fn drop(&mut self) {
                self.0.open();
            }
        }
        self.gate.wait(|| Ok::<_, Error>(self.gate.try_take(u64::MAX).then_some(())))?;
        let _opened = Opened(&self.gate);
        run()
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty engine.
    #[must_use]
    pub fn new() -> Self {
        let shared = Shared {
            catalog: Arc::default(),
            gate: Gate::default(),
            closed: AtomicBool::new(false),
            sessions: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared), capability: Capability::new("memory", false) }
    }

    /// The engine that a URL names: `memory:`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for any other URL.
    pub fn from_url(url: &str) -> Result<Self> {
        match url.strip_prefix("memory:") {
            Some("") => Ok(Self::new()),
            _ => {
                let message = format!("{url:?} is no URL of the memory engine; use memory:");
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }

    fn install(&self, tables: &[Arc<Table>]) -> Result<()> {
        let old = self.shared.catalog.load_full();
        let mut guards: Vec<_> = old.slots.iter().map(|slot| slot.rows.write()).collect();
        let mut list: Vec<(Arc<Table>, Arc<RwLock<TableRows>>)> = old
            .slots
            .iter()
            .map(|slot| (Arc::clone(&slot.table), Arc::clone(&slot.rows)))
            .collect();
        for table in tables {
            let known = list.iter().position(|(known, _)| known.name() == table.name());
            match known {
                None => {
                    let rows = TableRows::new(Arc::clone(table));
                    list.push((Arc::clone(table), Arc::new(RwLock::new(rows))));
                }
                Some(number) => {
                    if !catalog::same_shape(&list[number].0, table) {
                        let rows = match guards.get(number) {
                            Some(old) => catalog::rebuild(old, table)?,
                            None => TableRows::new(Arc::clone(table)),
                        };
                        list[number].1 = Arc::new(RwLock::new(rows));
                    }
                    list[number].0 = Arc::clone(table);
                }
            }
        }
        let new = Catalog::new(list)?;
        for (number, guard) in guards.iter_mut().enumerate() {
            guard.retired = !Arc::ptr_eq(&old.slots[number].rows, &new.slots[number].rows);
            guard.table = Arc::clone(&new.slots[number].table);
        }
        self.shared.catalog.store(Arc::new(new));
        Ok(())
    }
}

impl Engine for Memory {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn prepare(&self, tables: &[Arc<Table>], _version: u32) -> Result<()> {
        self.shared.between_transactions(|| {
            self.shared.check_open()?;
            self.install(tables)
        })
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        self.shared.check_open()?;
        Ok(Box::new(MemorySession::new(Arc::clone(&self.shared))))
    }

    fn close(&self) -> Result<()> {
        self.shared.between_transactions(|| {
            self.shared.closed.store(true, Ordering::Relaxed);
            Ok(())
        })
    }
}
