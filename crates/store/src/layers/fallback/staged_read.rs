//! Reads that are executed as several others, one after the other.

use std::sync::Arc;

use marmota_model::{GroupQuery, Result, RowQuery, RowSink, Table};

use crate::contract::operation::Operation;

/// A read in stages: each is a read, whose rows it takes.
pub(super) trait StagedRead: RowSink + std::fmt::Debug + Send {
    /// Returns the name of the table that the stage reads; the inner option is `None` for the table
    /// of the operation, the outer one after the last stage.
    fn table(&self) -> Option<Option<&str>>;

    /// Returns false for a stage without a read, which is only continued.
    fn has_read(&self) -> bool {
        true
    }

    /// Returns the read of the stage.
    fn query(&self) -> StageQuery;

    /// Continues after the read of the stage: prepares the next one, and lends rows that are
    /// complete. A stage without a read does a small part of its work.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] if the rows are too many or too large.
    fn advance(&mut self, operation: &Operation<'_>, sink: &mut dyn RowSink) -> Result<()>;

    /// Returns the number of rows that were lent.
    fn lent(&self) -> u64;
}

/// The read of a stage.
pub(super) enum StageQuery {
    List(RowQuery),
    /// Groups, with the table that describes them.
    Group(GroupQuery, Arc<Table>),
}

impl StageQuery {
    /// Returns the operation on a table.
    pub(super) fn operation<'o>(&'o self, table: &'o Table) -> Operation<'o> {
        match self {
            Self::List(query) => Operation::List { table, query },
            Self::Group(query, result) => Operation::Group { table, query, result },
        }
    }
}
