//! [`Client`]: a client of a stress run, with the rows that only it writes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Record, Result, Role, Table, Value};
use marmota_store::Store;
use marmota_store::operation::Operation;

use super::expected::{Expected, Rows, row_key};
use super::{Counts, MakeRow, StressReport};
use crate::random_row::RandomRow;

/// The number of refused inserts into a table, without an accepted one, that counts as a fault.
const REFUSED_MAX: u32 = 50;
/// The maximum number of rows that a client keeps in a table.
const ROWS_MAX: usize = 500;

/// A client of a stress run.
pub(crate) struct Client<'s> {
    store: &'s Store,
    tables: &'s [Arc<Table>],
    makes: &'s HashMap<&'static str, Box<MakeRow>>,
    random: RandomRow,
    own: Vec<OwnRows>,
    counts: Counts,
    faults: Vec<String>,
    journal: Option<Journal<'s>>,
}

/// The acknowledged changes of a client, in their order.
pub(crate) struct Journal<'s> {
    /// Returns the number of events on the disk so far.
    pub(crate) position: &'s (dyn Fn() -> usize + Sync),
    pub(crate) changes: Vec<AcknowledgedChange>,
}

/// A change that was acknowledged.
pub(crate) struct AcknowledgedChange {
    /// The number of events on the disk by then.
    pub(crate) at: usize,
    /// The index of the table.
    pub(crate) table: usize,
    pub(crate) key: String,
    /// The new row; `None` after a delete.
    pub(crate) row: Option<Vec<Value>>,
}

/// The rows of a client in one table.
#[derive(Default)]
struct OwnRows {
    rows: Vec<Vec<Value>>,
    /// The keys of rows after a write whose outcome is unknown.
    unknown: HashSet<String>,
    may_have_more: bool,
    accepted: u32,
    refused: u32,
    last_refusal: Option<Error>,
}

/// The meaning of a failed operation.
#[derive(Clone, Copy, PartialEq)]
enum Failure {
    /// A rule, a unique field or a reference forbids it.
    Refused,
    /// It was not executed for another reason.
    Busy,
    Unknown,
    Fault,
}

impl<'s> Client<'s> {
    pub(crate) fn new(
        store: &'s Store,
        tables: &'s [Arc<Table>],
        makes: &'s HashMap<&'static str, Box<MakeRow>>,
        seed: u64,
    ) -> Self {
        let own = tables.iter().map(|_| OwnRows::default()).collect();
        let (counts, faults) = (Counts::default(), Vec::new());
        let random = RandomRow::new(seed);
        Self { store, tables, makes, random, own, counts, faults, journal: None }
    }

    /// Keeps a journal of its changes.
    pub(crate) fn with_journal(mut self, position: &'s (dyn Fn() -> usize + Sync)) -> Self {
        self.journal = Some(Journal { position, changes: Vec::new() });
        self
    }

    /// Returns the journal's changes, and the faults.
    pub(crate) fn into_changes(self) -> (Vec<AcknowledgedChange>, Vec<String>) {
        (self.journal.map(|journal| journal.changes).unwrap_or_default(), self.faults)
    }

    fn note_change(&mut self, table: usize, key: &Value, row: Option<&Vec<Value>>) {
        if let Some(journal) = &mut self.journal {
            let (at, key, row) = ((journal.position)(), row_key(key), row.cloned());
            journal.changes.push(AcknowledgedChange { at, table, key, row });
        }
    }

    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }

    /// Executes this number of operations, or up to the first fault.
    pub(crate) fn work(&mut self, operations: u32) {
        for _ in 0..operations {
            if self.tables.is_empty() || !self.faults.is_empty() {
                return;
            }
            let place = self.random.below(self.tables.len());
            let rows = self.own[place].rows.len();
            match self.random.below(10) {
                0..=3 if rows < ROWS_MAX => self.insert(place),
                _ if rows == 0 => self.insert(place),
                4..=6 => self.read(place),
                7..=8 => self.update(place),
                _ => self.delete(place),
            }
        }
    }

    /// Adds its rows to the expected ones, and its faults to the report.
    pub(super) fn end(self, expected: &mut Expected, report: &mut StressReport) {
        for (table, own) in self.tables.iter().zip(self.own) {
            let all = expected.of(table);
            all.may_have_more |= own.may_have_more;
            all.unknown.extend(own.unknown);
            let keyed = own.rows.into_iter().map(|row| (row_key(&row[table.key()]), row));
            all.rows.extend(keyed);
            if let (0, REFUSED_MAX.., Some(error)) = (own.accepted, own.refused, own.last_refusal) {
                report.fault(format!(
                    "`{}`: no random row was accepted; make rows with `Stress::rows`. The last \
                     refusal: {error}",
                    table.name()
                ));
            }
        }
        self.faults.into_iter().for_each(|fault| report.fault(fault));
    }

    fn insert(&mut self, place: usize) {
        let tables = self.tables;
        let table = &tables[place];
        let number = self.random.number();
        let made = match self.makes.get(table.name()) {
            Some(make) => Some(make(number)),
            None => {
                let own = &self.own;
                self.random.row(table, |other| {
                    let other = tables.iter().position(|table| table.name() == other)?;
                    let rows = &own[other].rows;
                    let row = rows.get(number as usize % rows.len().max(1))?;
                    Some(row[tables[other].key()].clone())
                })
            }
        };
        // Without it, a required reference has no row to refer to.
        let Some(values) = made else { return };
        let row: Vec<_> = values.iter().map(Value::as_ref).collect();
        match self.store.insert_record(&Record::from_row(Arc::clone(table), &row)).run() {
            Ok(key) => {
                self.counts.inserts += 1;
                self.own[place].accepted += 1;
                let Some(read) = self.get(place, &key) else { return };
                for (at, field) in table.fields().iter().enumerate() {
                    // The store gives keys, times, versions and defaults.
                    if field.role == Role::Plain && values[at] != Value::Absent {
                        self.compare(place, at, &values[at], &read[at]);
                    }
                }
                self.note_change(place, &key, Some(&read));
                self.own[place].rows.push(read);
            }
            Err(error) => {
                let failure = self.failed("an insert", place, &error);
                let own = &mut self.own[place];
                own.may_have_more |= failure == Failure::Unknown;
                if failure == Failure::Refused {
                    own.refused += 1;
                    own.last_refusal = Some(error);
                }
            }
        }
    }

    /// Chooses one of its rows in a table. Returns the index and the key.
    fn choose(&mut self, place: usize) -> (usize, Value) {
        let rows = &self.own[place].rows;
        let at = self.random.below(rows.len());
        (at, rows[at][self.tables[place].key()].clone())
    }

    fn read(&mut self, place: usize) {
        let (at, key) = self.choose(place);
        let Some(read) = self.get(place, &key) else { return };
        self.counts.reads += 1;
        let wanted = &self.own[place].rows[at];
        if read != *wanted {
            let table = self.tables[place].name();
            self.faults.push(format!("`{table}`: {read:?} was read for {wanted:?}"));
        }
    }

    fn update(&mut self, place: usize) {
        let table = &self.tables[place];
        let (at, key) = self.choose(place);
        let mut record = Record::new(Arc::clone(table));
        for (position, field) in table.fields().iter().enumerate() {
            if field.role != Role::Plain || field.immutable || self.random.below(3) > 0 {
                continue;
            }
            let known = &self.own[place].rows[at][position];
            let value = self.random.value(table, field, &mut |_| Some(known.clone()));
            // A value that a rule refuses leaves the record as it was.
            let _ = value.map(|value| record.set(&field.name, value));
        }
        if record.values().iter().all(|value| *value == Value::Absent) {
            return;
        }
        if let Err(error) = self.store.update_record(key.clone(), &record).run() {
            return self.write_failed("an update", place, at, &error);
        }
        self.counts.updates += 1;
        let Some(read) = self.get(place, &key) else { return };
        self.note_change(place, &key, Some(&read));
        let before = std::mem::replace(&mut self.own[place].rows[at], read.clone());
        for (position, (old, new)) in before.iter().zip(&read).enumerate() {
            match (old, &record.values()[position]) {
                _ if table.updated_at() == Some(position) => {}
                (Value::Int(version), _) if table.version() == Some(position) => {
                    self.compare(place, position, &Value::Int(version + 1), new);
                }
                (old, Value::Absent) => self.compare(place, position, old, new),
                (_, set) => self.compare(place, position, set, new),
            }
        }
    }

    fn delete(&mut self, place: usize) {
        let (at, key) = self.choose(place);
        if let Err(error) = self.store.delete_record(&self.tables[place], key.clone()).run() {
            return self.write_failed("a delete", place, at, &error);
        }
        self.counts.deletes += 1;
        self.own[place].rows.swap_remove(at);
        self.note_change(place, &key, None);
        let may_be_reused = self.store.capability().reuses_last_key;
        match self.try_get(place, &key) {
            // Another client has been assigned the key.
            Ok(Some(_)) if may_be_reused => {}
            Ok(Some(row)) => {
                let table = self.tables[place].name();
                self.faults.push(format!("`{table}`: {row:?} exists after its delete"));
            }
            Ok(None) => {}
            Err(error) => drop(self.failed("a read", place, &error)),
        }
    }

    /// Notes an update or delete that failed.
    fn write_failed(&mut self, what: &str, place: usize, at: usize, error: &Error) {
        if self.failed(what, place, error) == Failure::Unknown {
            let own = &mut self.own[place];
            let row = own.rows.swap_remove(at);
            own.unknown.insert(row_key(&row[self.tables[place].key()]));
        }
    }

    /// Reads a row that must exist, with all its fields. Returns `None` if that fails, and notes it.
    fn get(&mut self, place: usize, key: &Value) -> Option<Vec<Value>> {
        match self.try_get(place, key) {
            Ok(Some(row)) => return Some(row),
            Ok(None) => {
                let table = self.tables[place].name();
                self.faults.push(format!("`{table}`: the row with the key {key:?} is not found"));
            }
            Err(error) => {
                self.failed("a read", place, &error);
                // Its values are no longer known.
                let (own, at) = (&mut self.own[place], self.tables[place].key());
                own.rows.retain(|row| row[at] != *key);
                own.unknown.insert(row_key(key));
            }
        }
        None
    }

    fn try_get(&self, place: usize, key: &Value) -> Result<Option<Vec<Value>>> {
        let (table, mut rows) = (&self.tables[place], Rows::default());
        let mut get = Operation::Get { table, key: key.as_ref(), fields: table.all() };
        self.store.run(&mut get, &mut rows)?;
        Ok(rows.0.pop())
    }

    fn compare(&mut self, place: usize, field: usize, wanted: &Value, read: &Value) {
        if wanted != read {
            let table = &self.tables[place];
            let (name, field) = (table.name(), &table.fields()[field].name);
            let fault = format!("`{name}.{field}`: {read:?} was read after {wanted:?} was written");
            self.faults.push(fault);
        }
    }

    /// Counts a failed operation.
    fn failed(&mut self, what: &str, place: usize, error: &Error) -> Failure {
        let (failure, count) = match error.kind() {
            ErrorKind::Invalid | ErrorKind::Conflict => {
                (Failure::Refused, &mut self.counts.refused)
            }
            ErrorKind::Busy | ErrorKind::Refused | ErrorKind::Io => {
                (Failure::Busy, &mut self.counts.busy)
            }
            ErrorKind::Timeout | ErrorKind::Lost => (Failure::Unknown, &mut self.counts.unknown),
            _ => {
                let table = self.tables[place].name();
                self.faults.push(format!("`{table}`: {what} failed: {error}"));
                return Failure::Fault;
            }
        };
        *count += 1;
        failure
    }
}
