//! Tables in memory as virtual tables for SQL: their declaration, the choice of a key or index for
//! a statement, and the rows for its arguments. The calls from SQLite are in
//! `ffi/virtual_table.rs`.
//!
//! A search may return too many rows, never too few: SQLite checks every condition again. An
//! argument of another kind than its field (a text for a number) restricts nothing, because only
//! SQLite defines its meaning.

use std::fmt::Write as _;
use std::sync::Arc;

use marmota_model::{Collation, Index, Kind, Table, ValueRef};
use marmota_sql::quoted;
use marmota_store::borrowed_table::{BorrowedTable, RangeEnd, RowNumbers};

use crate::sql_words::{sql_collation, sql_type};

/// The assumed number of rows of a table, as in SQLite without statistics.
const ROWS: f64 = 1_048_576.0;

/// A declared table.
#[derive(Debug)]
pub(crate) struct VirtualTableShape {
    pub(crate) table: Arc<Table>,
    indexes: Vec<Index>,
}

/// A condition on a field that an index may satisfy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition {
    /// Its index in the statement's constraints.
    pub(crate) place: usize,
    pub(crate) field: usize,
    pub(crate) relation: Relation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A term of the requested order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortedBy {
    /// `None` for the row number.
    pub(crate) field: Option<usize>,
    pub(crate) descending: bool,
}

/// The way a statement finds its rows.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) found: Found,
    /// The indexes of the constraints whose values are needed.
    pub(crate) arguments: Vec<usize>,
    /// True if the rows are in the requested order.
    pub(crate) is_sorted: bool,
    pub(crate) cost: f64,
    pub(crate) rows: i64,
}

impl Plan {
    /// The most arguments of a plan.
    pub(crate) const ARGUMENTS_MAX: usize = 16;
}

/// The source of the rows, encoded in the number that SQLite keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The index; `None` for the key.
    index: Option<usize>,
    /// The number of its first fields that have one value.
    fixed: usize,
    /// True if those are all fields of a key or unique index.
    one: bool,
    /// `None` without a lower bound; otherwise true if the bound is inclusive.
    low: Option<bool>,
    high: Option<bool>,
    reverse: bool,
}

impl Found {
    const BY_KEY: Self =
        Self { index: None, fixed: 0, one: false, low: None, high: None, reverse: false };

    /// Returns true if at most one row is found.
    pub(crate) const fn is_one(&self) -> bool {
        self.one
    }

    /// Returns true if all rows are found.
    pub(crate) fn is_all(&self) -> bool {
        let narrowed = self.fixed > 0 || self.low.is_some() || self.high.is_some();
        !narrowed
    }

    /// Returns true for a single row found by its key.
    pub(crate) fn is_by_key(&self) -> bool {
        self.one && self.index.is_none()
    }

    pub(crate) fn to_number(self) -> i32 {
        let end = |end: Option<bool>| end.map_or(0, |inclusive| 1 + i32::from(inclusive));
        let index = self.index.map_or(0, |index| index as i32 + 1);
        index
            | (self.fixed as i32) << 10
            | end(self.low) << 18
            | end(self.high) << 20
            | i32::from(self.one) << 22
            | i32::from(self.reverse) << 23
    }

    pub(crate) const fn from_number(number: i32) -> Self {
        const fn end(bits: i32) -> Option<bool> {
            match bits & 3 {
                0 => None,
                1 => Some(false),
                _ => Some(true),
            }
        }
        Self {
            index: (number as usize & 0x3ff).checked_sub(1),
            fixed: number as usize >> 10 & 0xff,
            one: number >> 22 & 1 == 1,
            low: end(number >> 18),
            high: end(number >> 20),
            reverse: number >> 23 & 1 == 1,
        }
    }
}

impl VirtualTableShape {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        let indexes = table.indexes();
        Self { table, indexes }
    }

    /// Returns the declaration of the table for SQLite.
    pub(crate) fn declaration(&self) -> String {
        let mut sql = "CREATE TABLE lent(".to_owned();
        for (at, field) in self.table.fields().iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let (name, kind) = (quoted(&field.name), sql_type(&field.kind));
            let null = if field.nullable { "" } else { " NOT NULL" };
            let _ = write!(sql, "{comma}{name} {kind}{null}{}", sql_collation(field));
        }
        sql.push(')');
        sql
    }

    /// Returns true if a condition that compares texts by this collation compares like the field's
    /// indexes.
    pub(crate) fn compares_by(&self, field: usize, collation: &str) -> bool {
        let Some(field) = self.table.fields().get(field) else { return false };
        let own = match field.kind.collation() {
            Collation::Binary => "BINARY",
            Collation::NoCase => "NOCASE",
        };
        !is_text(&field.kind) || collation.eq_ignore_ascii_case(own)
    }

    /// Returns the cheapest plan for the rows that the conditions select.
    pub(crate) fn plan(&self, conditions: &[Condition], sorted_by: &[SortedBy]) -> Plan {
        let mut best = self.by_fields(None, &[self.table.key()], true, conditions, sorted_by);
        // It is unknown whether the conditions imply the filter of a partial index.
        let of_all_rows = |(_, index): &(usize, &Index)| index.filter.is_none();
        for (number, index) in self.indexes.iter().enumerate().filter(of_all_rows) {
            let plan =
                self.by_fields(Some(number), &index.fields, index.unique, conditions, sorted_by);
            if plan.cost < best.cost {
                best = plan;
            }
        }
        best
    }

    fn by_fields(
        &self,
        index: Option<usize>,
        fields: &[usize],
        is_unique: bool,
        conditions: &[Condition],
        sorted_by: &[SortedBy],
    ) -> Plan {
        let find = |field: usize, wanted: &[Relation]| {
            conditions.iter().find(|one| one.field == field && wanted.contains(&one.relation))
        };
        let mut arguments: Vec<usize> = Vec::new();
        for &field in fields.iter().take(Plan::ARGUMENTS_MAX - 2) {
            let Some(equal) = find(field, &[Relation::Equal]) else { break };
            arguments.push(equal.place);
        }
        let fixed = arguments.len();
        let mut found = Found { index, fixed, ..Found::BY_KEY };
        found.one = is_unique && fixed == fields.len();
        let mut rows = ROWS;
        for _ in 0..fixed {
            rows = if index.is_none() || is_unique { rows / 1000.0 } else { rows / 100.0 };
        }
        if let Some(&next) = fields.get(fixed) {
            let mut end = |relations: &[Relation; 2]| {
                let condition = find(next, relations)?;
                arguments.push(condition.place);
                rows /= 4.0;
                Some(condition.relation == relations[1])
            };
            found.low = end(&[Relation::Greater, Relation::GreaterOrEqual]);
            found.high = end(&[Relation::Less, Relation::LessOrEqual]);
        }
        if found.one {
            rows = 1.0;
        }
        let rows = rows.max(1.0);
        let serves = self.serves(fields, fixed, sorted_by, conditions, index.is_some());
        found.reverse = serves == Some(true);
        let is_sorted = found.one || serves.is_some();
        // Rows of an index are scattered, rows by key are adjacent.
        let mut cost = 2.0 + rows * if index.is_some() { 1.5 } else { 1.0 };
        if !is_sorted {
            cost += rows * rows.log2().max(1.0) * 0.5;
        }
        Plan { found, arguments, is_sorted, cost, rows: rows as i64 }
    }

    /// Checks whether rows sorted by `fields` after the first `fixed` ones, which have one value,
    /// and then by the key have the requested order. If so, returns true for the reverse direction.
    fn serves(
        &self,
        fields: &[usize],
        fixed: usize,
        sorted_by: &[SortedBy],
        conditions: &[Condition],
        is_index: bool,
    ) -> Option<bool> {
        let is_fixed = |field: usize| {
            fields[..fixed].contains(&field)
                && conditions.iter().any(|c| c.field == field && c.relation == Relation::Equal)
        };
        let asked: Vec<&SortedBy> =
            sorted_by.iter().filter(|by| !by.field.is_some_and(is_fixed)).collect();
        let Some(first) = asked.first() else { return Some(false) };
        let key = is_index.then(|| self.table.key());
        let given: Vec<usize> = fields[fixed..].iter().copied().chain(key).collect();
        let fits = asked.len() <= given.len()
            && asked
                .iter()
                .zip(&given)
                .all(|(by, field)| by.field == Some(*field) && by.descending == first.descending);
        fits.then_some(first.descending)
    }

    /// Returns the rows for the arguments of a plan, or `None` if they must be sorted first and
    /// `stop` becomes true meanwhile.
    pub(crate) fn find(
        &self,
        table: &dyn BorrowedTable,
        found: &Found,
        arguments: &[ValueRef<'_>],
        stop: &dyn Fn() -> bool,
    ) -> Option<RowNumbers> {
        if arguments.iter().any(ValueRef::is_null) {
            // No value is equal to NULL.
            return Some(RowNumbers::none());
        }
        let key = [self.table.key()];
        let fields: &[usize] = match found.index {
            None => &key,
            Some(index) => match self.indexes.get(index) {
                Some(index) => &index.fields,
                None => return Some(table.by_keys(None, None, found.reverse)),
            },
        };
        let mut ends = arguments.iter().skip(found.fixed);
        let next = fields.get(found.fixed);
        let mut end = |inclusive: Option<bool>| -> Option<RangeEnd<'_>> {
            let Some(inclusive) = inclusive else { return Some(None) };
            Some(Some((self.argument(*next?, *ends.next()?)?, inclusive)))
        };
        let (low, high) = (end(found.low), end(found.high));
        let mut values = [ValueRef::Null; Plan::ARGUMENTS_MAX];
        let mut known = low.is_some() && high.is_some() && arguments.len() >= found.fixed;
        for ((value, field), argument) in
            values.iter_mut().zip(fields).zip(arguments).take(found.fixed)
        {
            match self.argument(*field, *argument) {
                Some(of_kind) => *value = of_kind,
                None => known = false,
            }
        }
        let (true, Some(low), Some(high)) = (known, low, high) else {
            return match found.index {
                None => Some(table.by_keys(None, None, found.reverse)),
                Some(_) => {
                    let rest = fields.get(found.fixed..).unwrap_or(&[]);
                    table.sorted(rest, found.reverse, stop)
                }
            };
        };
        let values = &values[..found.fixed.min(values.len())];
        Some(match (found.index, values) {
            (None, [key]) => table.by_key(*key),
            (None, _) => table.by_keys(low, high, found.reverse),
            (Some(index), values) if found.one => table.by_unique(index, values),
            (Some(index), values) => table.by_index(index, values, low, high, found.reverse),
        })
    }

    /// Converts an argument to the kind of the field that it is compared with. Returns `None` if it
    /// is of another kind.
    fn argument<'v>(&self, field: usize, argument: ValueRef<'v>) -> Option<ValueRef<'v>> {
        /// Above this, not every integer is a float.
        const EXACT_MAX: u64 = 1 << 53;
        match (&self.table.fields().get(field)?.kind, argument) {
            (Kind::Bool, ValueRef::Int(value)) if !matches!(value, 0 | 1) => None,
            (Kind::Float, ValueRef::Int(value)) if value.unsigned_abs() > EXACT_MAX => None,
            (_, ValueRef::Absent) => None,
            (kind, argument) => kind.read_stored(argument),
        }
    }
}

/// Returns true for kinds that are stored as text.
fn is_text(kind: &Kind) -> bool {
    sql_type(kind) == "TEXT"
}

#[cfg(test)]
mod tests {
    use super::*;
    use marmota_model::{Field, Role, Schema};

    fn shape() -> VirtualTableShape {
        let mut schema = Schema::new(
            "person",
            vec![
                Field::new("id", Kind::I64).role(Role::Key),
                Field::new("email", Kind::TEXT).unique(true),
                Field::new("city", Kind::TEXT),
                Field::new("year", Kind::I64),
            ],
        );
        schema.indexes = vec![Index::new(vec![2, 3])].into();
        VirtualTableShape::new(Arc::new(Table::new(schema).unwrap()))
    }

    fn conditions(of: &[(usize, Relation)]) -> Vec<Condition> {
        let made = of.iter().enumerate();
        made.map(|(place, &(field, relation))| Condition { place, field, relation }).collect()
    }

    fn by(field: usize, descending: bool) -> SortedBy {
        SortedBy { field: Some(field), descending }
    }

    #[test]
    fn a_plan_goes_through_its_number() {
        for index in [None, Some(0), Some(200)] {
            for end in [None, Some(false), Some(true)] {
                let found =
                    Found { index, fixed: 3, one: true, low: end, high: None, reverse: true };
                assert_eq!(Found::from_number(found.to_number()), found);
                let found = Found { index, fixed: 0, high: end, ..Found::BY_KEY };
                assert_eq!(Found::from_number(found.to_number()), found);
            }
        }
    }

    #[test]
    fn the_key_and_indexes_are_used() {
        use Relation::{Equal, Greater, LessOrEqual};
        let shape = shape();
        let plan = shape.plan(&conditions(&[(3, Equal), (0, Equal)]), &[]);
        assert_eq!((plan.found.index, plan.found.one, &*plan.arguments), (None, true, &[1][..]));
        let email = shape.indexes.iter().position(|index| index.unique);
        let plan = shape.plan(&conditions(&[(1, Equal)]), &[by(3, true)]);
        assert_eq!((plan.found.index, plan.found.one, plan.is_sorted), (email, true, true));
        let city = shape.indexes.iter().position(|index| !index.unique);
        let plan = shape.plan(&conditions(&[(2, Equal), (3, LessOrEqual)]), &[by(3, true)]);
        assert_eq!((plan.found.index, plan.found.fixed, plan.found.high), (city, 1, Some(true)));
        assert!(plan.is_sorted && plan.found.reverse);
        let plan = shape.plan(&conditions(&[(0, Greater)]), &[by(0, false)]);
        assert_eq!((plan.found.index, plan.found.low), (None, Some(false)));
        assert!(plan.is_sorted && !plan.found.reverse);
        let plan = shape.plan(&[], &[by(2, false), by(3, true)]);
        assert!(!plan.is_sorted, "no index goes both ways");
        let plan = shape.plan(&[], &[by(2, true), by(3, true), by(0, true)]);
        assert!(plan.is_sorted && plan.found.reverse);
        assert_eq!(plan.found.index, city);
    }
}
