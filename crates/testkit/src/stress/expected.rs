//! [`Expected`]: the rows that must exist at the end of a stress run.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{Result, RowQuery, RowSink, Table, Value, ValueRef};
use marmota_store::Store;
use marmota_store::operation::Operation;

use super::StressReport;

/// Rows of a page when a table is read.
const PAGE: u64 = 1_000;

/// Returns the key of a row as text, because values have no hash.
pub(crate) fn row_key(key: &Value) -> String {
    format!("{key:?}")
}

/// The rows of all clients, by table.
#[derive(Default)]
pub(super) struct Expected {
    tables: HashMap<String, ExpectedRows>,
}

#[derive(Default)]
pub(super) struct ExpectedRows {
    pub(super) rows: HashMap<String, Vec<Value>>,
    /// The keys of rows of which no client knows whether they exist.
    pub(super) unknown: HashSet<String>,
    /// True if rows may exist that no client knows: the outcome of an insert was lost.
    pub(super) may_have_more: bool,
}

impl Expected {
    /// Notes the rows that exist before the run.
    pub(super) fn before(store: &Store, tables: &[Arc<Table>]) -> Result<Self> {
        let mut expected = Self::default();
        for table in tables {
            each_row(store, table, |row| {
                expected.of(table).unknown.insert(row_key(&row[table.key()]));
            })?;
        }
        Ok(expected)
    }

    pub(super) fn of(&mut self, table: &Table) -> &mut ExpectedRows {
        self.tables.entry(table.name().to_owned()).or_default()
    }

    /// Compares all rows of the tables with the expected ones.
    pub(super) fn compare(
        mut self,
        store: &Store,
        tables: &[Arc<Table>],
        report: &mut StressReport,
    ) -> Result<()> {
        for table in tables {
            let name = table.name();
            let expected = self.of(table);
            each_row(store, table, |row| {
                let key = row_key(&row[table.key()]);
                match expected.rows.remove(&key) {
                    Some(wanted) if wanted == row => {}
                    Some(wanted) => {
                        report.fault(format!("`{name}`: the row {row:?} should be {wanted:?}"));
                    }
                    None if expected.may_have_more || expected.unknown.contains(&key) => {}
                    None => report.fault(format!("`{name}`: no client wrote the row {row:?}")),
                }
            })?;
            for row in expected.rows.values() {
                report.fault(format!("`{name}`: the row {row:?} is lost"));
            }
        }
        Ok(())
    }
}

/// Calls `each` for every row of a table, in the order of keys.
pub(crate) fn each_row(
    store: &Store,
    table: &Arc<Table>,
    mut each: impl FnMut(Vec<Value>),
) -> Result<()> {
    let mut query = RowQuery { limit: Some(PAGE), fields: Some(table.all()), ..RowQuery::new() };
    loop {
        let mut rows = Rows::default();
        store.run(&mut Operation::List { table, query: &query }, &mut rows)?;
        let Some(last) = rows.0.last() else { return Ok(()) };
        query.after = Some(vec![last[table.key()].clone()]);
        rows.0.into_iter().for_each(&mut each);
    }
}

/// Collects rows.
#[derive(Default)]
pub(super) struct Rows(pub(super) Vec<Vec<Value>>);

impl RowSink for Rows {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.0.push(row.iter().map(ValueRef::to_value).collect());
        ControlFlow::Continue(())
    }
}
