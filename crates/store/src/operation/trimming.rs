//! Which answers of batches that take place once are forgotten: those that are too old, and the
//! oldest of a caller, or of all, where there are too many.

use marmota_model::{Comparison, FieldSet, FilterExpr, Query, Table, Value};

/// Answers of which so many are kept: of one caller, or of all.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) of: Option<FilterExpr>,
    pub(super) max: u64,
}

/// Answers on their way to be forgotten; see [`super::Once`].
#[derive(Debug, Default)]
pub(super) struct Trimming {
    old: Option<FilterExpr>,
    /// To be counted, from the last.
    left: Vec<Pool>,
    /// That is counted, or whose oldest answers are read.
    looked_at: Option<Pool>,
}

/// The next step of a [`Trimming`].
pub(super) enum Trim {
    Count(Option<FilterExpr>),
    /// Reads keys; the last of them is wanted.
    List(Query),
    Delete(FilterExpr),
}

impl Trimming {
    pub(super) fn new(old: FilterExpr, left: Vec<Pool>) -> Self {
        Self { old: Some(old), left, looked_at: None }
    }

    /// Says what is next, with what the step before has counted, and the last key it has read.
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
                let query = Query {
                    filter: pool.of.clone(),
                    fields: Some(FieldSet::EMPTY.with(table.key())),
                    limit: Some(counted - pool.max),
                    ..Query::new()
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

pub(super) fn compare(field: usize, comparison: Comparison, value: Value) -> FilterExpr {
    FilterExpr::Compare { field, comparison, value }
}
