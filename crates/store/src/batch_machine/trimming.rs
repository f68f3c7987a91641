//! Deletes stored answers of batches with an idempotency key: the expired ones, and the oldest of a
//! caller, or of all, if there are too many.
//!
//! For each set: count its answers; if there are too many, read the keys of the oldest superfluous
//! ones; delete up to the last of these keys. Keys ascend with time, so no index over the time is
//! needed for this.

use marmota_model::{Comparison, FieldSet, FilterExpr, RowQuery, Table, Value};

/// A set of answers with a limit: those of one caller, or all.
#[derive(Debug)]
pub(super) struct Pool {
    /// The filter of the set; `None` for all answers.
    pub(super) of: Option<FilterExpr>,
    /// The number of answers to keep.
    pub(super) max: u64,
}

/// Answers that are to be deleted; see `answers.rs`.
#[derive(Debug, Default)]
pub(super) struct Trimming {
    /// The filter of expired answers, until they were deleted.
    old: Option<FilterExpr>,
    /// The pools still to be counted, the next one last.
    left: Vec<Pool>,
    /// The pool that is counted, or whose oldest answers are read.
    looked_at: Option<Pool>,
}

/// The next step of a [`Trimming`].
pub(super) enum Trim {
    /// Counts answers.
    Count(Option<FilterExpr>),
    /// Reads keys, of which the last is used.
    List(RowQuery),
    Delete(FilterExpr),
}

impl Trimming {
    /// Creates the trimming of expired answers (`old`) and of sets with limits.
    pub(super) fn new(old: FilterExpr, left: Vec<Pool>) -> Self {
        Self { old: Some(old), left, looked_at: None }
    }

    /// Returns the next step. `counted` is the count of the step before, and `last` the last key it
    /// has read.
    ///
    /// `None` at the end.
    pub(super) fn next(
        &mut self,
        table: &Table,
        counted: u64,
        last: Option<Value>,
    ) -> Option<Trim> {
        if let Some(old) = self.old.take() {
            return Some(Trim::Delete(old));
        }
        match (self.looked_at.take(), last) {
            (Some(Pool { of, .. }), Some(last)) => {
                let oldest = compare(table.key(), Comparison::LessOrEqual, last);
                return Some(Trim::Delete(match of {
                    Some(of) => of.and(oldest),
                    None => oldest,
                }));
            }
            (Some(pool), None) if counted > pool.max => {
                let query = RowQuery {
                    filter: pool.of.clone(),
                    fields: Some(FieldSet::EMPTY.with(table.key())),
                    limit: Some(counted - pool.max),
                    ..RowQuery::new()
                };
                self.looked_at = Some(pool);
                return Some(Trim::List(query));
            }
            _ => {}
        }
        let pool = self.left.pop()?;
        let of = pool.of.clone();
        self.looked_at = Some(pool);
        Some(Trim::Count(of))
    }
}

/// Returns the filter that compares a field with a value.
pub(super) fn compare(field: usize, comparison: Comparison, value: Value) -> FilterExpr {
    FilterExpr::Compare { field, comparison, value }
}
