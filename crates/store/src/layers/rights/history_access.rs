//! Access to the history: which row the entries of a read belong to, and whether the caller may
//! read that row.
//!
//! A caller with access to the whole history reads it like any table. Others may read the entries
//! of one row, named by the filter of the read: a table and a key, each compared for equality. A
//! read without such a filter is narrowed to the tables whose history is granted without a rule.

use marmota_model::{Comparison, FilterExpr, KeyKind, Result, Table, Value};

use crate::contract::operation::Operation;
use crate::rights::{Access, Right, Rights, TableRights};
use crate::rows::history::{HISTORY_TABLE, History};

/// The rows whose history entries a read requests.
pub(super) enum HistoryOf<'r> {
    /// No particular row.
    Any,
    /// A row that the caller may read.
    Open,
    /// A row of this table, if this filter selects it.
    If(&'r Table, FilterExpr),
}

impl Rights {
    /// Returns the rows whose entries a read of the history requests.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`](marmota_model::ErrorKind::Denied) for a table whose history the caller
    /// may not read.
    pub(super) fn history_of(&self, operation: &Operation<'_>) -> Result<HistoryOf<'_>> {
        let (table, filter) = match operation {
            Operation::List { table, query } => (*table, query.filter.as_ref()),
            Operation::Count { table, filter } => (*table, *filter),
            _ => return Ok(HistoryOf::Any),
        };
        if table.name() != HISTORY_TABLE || self.of(table)?.read.is_all() {
            return Ok(HistoryOf::Any);
        }
        let Some((of, key)) = filter.and_then(|filter| self.pinned(filter)) else {
            return Ok(HistoryOf::Any);
        };
        let key_value = match of.table.key_kind() {
            KeyKind::Auto => key.parse().ok().map(Value::Int),
            KeyKind::Uuid => key.parse().ok().map(Value::Uuid),
            KeyKind::Text => Some(Value::Text(key.to_owned())),
        };
        match (&of.history, key_value) {
            (Access::Denied, _) => Err(self.denied(Right::History, &of.table)),
            (Access::All, _) => Ok(HistoryOf::Open),
            (Access::Where(_), None) => Ok(HistoryOf::Any),
            (access @ Access::Where(_), Some(value)) => {
                let field = of.table.key();
                let row = FilterExpr::Compare { field, comparison: Comparison::Equal, value };
                let filter = access.narrow(Some(row)).unwrap_or(FilterExpr::Or(Vec::new()));
                Ok(HistoryOf::If(&of.table, filter))
            }
        }
    }

    /// Returns the table and the key of the row, if a filter only selects the entries of one row.
    fn pinned<'f>(&self, filter: &'f FilterExpr) -> Option<(&TableRights, &'f str)> {
        let (mut names, mut key) = (None, None);
        let mut look = |filter: &'f FilterExpr| match filter {
            FilterExpr::Compare {
                field,
                comparison: Comparison::Equal,
                value: Value::Text(text),
            } => {
                if *field == History::OF_TABLE.position() {
                    names = Some(vec![&**text]);
                } else if *field == History::OF_KEY.position() {
                    key = Some(&**text);
                }
            }
            FilterExpr::In { field, values } if *field == History::OF_TABLE.position() => {
                names = values.iter().map(|value| value.as_ref().as_text()).collect();
            }
            _ => {}
        };
        each_of(filter, &mut look);
        let (names, key): (Vec<&str>, _) = (names?, key?);
        let of = self.tables.iter().find(|rights| names.contains(&rights.table.name()))?;
        let of_it = |name: &&str| {
            **name == *of.table.name() || of.table.schema().was.as_deref() == Some(*name)
        };
        names.iter().all(of_it).then_some((of, key))
    }
}

/// Calls `with` for each filter that has to be true.
fn each_of<'f>(filter: &'f FilterExpr, with: &mut impl FnMut(&'f FilterExpr)) {
    match filter {
        FilterExpr::And(all) => all.iter().for_each(|one| each_of(one, with)),
        one => with(one),
    }
}
