//! Carries out operations on tables that are locked: each is all or nothing.

use marmota_model::rule::violation;
use marmota_model::{
    Collation, Currency, Error, ErrorKind, FieldSet, FilterExpr, KeyKind, Result, RowSink,
    RowSource, ValueRef,
};
use marmota_store::predicate::Predicate;
use smallvec::smallvec;

use super::catalog::Catalog;
use super::conflict;
use super::locked::{Locked, Needs, NotNow};
use super::log::{Log, Statement, without};
use super::long_scan::{Budget, LongScan};
use super::plan::Search;
use super::scan::Read;
use super::table_rows::{TableRows, Values};
use marmota_store::operation::{BatchMachine, BatchParts, Keys, OnConflict, Operation, Outcome};
use marmota_store::prepare::no_target;

/// Carries out an operation that is about rows, of the table with this number
/// unless it is a batch; gives a read that has turns left.
pub(super) fn execute(
    operation: &mut Operation<'_>,
    table: u32,
    sink: &mut dyn RowSink,
    locked: &mut Locked<'_>,
    log: &mut Log,
    outcome: &mut Outcome,
) -> Result<Option<Box<LongScan>>> {
    *outcome = match operation {
        Operation::Get { key, fields, .. } => {
            outcome.rows = locked.rows(table)?.get(*key, *fields, sink);
            return Ok(None);
        }
        Operation::Insert { row, on_conflict: OnConflict::Refuse, .. } => {
            return insert(locked, log, table, row, outcome).map(|()| None);
        }
        Operation::Insert { row, on_conflict, .. } => {
            conflict::insert(locked, log, table, row, *on_conflict)
        }
        Operation::List { query, .. } => match locked.rows(table)?.list(query, sink)? {
            Read::Done(rows) => Ok(Outcome::rows(rows)),
            Read::Over(scan) => return Ok(Some(scan)),
        },
        Operation::Count { filter, .. } => match locked.rows(table)?.count(*filter)? {
            Read::Done(rows) => Ok(Outcome::rows(rows)),
            Read::Over(scan) => return Ok(Some(scan)),
        },
        Operation::InsertMany { rows, on_conflict: OnConflict::Refuse, .. } => {
            insert_many(locked, log, table, *rows)
        }
        Operation::InsertMany { rows, on_conflict, .. } => {
            conflict::insert_many(locked, log, table, *rows, *on_conflict)
        }
        Operation::Update { key, row, version, .. } => {
            update(locked, log, table, *key, row, *version)
        }
        Operation::UpdateMany { rows, .. } => update_many(locked, log, table, *rows),
        Operation::Increment { key, field, by, stamp, .. } => {
            increment(locked, log, table, *key, *field, *by, *stamp)
        }
        Operation::Delete { key, version, .. } => delete(locked, log, table, *key, *version),
        Operation::DeleteWhere { filter, .. } => {
            let found = locked.rows(table)?.numbers(*filter)?;
            delete_rows(locked, log, table, found)
        }
        Operation::Batch { .. } => batch(locked, log, operation),
        _ => Err(unexpected()),
    }?;
    Ok(None)
}

#[cold]
fn unexpected() -> Error {
    Error::new(ErrorKind::Bug, "the memory engine was given an operation that is not about rows")
}

fn insert(
    locked: &mut Locked<'_>,
    log: &mut Log,
    table: u32,
    row: &[ValueRef<'_>],
    outcome: &mut Outcome,
) -> Result<()> {
    let number = insert_row(locked, log, table, row, true)?;
    let rows = locked.rows(table)?;
    outcome.rows = 1;
    if row[rows.table.key()].is_absent() {
        outcome.keys = Keys::One(rows.pages.value(number, rows.table.key()).to_value());
    }
    outcome.version = version_of(rows, number);
    Ok(())
}

/// Inserts a row; what it refers to in its own table is looked at only
/// `with_own`.
pub(super) fn insert_row(
    locked: &mut Locked<'_>,
    log: &mut Log,
    table: u32,
    row: &[ValueRef<'_>],
    with_own: bool,
) -> Result<u32> {
    let number = locked.rows_mut(table)?.insert(row)?;
    if let Err(error) = check_references_of(locked, table, number, with_own) {
        locked.rows_mut(table)?.remove(number);
        return Err(error);
    }
    log.inserted(table, number);
    Ok(number)
}

fn insert_many<'a>(
    locked: &mut Locked<'_>,
    log: &mut Log,
    table: u32,
    source: &mut dyn RowSource<'a>,
) -> Result<Outcome> {
    let is_own = refers_to_itself(locked, table);
    let statement = Statement::new(locked, log);
    let schema = &statement.locked.slot(table).table;
    let mut row: Values<'a> = smallvec![ValueRef::Absent; schema.fields().len()];
    let (mut count, mut first, mut inserted) = (0, None, Vec::new());
    while source.next(&mut row)? {
        let is_auto = row[schema.key()].is_absent() && schema.key_kind() == KeyKind::Auto;
        let number = insert_row(statement.locked, statement.log, table, &row, false)
            .map_err(|error| at_row(count, &error))?;
        if is_auto && first.is_none() {
            first = statement.locked.rows(table)?.pages.value(number, schema.key()).as_int();
        }
        if is_own {
            inserted.push(number);
        }
        count += 1;
    }
    for (index, number) in (0..).zip(inserted) {
        check_references_of(statement.locked, table, number, true)
            .map_err(|error| at_row(index, &error))?;
    }
    statement.keep();
    let keys = first.map_or(Keys::Known, |first| Keys::Range { first });
    Ok(Outcome { keys, ..Outcome::rows(count) })
}

fn update(
    locked: &mut Locked<'_>,
    log: &mut Log,
    table: u32,
    key: ValueRef<'_>,
    row: &[ValueRef<'_>],
    expected: Option<i64>,
) -> Result<Outcome> {
    let number = find_row(locked, table, key)?;
    check_version(locked.rows(table)?, number, key, expected)?;
    update_row(locked, log, table, number, row)?;
    let mut outcome = Outcome::rows(1);
    outcome.version = version_of(locked.rows(table)?, number);
    Ok(outcome)
}

/// Writes the fields that are there but the key, and counts the version.
pub(super) fn update_row(
    locked: &mut Locked<'_>,
    log: &mut Log,
    table: u32,
    number: u32,
    row: &[ValueRef<'_>],
) -> Result<()> {
    let schema = &locked.slot(table).table;
    let mut changes = without(row, &[schema.key()]);
    if let (Some(field), Some(version)) =
        (schema.version(), version_of(locked.rows(table)?, number))
    {
        changes[field] = ValueRef::Int(version.checked_add(1).ok_or_else(|| {
            let field = &schema.fields()[field];
            let message = "has reached the highest number there is";
            Error::invalid(vec![violation(field, ValueRef::Int(version), "range", message)])
        })?);
    }
    locked.rows(table)?.check_update(number, &changes)?;
    check_references(locked, table, true, |field| changes[field])?;
    log.updating(locked, table, number, FieldSet::present(&changes))?;
    locked.rows_mut(table)?.update(number, &changes);
    Ok(())
}

fn update_many<'a>(
    locked: &mut Locked<'_>,
    log: &mut Log,
    table: u32,
    source: &mut dyn RowSource<'a>,
) -> Result<Outcome> {
    let statement = Statement::new(locked, log);
    let schema = &statement.locked.slot(table).table;
    let mut row: Values<'a> = smallvec![ValueRef::Absent; schema.fields().len()];
    let mut count = 0;
    while source.next(&mut row)? {
        find_row(statement.locked, table, row[schema.key()])
            .and_then(|number| update_row(statement.locked, statement.log, table, number, &row))
            .map_err(|error| at_row(count, &error))?;
        count += 1;
    }
    statement.keep();
    Ok(Outcome::rows(count))
}

fn increment(
    locked: &mut Locked<'_>,
    log: &mut Log,
    table: u32,
    key: ValueRef<'_>,
    position: usize,
    by: ValueRef<'_>,
    stamp: ValueRef<'_>,
) -> Result<Outcome> {
    let schema = &locked.slot(table).table;
    let Some(field) = schema.fields().get(position) else {
        let message = format!("an increment names field {position} of `{}`", schema.name());
        return Err(Error::new(ErrorKind::Invalid, message));
    };
    let refuse = |value, rule, message: &str| {
        Err(Error::invalid(vec![violation(field, value, rule, message)]))
    };
    let number = find_row(locked, table, key)?;
    let current = locked.rows(table)?.pages.value(number, position);
    let sum = match (current, by) {
        (ValueRef::Int(a), ValueRef::Int(b)) => a.checked_add(b).map(ValueRef::Int),
        (ValueRef::Currency(a), ValueRef::Currency(b)) => {
            Currency::checked_add(a, b).map(ValueRef::Currency)
        }
        (ValueRef::Null, _) => {
            return refuse(
                current,
                "required",
                "is null, which nothing can be added to; set it first",
            );
        }
        _ => return refuse(by, "type", "an increment is for integers and currencies, by the same"),
    };
    let Some(sum) = sum else {
        return refuse(by, "range", "would make the sum too large for 64 bits");
    };
    let mut row: Values<'_> = smallvec![ValueRef::Absent; schema.fields().len()];
    row[position] = sum;
    schema.validate(&row)?;
    if let Some(updated_at) = schema.updated_at() {
        row[updated_at] = stamp;
    }
    update_row(locked, log, table, number, &row)?;
    let version = version_of(locked.rows(table)?, number);
    Ok(Outcome { version, value: sum.to_value(), ..Outcome::rows(1) })
}

fn delete(
    locked: &mut Locked<'_>,
    log: &mut Log,
    table: u32,
    key: ValueRef<'_>,
    expected: Option<i64>,
) -> Result<Outcome> {
    let number = find_row(locked, table, key)?;
    check_version(locked.rows(table)?, number, key, expected)?;
    delete_rows(locked, log, table, vec![number])
}

/// Removes rows, none of which is referred to by a row that stays.
pub(super) fn delete_rows(
    locked: &mut Locked<'_>,
    log: &mut Log,
    table: u32,
    mut numbers: Vec<u32>,
) -> Result<Outcome> {
    numbers.sort_unstable();
    if !locked.slot(table).referred.is_empty() {
        for &number in &numbers {
            check_referrers(locked, table, number, &numbers)?;
        }
    }
    for &number in &numbers {
        log.removing(locked, table, number)?;
        locked.rows_mut(table)?.remove(number);
    }
    Ok(Outcome::rows(numbers.len() as u64))
}

fn batch(locked: &mut Locked<'_>, log: &mut Log, operation: &mut Operation<'_>) -> Result<Outcome> {
    let parts = BatchParts::of(operation).ok_or_else(unexpected)?;
    let statement = Statement::new(locked, log);
    BatchMachine::run(parts, |step, sink| {
        let (locked, log) = (&mut *statement.locked, &mut *statement.log);
        match step {
            Operation::Savepoint(name) => log.save(*name),
            Operation::Release(name) => log.release(*name)?,
            Operation::RollbackTo(name) => log.undo_to_savepoint(*name, locked)?,
            step => {
                let number = locked.catalog.find(step.table().ok_or_else(unexpected)?)?;
                let mut outcome = Outcome::default();
                if let Some(scan) = execute(step, number, sink, locked, log, &mut outcome)? {
                    outcome.rows = scan.finish(locked.rows(number)?, sink)?;
                }
                return Ok(outcome);
            }
        }
        Ok(Outcome::default())
    })?;
    statement.keep();
    let Operation::Batch { results, .. } = operation else { return Err(unexpected()) };
    Ok(Outcome::rows(results.iter().flatten().map(|outcome| outcome.rows).sum()))
}

/// The error once more, saying where it happened in front.
#[cold]
pub(super) fn placed(place: &str, error: &Error) -> Error {
    let message = format!("{place}{}", error.message());
    let violations = error.violations().iter().cloned();
    violations.fold(Error::new(error.kind(), message), Error::with_violation)
}

/// The same for a row of many, counted from 0.
#[cold]
pub(super) fn at_row(index: u64, error: &Error) -> Error {
    placed(&format!("row {index}: "), error)
}

pub(super) fn version_of(rows: &TableRows, number: u32) -> Option<i64> {
    rows.pages.value(number, rows.table.version()?).as_int()
}

fn find_row(locked: &Locked<'_>, table: u32, key: ValueRef<'_>) -> Result<u32> {
    locked.find(table, key)?.ok_or_else(|| {
        let name = locked.slot(table).table.name();
        let key = marmota_model::text::excerpt_of(key);
        Error::new(ErrorKind::NotFound, format!("`{name}` has no row with the key {key}"))
    })
}

fn check_version(
    rows: &TableRows,
    number: u32,
    key: ValueRef<'_>,
    expected: Option<i64>,
) -> Result<()> {
    let Some(expected) = expected else { return Ok(()) };
    let current = version_of(rows, number);
    if current == Some(expected) {
        return Ok(());
    }
    let is = current.map_or("none".to_owned(), |version| version.to_string());
    let message = format!(
        "the row {} of `{}` has version {is}, not {expected}: read it again",
        marmota_model::text::excerpt_of(key),
        rows.table.name()
    );
    Err(Error::new(ErrorKind::Stale, message))
}

fn refers_to_itself(locked: &Locked<'_>, table: u32) -> bool {
    locked.slot(table).refers.iter().any(|&(_, target)| target == table)
}

/// Checks the references of a row that is there.
fn check_references_of(locked: &Locked<'_>, table: u32, number: u32, with_own: bool) -> Result<()> {
    let pages = &locked.rows(table)?.pages;
    check_references(locked, table, with_own, |field| pages.value(number, field))
}

/// Checks that the rows that these values refer to are there. Rows that are
/// inserted together may refer to each other: until all are there, a
/// reference to their own table is named, but does not decide (`with_own`).
fn check_references<'v>(
    locked: &Locked<'_>,
    table: u32,
    with_own: bool,
    value: impl Fn(usize) -> ValueRef<'v>,
) -> Result<()> {
    let slot = locked.slot(table);
    let (mut violations, mut is_broken) = (Vec::new(), false);
    for &(field, target) in &slot.refers {
        let value = value(field);
        if value.is_null() || value.is_absent() || locked.find(target, value)?.is_some() {
            continue;
        }
        is_broken |= with_own || target != table;
        let target = locked.slot(target).table.name();
        violations.push(no_target(&slot.table.fields()[field], value, target));
    }
    if is_broken { Err(Error::invalid(violations)) } else { Ok(()) }
}

/// Refuses to let a row go that a row refers to which is not among `going`
/// (sorted) itself.
pub(super) fn check_referrers(
    locked: &Locked<'_>,
    table: u32,
    number: u32,
    going: &[u32],
) -> Result<()> {
    let rows = locked.rows(table)?;
    check_referrers_of(locked, table, rows.pages.value(number, rows.table.key()), going)
}

/// [`check_referrers`] by the row's key.
pub(super) fn check_referrers_of(
    locked: &Locked<'_>,
    table: u32,
    key: ValueRef<'_>,
    going: &[u32],
) -> Result<()> {
    let rows = locked.rows(table)?;
    let collation = rows.pages.layout.columns[rows.table.key()].collation;
    for &(field, source) in &locked.slot(table).referred {
        let stays = |referrer: u32| source != table || going.binary_search(&referrer).is_err();
        if is_referred(locked.rows(source)?, field, key, collation, stays) {
            let message = format!(
                "the row {} of `{}` is still referred to by table `{}` (field `{}`)",
                marmota_model::text::excerpt_of(key),
                rows.table.name(),
                locked.slot(source).table.name(),
                locked.slot(source).table.fields()[field].name
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
    }
    Ok(())
}

fn is_referred(
    rows: &TableRows,
    field: usize,
    key: ValueRef<'_>,
    collation: Collation,
    stays: impl Fn(u32) -> bool,
) -> bool {
    use std::ops::ControlFlow::{Break, Continue};
    let index = rows.indexes.iter().find(|index| index.fields[0] == field);
    // References are ordered byte by byte; a key without case is not.
    if let Some(index) = index.filter(|_| collation == Collation::Binary) {
        let (from, to) = Search { rows, index }.rows_with(key);
        let lend = |referrer: u32| if stays(referrer) { Break(()) } else { Continue(()) };
        return index.ordered.walk(from, to, false, lend).is_break();
    }
    let lend = |referrer: u32| {
        let value = rows.pages.value(referrer, field);
        if collation.order(value, key).is_eq() && stays(referrer) {
            Break(())
        } else {
            Continue(())
        }
    };
    rows.keys.walk(rows.keys.range(&rows.pages, None, None), false, lend).is_break()
}

/// A delete by a filter that takes more than its first turn: it finds the rows,
/// then removes them, each in turns of two milliseconds.
///
/// Outside of a transaction it is one: it has the gate, and owns the tables that
/// it needs. So the rows it has found stay as they are; others read the table
/// until the first row is removed, and wait from then on, so that they see all
/// rows or none of them gone. In a session's transaction it writes to its log,
/// and the session's other operations wait.
pub(super) struct LongDelete {
    /// Who owns the tables: the session of the transaction, or a number of its own.
    owner: u64,
    needs: Needs,
    filter: Option<FilterExpr>,
    /// The rows that it has not looked at, from `at` on.
    rows: Vec<u32>,
    at: usize,
    found: Vec<u32>,
    is_sorted: bool,
    /// So many of those found are referred to by no row that stays.
    checked: usize,
    removed: usize,
    /// The log of one that is a transaction itself.
    own: Option<Log>,
}

/// How a turn ended.
pub(super) enum DeleteTurn {
    Done,
    Over,
    /// It has to wait for the end of a long statement that reads the table.
    Kept,
}

impl LongDelete {
    pub(super) fn new(
        (owner, own): (u64, Option<Log>),
        needs: Needs,
        filter: Option<FilterExpr>,
        (found, rows): (Vec<u32>, Vec<u32>),
    ) -> Box<Self> {
        let (at, is_sorted, checked, removed) = (0, false, 0, 0);
        Box::new(Self { owner, needs, filter, rows, at, found, is_sorted, checked, removed, own })
    }

    /// True if it is a part of the session's transaction.
    pub(super) const fn is_in_transaction(&self) -> bool {
        self.own.is_none()
    }

    /// True once a row is removed: from then on it takes place.
    pub(super) const fn has_begun(&self) -> bool {
        self.removed > 0
    }

    /// How many rows it removes.
    pub(super) fn count(&self) -> u64 {
        self.found.len() as u64
    }

    /// The tables that it owns.
    pub(super) fn tables(&self) -> impl Iterator<Item = u32> {
        self.needs.tables().iter().map(|&(number, _)| number)
    }

    /// The log of one that is a transaction itself.
    pub(super) const fn own_log(&mut self) -> Option<&mut Log> {
        self.own.as_mut()
    }

    /// Continues for one turn; `log` is that of the session's transaction.
    pub(super) fn turn(&mut self, catalog: &Catalog, log: Option<&mut Log>) -> Result<DeleteTurn> {
        let mut budget = Budget::next();
        let table = self.needs.table;
        if self.at < self.rows.len() {
            let rows = catalog.slots[table as usize].rows.read();
            let predicate = self.filter.as_ref();
            let predicate = predicate
                .map(|filter| Predicate::new(filter, &rows.table, &rows.pages.layout.columns))
                .transpose()?;
            while let Some(&number) = self.rows.get(self.at) {
                if budget.is_over() {
                    return Ok(DeleteTurn::Over);
                }
                self.at += 1;
                if predicate.as_ref().is_none_or(|one| one.selects(rows.pages.row(number))) {
                    self.found.push(number);
                }
            }
            // Memory for what is not read any more.
            (self.rows, self.at) = (Vec::new(), 0);
        }
        if !self.is_sorted {
            self.found.sort_unstable();
            self.is_sorted = true;
        }
        let mut locked = match Locked::new(catalog, &self.needs, self.owner) {
            Ok(locked) => locked,
            // Nobody changes the tables of an engine while the gate is taken.
            Err(NotNow::Owned | NotNow::Retired) => return Ok(DeleteTurn::Kept),
        };
        if !locked.slot(table).referred.is_empty() {
            while let Some(&number) = self.found.get(self.checked) {
                if budget.look() {
                    return Ok(DeleteTurn::Over);
                }
                check_referrers(&locked, table, number, &self.found)?;
                self.checked += 1;
            }
        }
        let Some(log) = self.own.as_mut().or(log) else { return Ok(DeleteTurn::Done) };
        locked.rows_mut(table)?.changed = true;
        while let Some(&number) = self.found.get(self.removed) {
            if budget.is_over() {
                return Ok(DeleteTurn::Over);
            }
            log.removing(&locked, table, number)?;
            locked.rows_mut(table)?.remove(number);
            self.removed += 1;
        }
        Ok(DeleteTurn::Done)
    }
}
