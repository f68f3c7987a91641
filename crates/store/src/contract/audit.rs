//! The data with which writes to audited models are entered in the history
//! (`batch_machine/entries.rs`): the actor, the time, and the table of the entries.
//!
//! The store attaches an [`Audit`] to each write of an audited model ([`Write::Audited`]); engines
//! pass it on without reading it. One [`Ledger`] exists for a store, which all its sessions share.
//!
//! [`Write::Audited`]: crate::operation::Write::Audited

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use marmota_model::{Table, Timestamp};

/// The table of the entries, and how long they are kept.
#[derive(Debug)]
pub(crate) struct AuditLog {
    /// The table of the entries, `marmota_history`.
    pub(crate) table: Arc<Table>,
    /// The maximum age in microseconds.
    age_max_us: Option<i64>,
    /// The number of audited writes since the store was opened, which wraps around. It spreads the
    /// deletes of old entries over the writes, so it need not be exact.
    writes: AtomicU32,
}

/// Who writes, when, and the table of the entries.
#[derive(Clone, Debug)]
pub struct Audit {
    /// The audit_log of the store.
    pub(crate) audit_log: Arc<AuditLog>,
    /// The actor of [`crate::Store::with_actor`], or the caller of [`crate::Store::with_rights`].
    pub(crate) actor: Option<Arc<str>>,
    /// The time of the write, the same for all entries of a batch.
    pub(crate) at: Timestamp,
}

impl AuditLog {
    /// Creates the audit_log of a store. `age_max_us` is the maximum age of entries in microseconds;
    /// `None` keeps them forever.
    pub(crate) fn new(table: Arc<Table>, age_max_us: Option<i64>) -> Self {
        Self { table, age_max_us, writes: AtomicU32::new(0) }
    }

    /// Counts a write to an audited model, and returns the number of those before it and the
    /// maximum age of the entries in microseconds; `None` if entries do not expire.
    pub(crate) fn count_write(&self) -> Option<(u32, i64)> {
        let age_max_us = self.age_max_us?;
        Some((self.writes.fetch_add(1, Ordering::Relaxed), age_max_us))
    }
}

impl Audit {
    /// Returns the actor that the entries name.
    #[must_use]
    pub fn actor(&self) -> Option<&str> {
        self.actor.as_deref()
    }

    /// The table of the entries.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.audit_log.table
    }
}
