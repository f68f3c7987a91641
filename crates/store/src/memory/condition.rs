//! A filter asked of a row that lies in no table: the same predicate that
//! lists go by, so that the two cannot disagree.

use marmota_model::{FilterExpr, Result, Table, ValueRef};

use super::layout::Layout;
use super::predicate::Predicate;

/// A filter on the rows of one table, which it outlives.
#[derive(Clone, Debug)]
pub struct Condition {
    filter: FilterExpr,
    layout: Layout,
}

impl Condition {
    /// For rows of this table.
    #[must_use]
    pub fn new(filter: FilterExpr, table: &Table) -> Self {
        Self { filter, layout: Layout::new(table) }
    }

    /// The filter.
    #[must_use]
    pub const fn filter(&self) -> &FilterExpr {
        &self.filter
    }

    /// Makes it ready to be asked of rows.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for a field that the table has not.
    pub fn asked(&self, table: &Table) -> Result<Ready<'_>> {
        Predicate::new(&self.filter, table, &self.layout).map(Ready)
    }
}

/// A condition that can be asked.
pub struct Ready<'f>(Predicate<'f>);

impl Ready<'_> {
    /// True if the row is selected; fields that are absent are unknown.
    #[must_use]
    pub fn selects(&self, row: &[ValueRef<'_>]) -> bool {
        self.0.selects(row)
    }
}
