//! A share of the reads, kept for a comparison with another database (`admin/pair/reads.rs`).
//!
//! A read that is kept costs a copy of its query. It never waits: a read is skipped while the queue
//! is full or in use.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use marmota_model::{FieldSet, FilterExpr, RowQuery, Value};
use parking_lot::Mutex;

use crate::contract::operation::Operation;

/// The most reads that are kept.
const READS_MAX: usize = 256;
/// All reads, as a share.
const ALL: u64 = 1 << 32;

/// The reads that were kept, and the share that is.
#[derive(Default)]
pub(crate) struct ReadSamples {
    /// The share of the reads in parts of [`ALL`]; 0 if none is kept.
    share: AtomicU64,
    /// The sum of the shares of all reads. A read that makes it pass a multiple of [`ALL`] is kept.
    sum: AtomicU64,
    kept: Mutex<VecDeque<SampledRead>>,
    skipped: AtomicU64,
}

/// A read, without the place for its rows.
pub(crate) struct SampledRead {
    /// The name of the table.
    pub(crate) table: String,
    pub(crate) query: SampledQuery,
}

/// What a read selects.
pub(crate) enum SampledQuery {
    Get(Value, FieldSet),
    List(RowQuery),
    Count(Option<FilterExpr>),
}

impl ReadSamples {
    /// Sets the share of the reads that are kept, from 0 to 1. The reads until now are forgotten.
    pub(crate) fn set_share(&self, share: f64) {
        self.share.store((share.clamp(0.0, 1.0) * ALL as f64) as u64, Ordering::Relaxed);
        self.skipped.store(0, Ordering::Relaxed);
        self.kept.lock().clear();
    }

    /// Returns true if reads are kept.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.share.load(Ordering::Relaxed) > 0
    }

    /// Keeps an operation if it is a read, and in the share.
    #[cold]
    pub(super) fn offer(&self, operation: &Operation<'_>) {
        let (Operation::Get { table, .. }
        | Operation::List { table, .. }
        | Operation::Count { table, .. }) = operation
        else {
            return;
        };
        let share = self.share.load(Ordering::Relaxed);
        let before = self.sum.fetch_add(share, Ordering::Relaxed);
        if before / ALL == before.wrapping_add(share) / ALL {
            return;
        }
        let Some(mut kept) = self.kept.try_lock().filter(|kept| kept.len() < READS_MAX) else {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let query = match operation {
            Operation::Get { key, fields, .. } => SampledQuery::Get(key.to_value(), *fields),
            Operation::List { query, .. } => SampledQuery::List((*query).clone()),
            Operation::Count { filter, .. } => SampledQuery::Count(filter.cloned()),
            _ => return,
        };
        kept.push_back(SampledRead { table: table.name().to_owned(), query });
    }

    /// Takes the first read that was kept.
    pub(crate) fn take(&self) -> Option<SampledRead> {
        self.kept.lock().pop_front()
    }

    /// Returns the number of reads in the share that were not kept.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}
