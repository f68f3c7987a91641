//! Properties of a table in the database that its model does not determine: its numbers, the names
//! of its constraints, and how its columns differ from their fields.

use marmota_model::{Error, FieldSet, Result, Table, ValueRef, Violation};

use super::column_limit::{Limit, too_exact, violation};

/// Properties of a table in the database in addition to its model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The table's OID.
    pub(crate) oid: u32,
    /// The numbers of its columns, with the positions of their fields.
    pub(crate) columns: Vec<(i16, usize)>,
    /// The sequence of automatic keys, as an SQL literal.
    pub(crate) sequence: Option<String>,
    /// Unique indexes by name, with the positions of their fields.
    pub(crate) uniques: Vec<(String, Vec<usize>)>,
    /// Foreign keys by name, with the position of their field.
    pub(crate) references: Vec<(String, usize)>,
    /// Fields whose columns have a smaller range than the field.
    pub(crate) limits: Vec<(usize, Limit)>,
    /// Fields whose columns have fewer decimals than the field, with their number: the server would
    /// round other values.
    pub(crate) decimals: Vec<(usize, u32)>,
    /// Fields whose columns sort texts by the rules of a language.
    pub(crate) collated: FieldSet,
    /// True if a column has another type than its field requires: the server converts values, which
    /// a binary COPY does not.
    pub(crate) converts: bool,
    /// True if the database does not generate automatic keys: each row must contain its key.
    pub(crate) lacks_keys: bool,
}

impl Facts {
    /// Returns the violations for the values of a row that do not fit their columns.
    #[cold]
    pub(crate) fn beyond(&self, table: &Table, row: &[ValueRef<'_>]) -> Vec<Violation> {
        let does_not_fit = |&&(position, limit): &&(usize, Limit)| {
            row.get(position).is_some_and(|value| !limit.takes(*value))
        };
        let beyond = self.limits.iter().filter(does_not_fit);
        beyond.map(|&(at, limit)| violation(table, at, row[at], limit)).collect()
    }

    /// Refuses values with more decimals than their columns, which the server would round.
    pub(crate) fn check_decimals(&self, table: &Table, row: &[ValueRef<'_>]) -> Result<()> {
        let is_too_exact = |&&(position, decimals): &&(usize, u32)| match row.get(position) {
            Some(ValueRef::Currency(value)) => {
                value.scaled() % 10_i64.pow(4_u32.saturating_sub(decimals)) != 0
            }
            _ => false,
        };
        let violations: Vec<Violation> = self
            .decimals
            .iter()
            .filter(is_too_exact)
            .map(|&(position, decimals)| too_exact(table, position, row[position], decimals))
            .collect();
        if violations.is_empty() { Ok(()) } else { Err(Error::invalid(violations)) }
    }

    /// Returns the violation for a sum that does not fit its column.
    #[cold]
    pub(crate) fn beyond_by(
        &self,
        table: &Table,
        position: usize,
        by: ValueRef<'_>,
    ) -> Option<Violation> {
        let (_, limit) = self.limits.iter().find(|(limited, _)| *limited == position)?;
        let mut violation = violation(table, position, by, *limit);
        violation.message = format!("the sum {}", violation.message);
        Some(violation)
    }
}
