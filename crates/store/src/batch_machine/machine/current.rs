//! The current operation of a batch, and the sink for the rows that it reads.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{
    Error, ErrorKind, FilterExpr, NoRows, Result, RowQuery, RowSink, RowSource, Table, Value,
    ValueRef,
};

use crate::contract::operation::{Operation, Write};

/// The savepoint around an independent write.
const SAVEPOINT: u32 = u32::MAX;

/// The current operation.
#[derive(Debug, Default)]
pub(super) enum Current {
    /// The current write.
    #[default]
    Write,
    /// A write that the machine has made.
    Own(Box<Write>),
    /// Rows that the machine has made.
    Rows(Arc<Table>, Vec<Vec<Value>>),
    Count(Arc<Table>, Option<FilterExpr>),
    List(Arc<Table>, Box<RowQuery>),
    Savepoint,
    RollbackTo,
    Release,
}

/// The sink for rows of a read: it keeps the key of each row, or all its values.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) key: Option<usize>,
    pub(super) values: Vec<Value>,
}

impl RowSink for Looked {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        match self.key {
            Some(key) => self.values.extend(row.get(key).map(ValueRef::to_value)),
            None => self.values.extend(row.iter().map(ValueRef::to_value)),
        }
        ControlFlow::Continue(())
    }
}

/// Rows that own their values, as a source.
struct Owned<'r>(std::slice::Iter<'r, Vec<Value>>);

impl<'r> RowSource<'r> for Owned<'r> {
    fn remaining(&self) -> usize {
        self.0.len()
    }

    fn next(&mut self, row: &mut [ValueRef<'r>]) -> Result<bool> {
        let Some(values) = self.0.next() else { return Ok(false) };
        row.iter_mut().zip(values).for_each(|(to, value)| *to = value.as_ref());
        Ok(true)
    }
}

impl Current {
    /// Calls `run` with the operation, and the sink for its rows. The current write of the batch is lent
    /// by the machine.
    ///
    /// # Errors
    /// Those of `run`.
    pub(super) fn lend<T>(
        &self,
        looked: &mut Looked,
        run: impl FnOnce(&mut Operation<'_>, &mut dyn RowSink) -> Result<T>,
    ) -> Result<T> {
        let nothing = &mut NoRows;
        match self {
            Self::Write => Err(Error::new(ErrorKind::Bug, "the current write is not known here")),
            Self::Own(write) => write.with_operation(|operation| run(operation, nothing)),
            Self::Rows(table, rows) => {
                let mut source = Owned(rows.iter());
                run(&mut Operation::insert_many(table, &mut source), nothing)
            }
            Self::Count(table, filter) => {
                run(&mut Operation::Count { table, filter: filter.as_ref() }, nothing)
            }
            Self::List(table, query) => run(&mut Operation::List { table, query }, looked),
            Self::Savepoint => run(&mut Operation::Savepoint(SAVEPOINT), nothing),
            Self::RollbackTo => run(&mut Operation::RollbackTo(SAVEPOINT), nothing),
            Self::Release => run(&mut Operation::Release(SAVEPOINT), nothing),
        }
    }
}
