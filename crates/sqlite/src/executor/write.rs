//! Writes of one row, and deletes by a filter.

use std::fmt::Write as _;
use std::sync::Arc;

use marmota_model::rule::violation;
use marmota_model::{
    Currency, Error, ErrorKind, FieldSet, FilterExpr, Kind, Result, Table, Value, ValueRef,
};
use marmota_sql::quoted;
use marmota_sql::where_sql;
use marmota_store::operation::{Keys, Outcome};
use marmota_store::prepare::no_target;
use marmota_store::refusal;

use crate::executor::Executor;
use crate::fault;
use crate::ffi::{Bound, Cells, Failure, Run, code};
use crate::statement::column::{bind_present, bound};
use crate::statement::filter_shape::{Sql, bind_filter};
use crate::statement::key::{bind_key, key_condition, stored};
use crate::statement::{Head, Verb};

/// The handling of the version in an update.
///
/// RETURNING doubles the cost of an update (536 k per second in memory, compared with 996 k that
/// compare a version given by the caller), so it is used only for an unknown version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Versioned {
    /// Increments it, if the table has one, and returns the new one.
    Given,
    /// Increments and compares it.
    Compared,
    /// Increments it.
    Counted,
}

impl Executor {
    pub(crate) fn insert(
        &mut self,
        table: &Table,
        row: &[ValueRef<'_>],
        outcome: &mut Outcome,
    ) -> Result<()> {
        let number = self.number(table)?;
        let fields = FieldSet::present(row);
        let head = Head { verb: Verb::Insert, table: number, fields, variant: 1 };
        let place = self.statement(head, |_| (insert_sql(table, row, 1), Box::default()))?;
        let done = {
            let mut run = self.connection.start(self.statements.at(place).id);
            bind_present(&mut run, table, row);
            run.run_out()
        };
        if let Err(failure) = done {
            return Err(self.not_inserted(&failure, table, row));
        }
        outcome.rows = 1;
        if row[table.key()].is_absent() {
            outcome.keys = Keys::One(Value::Int(self.connection.last_insert_rowid()));
        }
        outcome.version = table.version().and_then(|version| row[version].as_int());
        Ok(())
    }

    pub(crate) fn update(
        &mut self,
        table: &Table,
        key: &ValueRef<'_>,
        row: &[ValueRef<'_>],
        version: Option<i64>,
    ) -> Result<Outcome> {
        let versioned = match (table.version(), version) {
            (Some(_), None) => Versioned::Given,
            (Some(_), Some(_)) => Versioned::Compared,
            (None, _) => Versioned::Counted,
        };
        let place = match self.update_statement(table, row, versioned)? {
            Some(place) => place,
            None => return self.require(table, key).map(|()| Outcome::rows(1)),
        };
        let values = table.key_values(*key);
        let (changed, given) = {
            let mut run = self.connection.start(self.statements.at(place).id);
            bind_written(&mut run, table, row);
            bind_key(&mut run, key, &values);
            match (versioned, version) {
                (Versioned::Given, _) => match run.step() {
                    Ok(true) => {
                        let given = run.row(&mut Cells::<1>::new()).at(0).int();
                        (run.finish().map(|_| 1), Some(given))
                    }
                    Ok(false) => (Ok(0), None),
                    Err(failure) => (Err(failure), None),
                },
                (Versioned::Compared, Some(version)) => {
                    run.bind(Bound::int(version));
                    (run.finish(), version.checked_add(1))
                }
                _ => (run.finish(), None),
            }
        };
        match changed {
            Ok(0) => Err(self.missing(table, key, version)),
            Ok(_) => Ok(Outcome { rows: 1, version: given, ..Outcome::default() }),
            Err(failure) => Err(self.refused(&failure, table, row)),
        }
    }

    /// Returns the statement of an update, or `None` if it writes nothing.
    pub(crate) fn update_statement(
        &mut self,
        table: &Table,
        row: &[ValueRef<'_>],
        versioned: Versioned,
    ) -> Result<Option<usize>> {
        let number = self.number(table)?;
        let (fields, variant) = (FieldSet::present(row), versioned as u32);
        let head = Head { verb: Verb::Update, table: number, fields, variant };
        if let Some(place) = self.statements.find(&head, &self.shape.bytes) {
            return Ok(Some(place));
        }
        if written(table, row).next().is_none() && table.version().is_none() {
            return Ok(None);
        }
        let made = |_: &Self| (update_sql(table, row, versioned), Box::default());
        self.statement(head, made).map(Some)
    }

    pub(crate) fn increment(
        &mut self,
        table: &Table,
        key: &ValueRef<'_>,
        position: usize,
        by: ValueRef<'_>,
        stamp: &ValueRef<'_>,
    ) -> Result<Outcome> {
        let field = &table.fields()[position];
        let (min, max, by) = match (&field.kind, by) {
            (Kind::Int { min, max }, ValueRef::Int(by)) => (*min, *max, by),
            (Kind::Currency, ValueRef::Currency(by)) => (i64::MIN, i64::MAX, by.scaled()),
            _ => {
                let message = "only integer and currency fields can be incremented, by a value of \
                               the same kind";
                return Err(Error::invalid(vec![violation(field, by, "type", message)]));
            }
        };
        let number = self.number(table)?;
        let fields = FieldSet::EMPTY.with(position);
        let head = Head { verb: Verb::Increment, table: number, fields, variant: 0 };
        let place = self.statement(head, |_| (increment_sql(table, position), Box::default()))?;
        // The sum fits if the old value is between these bounds. This check cannot overflow (SQLite
        // would continue with floats).
        let (low, high) = (i128::from(min) - i128::from(by), i128::from(max) - i128::from(by));
        let (low, high) = match (
            i64::try_from(low.max(i64::MIN.into())),
            i64::try_from(high.min(i64::MAX.into())),
        ) {
            (Ok(low), Ok(high)) => (low, high),
            _ => (1, 0),
        };
        let statement = self.statements.at(place);
        let values = table.key_values(*key);
        let mut run = self.connection.start(statement.id);
        run.bind(Bound::int(by));
        if table.updated_at().is_some() {
            run.bind(bound(stamp));
        }
        bind_key(&mut run, key, &values);
        run.bind(Bound::int(low));
        run.bind(Bound::int(high));
        let stepped = run.step();
        if let Err(failure) = stepped {
            drop(run);
            return Err(self.refused(&failure, table, &[]));
        }
        if !stepped.is_ok_and(|row| row) {
            drop(run);
            return Err(self.not_incremented(table, key, position, by));
        }
        let mut cells = Cells::<2>::new();
        let row = run.row(&mut cells);
        let sum = match field.kind {
            Kind::Currency => Value::Currency(Currency::from_scaled(row.at(0).int())),
            _ => Value::Int(row.at(0).int()),
        };
        let version = table.version().map(|_| row.at(1).int());
        if let Err(failure) = run.finish() {
            return Err(self.refused(&failure, table, &[]));
        }
        Ok(Outcome { rows: 1, version, value: sum, ..Outcome::default() })
    }

    /// Returns the reason why an increment found no row.
    #[cold]
    fn not_incremented(
        &mut self,
        table: &Table,
        key: &ValueRef<'_>,
        position: usize,
        by: i64,
    ) -> Error {
        let mut old = Value::Absent;
        let fields = FieldSet::EMPTY.with(position);
        let mut keep = |row: &[ValueRef<'_>]| {
            old = row[position].to_value();
            std::ops::ControlFlow::Break(())
        };
        if let Err(error) = self.get(table, key, fields, &mut keep) {
            return error;
        }
        let field = &table.fields()[position];
        let (rule, message) = match old {
            Value::Absent => return refusal::not_found(table, *key),
            Value::Null => {
                ("required", "is null and cannot be incremented; set a value first".to_owned())
            }
            _ => {
                let by = match field.kind {
                    Kind::Currency => Currency::from_scaled(by).to_string(),
                    _ => by.to_string(),
                };
                ("range", format!("would be out of range after an increment by {by}"))
            }
        };
        Error::invalid(vec![violation(field, old.as_ref(), rule, message)])
    }

    pub(crate) fn delete(
        &mut self,
        table: &Table,
        key: &ValueRef<'_>,
        version: Option<i64>,
    ) -> Result<Outcome> {
        let number = self.number(table)?;
        let version = version.filter(|_| table.version().is_some());
        let variant = u32::from(version.is_some());
        let head = Head { verb: Verb::Delete, table: number, fields: FieldSet::EMPTY, variant };
        let place = self.statement(head, |_| {
            let mut sql = format!("DELETE FROM {}{}", quoted(table.name()), by_key(table));
            if version.is_some() {
                let _ = write!(sql, " AND {}=?", version_name(table));
            }
            (sql, Box::default())
        })?;
        let values = table.key_values(*key);
        let mut run = self.connection.start(self.statements.at(place).id);
        bind_key(&mut run, key, &values);
        if let Some(version) = version {
            run.bind(Bound::int(version));
        }
        match run.finish() {
            Ok(0) => Err(self.missing(table, key, version)),
            Ok(_) => Ok(Outcome::rows(1)),
            Err(failure) => Err(self.kept(&failure, table, Some(key))),
        }
    }

    pub(crate) fn delete_where(
        &mut self,
        table: &Table,
        filter: Option<&FilterExpr>,
    ) -> Result<Outcome> {
        let number = self.number(table)?;
        if let Some(filter) = filter {
            self.shape.filter(table, filter)?;
        }
        let fields = FieldSet::EMPTY;
        let head = Head { verb: Verb::DeleteWhere, table: number, fields, variant: 0 };
        let place = self.statement(head, |_| {
            let mut sql = Sql(format!("DELETE FROM {}", quoted(table.name())));
            where_sql(&mut sql, table, filter);
            (sql.0, Box::default())
        })?;
        let mut run = self.connection.start(self.statements.at(place).id);
        if let Some(filter) = filter {
            bind_filter(&mut run, table, filter, &mut self.shape.made.iter())?;
        }
        match run.finish() {
            Ok(rows) => Ok(Outcome::rows(rows)),
            Err(failure) => Err(self.kept(&failure, table, None)),
        }
    }

    /// Returns the version of the row with this key (0 if the table has no versions), or `None` if
    /// the row does not exist.
    fn version(&mut self, table: &Table, key: &ValueRef<'_>) -> Result<Option<i64>> {
        let number = self.number(table)?;
        let fields = FieldSet::EMPTY;
        let head = Head { verb: Verb::Version, table: number, fields, variant: 0 };
        let place = self.statement(head, |_| {
            let name = table.version().map_or_else(|| "0".to_owned(), |_| version_name(table));
            let sql = format!("SELECT {name} FROM {}{}", quoted(table.name()), by_key(table));
            (sql, Box::default())
        })?;
        let values = table.key_values(*key);
        let mut run = self.connection.start(self.statements.at(place).id);
        bind_key(&mut run, key, &values);
        let found = run.step().map_err(|failure| fault::of(&failure))?;
        Ok(found.then(|| run.row(&mut Cells::<1>::new()).at(0).int()))
    }

    /// # Errors
    /// [`ErrorKind::NotFound`] if no row has this key.
    pub(crate) fn require(&mut self, table: &Table, key: &ValueRef<'_>) -> Result<()> {
        match self.version(table, key)? {
            Some(_) => Ok(()),
            None => Err(refusal::not_found(table, *key)),
        }
    }

    /// Returns the reason why a write found no row.
    #[cold]
    pub(crate) fn missing(
        &mut self,
        table: &Table,
        key: &ValueRef<'_>,
        expected: Option<i64>,
    ) -> Error {
        match (self.version(table, key), expected) {
            (Err(error), _) => error,
            (Ok(Some(version)), Some(expected)) => refusal::stale(table, *key, version, expected),
            _ => refusal::not_found(table, *key),
        }
    }

    /// Returns the error of a refused row. For references, it looks up which one has no target.
    #[cold]
    pub(crate) fn refused(
        &mut self,
        failure: &Failure,
        table: &Table,
        row: &[ValueRef<'_>],
    ) -> Error {
        self.refused_of(failure, table, row, None, &[])
    }

    /// Like [`Self::refused`] for a row that does not exist yet and may refer to itself.
    #[cold]
    pub(crate) fn not_inserted(
        &mut self,
        failure: &Failure,
        table: &Table,
        row: &[ValueRef<'_>],
    ) -> Error {
        self.not_put(failure, table, row, &[])
    }

    /// Like [`Self::not_inserted`] for a row that replaces the rows with these keys.
    #[cold]
    pub(crate) fn not_put(
        &mut self,
        failure: &Failure,
        table: &Table,
        row: &[ValueRef<'_>],
        going: &[Value],
    ) -> Error {
        let own_key = self.own_key(table, row);
        self.refused_of(failure, table, row, own_key, going)
    }

    fn refused_of(
        &mut self,
        failure: &Failure,
        table: &Table,
        row: &[ValueRef<'_>],
        own_key: Option<ValueRef<'_>>,
        going: &[Value],
    ) -> Error {
        if failure.code() != code::CONSTRAINT_FOREIGNKEY {
            return fault::of_row(failure, table, row);
        }
        let mut violations = Vec::new();
        for (field, value) in table.fields().iter().zip(row) {
            let Kind::Reference { table: to, .. } = &field.kind else { continue };
            let to_itself = to == table.name() && Some(*value) == own_key;
            if value.is_null() || value.is_absent() || to_itself {
                continue;
            }
            self.tables.learn();
            let target = self.tables.named(to).cloned();
            let goes = to == table.name() && going.iter().any(|key| key.as_ref() == *value);
            let exists = target.map(|target| self.version(&target, value));
            if goes || matches!(exists, Some(Ok(None))) {
                violations.push(no_target(field, *value, to));
            }
        }
        match violations.len() {
            0 => Error::new(ErrorKind::Invalid, "a reference has no target"),
            _ => Error::invalid(violations),
        }
    }

    /// Returns the key that a refused row has or would have received.
    fn own_key<'r>(&mut self, table: &Table, row: &[ValueRef<'r>]) -> Option<ValueRef<'r>> {
        let key = *row.get(table.key())?;
        if !key.is_absent() {
            return Some(key);
        }
        let (id, table) = (name(table, table.key()), quoted(table.name()));
        let mut next = None;
        let sql = format!("SELECT coalesce(max({id}),0)+1 FROM {table}");
        let looked = self.connection.query(&sql, |row| next = Some(ValueRef::Int(row.at(0).int())));
        looked.ok().and(next)
    }

    /// Returns the error of a row that cannot be deleted, after looking up its referrers.
    #[cold]
    pub(crate) fn kept(
        &mut self,
        failure: &Failure,
        table: &Table,
        key: Option<&ValueRef<'_>>,
    ) -> Error {
        if failure.code() != code::CONSTRAINT_FOREIGNKEY {
            return fault::of(failure);
        }
        refusal::still_referred_to(table, key.copied(), &self.referrers(table, key))
    }

    /// Returns the fields that refer to the row with this key, or to any row without one.
    #[cold]
    pub(crate) fn referrers(
        &mut self,
        table: &Table,
        key: Option<&ValueRef<'_>>,
    ) -> Vec<(Arc<Table>, usize)> {
        self.tables.learn();
        let mut by = Vec::new();
        for (other, position) in self.tables.references_to(table.name()) {
            let refers = match key {
                None => true,
                Some(key) => {
                    let filter = FilterExpr::Compare {
                        field: position,
                        comparison: marmota_model::Comparison::Equal,
                        value: key.to_value(),
                    };
                    self.count(&other, Some(&filter)).is_ok_and(|rows| rows > 0)
                }
            };
            if refers {
                by.push((other, position));
            }
        }
        by
    }
}

/// Returns the fields that an update writes: those present and stored except the key and the version.
fn written(table: &Table, row: &[ValueRef<'_>]) -> impl Iterator<Item = usize> {
    let left_out = table.made_fields().with(table.key());
    let left_out = table.version().map_or(left_out, |version| left_out.with(version));
    let present = row.iter().enumerate().filter(|(_, value)| !value.is_absent());
    present.map(|(position, _)| position).filter(move |&position| !left_out.contains(position))
}

/// Binds the values that an update writes.
pub(crate) fn bind_written<'v>(run: &mut Run<'_, 'v>, table: &Table, row: &'v [ValueRef<'v>]) {
    written(table, row).for_each(|position| run.bind(bound(&row[position])));
}

fn name(table: &Table, position: usize) -> String {
    quoted(&table.fields()[position].name)
}

fn version_name(table: &Table) -> String {
    table.version().map_or_else(String::new, |version| name(table, version))
}

fn by_key(table: &Table) -> String {
    format!(" WHERE {}", key_condition(table))
}

/// Returns an insert of `rows` rows with the fields present in `row`.
pub(crate) fn insert_sql(table: &Table, row: &[ValueRef<'_>], rows: usize) -> String {
    let table_name = quoted(table.name());
    let present = stored(table).filter(|&position| !row[position].is_absent());
    let names: Vec<String> = present.map(|position| name(table, position)).collect();
    if names.is_empty() {
        return format!("INSERT INTO {table_name} DEFAULT VALUES");
    }
    let row = format!("(?{})", ",?".repeat(names.len() - 1));
    let more = format!(",{row}").repeat(rows - 1);
    format!("INSERT INTO {table_name} ({}) VALUES {row}{more}", names.join(","))
}

fn update_sql(table: &Table, row: &[ValueRef<'_>], versioned: Versioned) -> String {
    let mut set: Vec<String> =
        written(table, row).map(|position| format!("{}=?", name(table, position))).collect();
    let version = version_name(table);
    if !version.is_empty() {
        set.push(format!("{version}={version}+1"));
    }
    let mut sql = format!("UPDATE {} SET {}{}", quoted(table.name()), set.join(","), by_key(table));
    let _ = match versioned {
        Versioned::Given => write!(sql, " RETURNING {version}"),
        Versioned::Compared => write!(sql, " AND {version}=?"),
        Versioned::Counted => Ok(()),
    };
    sql
}

fn increment_sql(table: &Table, position: usize) -> String {
    let sum = name(table, position);
    let mut sql = format!("UPDATE {} SET {sum}={sum}+?", quoted(table.name()));
    if let Some(updated_at) = table.updated_at() {
        let _ = write!(sql, ",{}=?", name(table, updated_at));
    }
    let version = version_name(table);
    let comma = if version.is_empty() { "" } else { "," };
    if !version.is_empty() {
        let _ = write!(sql, ",{version}={version}+1");
    }
    let _ =
        write!(sql, "{} AND {sum} BETWEEN ? AND ? RETURNING {sum}{comma}{version}", by_key(table));
    sql
}
