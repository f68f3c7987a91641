//! Moves all rows from one database to another, with any engines. Each piece is copied completely
//! or not at all, so that the transfer can continue after an interruption. At the end the databases
//! are compared row by row.
//!
//! Rows are copied unchanged, including the store's internal tables: no rule, timestamp or history
//! applies. The comparison detects concurrent writes to the database.
//!
//! For each table, in the order of references:
//!
//! 1. Copy: pieces of at most 2,000 rows or 8 MiB, by ascending key, each in one insert. If the
//!    other table has rows, the keys of a piece are looked up first, and rows that exist are left
//!    out.
//! 2. Rows that refer to a later row of their own table wait in memory until that row was copied.
//! 3. Compare: both tables are read completely, and the number and the checksum of their rows must
//!    be equal.
//!
//! The checksum of a row is 128 bits of a SHA-256 hash over its values; that of a table is the sum
//! of its rows' checksums modulo 2^128, which is independent of the order.

use std::ops::ControlFlow;
use std::sync::Arc;

use hashbrown::HashSet;
use marmota_model::{
    Error, ErrorKind, FieldSet, FilterExpr, Kind, NoRows, Result, RowQuery, RowSource, Table,
    Value, ValueRef,
};

use crate::builder::{Assembled, StoreBuilder};
use crate::contract::engine::{self, Engine, Session};
use crate::contract::existing::ExistingTable;
use crate::contract::operation::{Fingerprint, Operation};
use crate::contract::plan::Destructive;
use crate::layers::feed::pair_record::PAIR;
use crate::layers::feed::schema::FEED_TABLES;

/// The maximum number of rows in a piece.
pub(super) const PIECE_ROWS: usize = 2_000;
/// A piece ends once its texts and blobs have this many bytes.
const PIECE_BYTES: usize = 8 << 20;
/// The maximum number of rows that wait because they refer to later rows of their own table.
pub(super) const HELD_ROWS_MAX: usize = 1_000_000;

/// The result of the transfer of a table.
///
/// [`StoreBuilder::transfer_to`] has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transferred {
    /// The table.
    pub table: String,
    /// The number of its rows, equal in both databases.
    pub rows: u64,
    /// The number of rows that an earlier attempt had copied.
    pub were_there: u64,
    /// A checksum of all values, equal in both databases.
    pub checksum: u128,
}

/// The progress of a transfer.
///
/// ```
/// use marmota_store::transfer::TransferProgress;
/// let progress = TransferProgress { table: "city", rows: 150, rows_total: 300 };
/// assert_eq!(100 * progress.rows / progress.rows_total, 50);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferProgress<'t> {
    /// The table.
    pub table: &'t str,
    /// The number of rows that were processed: copied or compared.
    pub rows: u64,
    /// The total number: each row is read once for the copy and twice for the comparison.
    pub rows_total: u64,
}

impl StoreBuilder {
    /// Excludes these tables, which have no model, from a transfer ([`StoreBuilder::transfer_to`]).
    /// Otherwise such tables are an error.
    ///
    /// Names are compared without regard to ASCII case. Default: none.
    #[must_use]
    pub fn leave(mut self, tables: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.left.extend(tables.into_iter().map(Into::into));
        self
    }

    /// Returns the names of all tables of the database, including those without a model; `None` for
    /// an engine that cannot list them. Changes nothing.
    ///
    /// The engine's internal tables are left out.
    ///
    /// # Errors
    /// An error if the engine cannot read them.
    pub fn existing_tables(&self) -> Result<Option<Vec<String>>> {
        self.engine().existing_tables()
    }

    /// Returns the structure of all tables and views of the database; `None` for an engine that has
    /// none, such as the memory engine. Changes nothing.
    ///
    /// # Errors
    /// An error if the engine cannot read it.
    pub fn existing_structure(&self) -> Result<Option<Vec<ExistingTable>>> {
        self.engine().existing_structure()
    }

    /// Returns true if a model of this store has the table.
    #[must_use]
    pub fn has_model(&self, table: &str) -> bool {
        self.names_table(table)
    }

    /// Copies all rows of this database to another one with the same models, and compares them;
    /// both engines are closed at the end. The other database is changed to fit the models; its
    /// migrations are recorded as in this one. Rows that an earlier attempt has copied stay, and
    /// are not copied again.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Record, Role, Schema};
    /// use marmota_memory::Memory;
    /// use marmota_store::Store;
    ///
    /// let city = || Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// let folder = std::env::temp_dir().join(format!("transfer-{}", std::process::id()));
    /// std::fs::create_dir_all(&folder)?;
    /// let url = format!("memory:{}", folder.join("a.mem").display());
    /// let from = || Ok::<_, marmota_model::Error>(Store::builder(Memory::from_url(&url)?).schema(city()));
    /// let store = from()?.open()?;
    /// store.insert_record(&Record::new(store.table("city")?)).run()?;
    /// store.close()?;
    ///
    /// let to = Store::builder(Memory::new()).schema(city());
    /// let moved = from()?.transfer_to(to, &mut |_| {})?;
    /// assert_eq!((&*moved[0].table, moved[0].rows), ("city", 1));
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`ErrorKind::Invalid`] if this database does not fit its models, if it has a table without
    ///   a model that [`StoreBuilder::leave`] does not name, or if the other one cannot be changed
    ///   to fit.
    /// - [`ErrorKind::Conflict`] if the other database has other rows, or this one was written to
    ///   meanwhile.
    pub fn transfer_to(
        self,
        to: Self,
        progress: &mut dyn FnMut(TransferProgress<'_>),
    ) -> Result<Vec<Transferred>> {
        let (from_version, to_version) = (self.version, to.version);
        let left = self.left.clone();
        let (from, to) = (self.assemble()?, to.assemble()?);
        let done = check_source(&from, from_version)
            .and_then(|()| check_all_are_moved(&from, &left))
            .and_then(|()| to.engine.migrate(&to.tables, to_version, &Destructive::default()))
            .and_then(|_| run(&from, &to, progress));
        let closed = from.engine.close().and(to.engine.close());
        let done = done?;
        closed.map(|()| done)
    }
}

/// Returns an error for a table that is neither moved nor excluded.
///
/// Without this check a table that a program forgot would be lost without notice.
fn check_all_are_moved(from: &Assembled, left: &[String]) -> Result<()> {
    let Some(mut others) = from.engine.existing_tables()? else { return Ok(()) };
    let is_moved = |name: &String| {
        let is = |other: &str| other.eq_ignore_ascii_case(name);
        // The feed belongs to the database: positions of one are not valid in another.
        from.tables.iter().any(|table| is(table.name()))
            || left.iter().any(|table| is(table))
            || FEED_TABLES.into_iter().any(is)
            || is(PAIR)
    };
    others.retain(|name| !is_moved(name));
    if others.is_empty() {
        return Ok(());
    }
    others.sort_unstable();
    others.dedup();
    let message = format!(
        "the database to move has tables without a model: {}; nothing was moved: add their models, \
         drop the tables, or leave them in the old database (`--leave {}`, `StoreBuilder::leave`)",
        others.join(", "),
        others.join(" --leave ")
    );
    Err(Error::new(ErrorKind::Invalid, message))
}

/// Prepares the engine for a database that already fits; changes nothing.
fn check_source(from: &Assembled, version: u32) -> Result<()> {
    let plan = from.engine.plan(&from.tables, version)?;
    plan.check(&Destructive::default())?;
    if let Some(step) = plan.to_do(&Destructive::default()).next() {
        let message = format!(
            "the database to move does not match the models yet ({step}): first migrate it, or \
             open it with the program"
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    from.engine.migrate(&from.tables, version, &Destructive::default()).map(drop)
}

/// Copies and compares all tables.
fn run(
    from: &Assembled,
    to: &Assembled,
    progress: &mut dyn FnMut(TransferProgress<'_>),
) -> Result<Vec<Transferred>> {
    let mut ends = Ends { from: session(&*from.engine)?, to: session(&*to.engine)? };
    let mut totals = Vec::new();
    for table in &from.tables {
        totals.push(count(&mut *ends.from, table)?);
    }
    let (mut rows, rows_total) = (0, 3 * totals.iter().sum::<u64>());
    let mut transferred = Vec::new();
    for of_from in &from.tables {
        let Some(of_to) = to.tables.iter().find(|table| table.name() == of_from.name()) else {
            let message = format!("the other database has no model `{}`", of_from.name());
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        let mut step = |more: u64| {
            rows += more;
            progress(TransferProgress { table: of_from.name(), rows, rows_total });
        };
        let were_there = ends.copy(of_from, of_to, &mut step)?;
        let ours = sum(&mut *ends.from, of_from, &mut step)?;
        let theirs = sum(&mut *ends.to, of_to, &mut step)?;
        if ours != theirs {
            let message = format!(
                "`{}` has {} rows here and {} in the other database{}: the other database had rows \
                 already, or this one was written to during the move; start with an empty \
                 database, and stop all other writers",
                of_from.name(),
                ours.rows,
                theirs.rows,
                if ours.rows == theirs.rows { ", which differ" } else { "" }
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let Sum { rows, checksum } = ours;
        let table = of_from.name().to_owned();
        transferred.push(Transferred { table, rows, were_there, checksum });
    }
    Ok(transferred)
}

/// Opens a session.
fn session(engine: &dyn Engine) -> Result<Box<dyn Session>> {
    engine.session()
}

/// Returns the number of rows of a table.
pub(super) fn count(session: &mut dyn Session, table: &Table) -> Result<u64> {
    let counted = engine::run(session, &mut Operation::Count { table, filter: None }, &mut NoRows);
    counted.map(|outcome| outcome.rows)
}

/// A session on each of the two databases.
pub(super) struct Ends {
    pub(super) from: Box<dyn Session>,
    pub(super) to: Box<dyn Session>,
}

/// A row with all its values.
pub(super) type Row = Vec<Value>;

impl Ends {
    /// Copies the missing rows of a table; returns the number of rows that existed already.
    pub(super) fn copy(
        &mut self,
        from: &Arc<Table>,
        to: &Arc<Table>,
        step: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        let own: Vec<usize> = references_to_itself(from);
        let mut were_there = count(&mut *self.to, to)?;
        let goes_on = were_there > 0;
        were_there = 0;
        let (mut held, mut after): (Vec<Row>, Option<Value>) = (Vec::new(), None);
        loop {
            let mut piece = piece(&mut *self.from, from, after.take())?;
            let Some(last) = piece.last() else { break };
            let last = last[from.key()].clone();
            let read = piece.len() as u64;
            if goes_on {
                let known = self.known(to, &piece)?;
                were_there += known.len() as u64;
                piece.retain(|row| !known.contains(&key_of(from, row)));
            }
            if !own.is_empty() {
                held.append(&mut piece);
                piece = self.ready(to, &own, &mut held)?;
                if held.len() > HELD_ROWS_MAX {
                    return Err(circle(from));
                }
            }
            insert(&mut *self.to, to, &piece)?;
            step(read);
            after = Some(last);
        }
        while !held.is_empty() {
            let piece = self.ready(to, &own, &mut held)?;
            if piece.is_empty() {
                // They refer to each other, so they are inserted together or not at all.
                insert(&mut *self.to, to, &held)
                    .map_err(|error| circle(from).with_source(error))?;
                break;
            }
            insert(&mut *self.to, to, &piece)?;
        }
        Ok(were_there)
    }

    /// Returns the keys of the rows that exist.
    fn known(&mut self, table: &Table, rows: &[Row]) -> Result<HashSet<String>> {
        let values: Vec<Value> = rows.iter().map(|row| row[table.key()].clone()).collect();
        self.keys(table, &values)
    }

    /// Returns those of the keys that the other table has, in the form of [`key_of`].
    fn keys(&mut self, table: &Table, values: &[Value]) -> Result<HashSet<String>> {
        let mut known = HashSet::new();
        for values in values.chunks(PIECE_ROWS) {
            let key = table.key();
            let filter = Some(FilterExpr::In { field: key, values: values.to_vec() });
            let fields = Some(marmota_model::FieldSet::EMPTY.with(key));
            let query = RowQuery { filter, fields, ..RowQuery::new() };
            let mut keep = |row: &[ValueRef<'_>]| {
                known.insert(format!("{:?}", row[key]));
                ControlFlow::Continue(())
            };
            engine::run(&mut *self.to, &mut Operation::List { table, query: &query }, &mut keep)?;
        }
        Ok(known)
    }

    /// Moves the rows out of `held` whose references to their own table find an existing row or one
    /// that is moved as well.
    pub(super) fn ready(
        &mut self,
        table: &Table,
        own: &[usize],
        held: &mut Vec<Row>,
    ) -> Result<Vec<Row>> {
        let targets = |row: &Row| -> Vec<Value> {
            own.iter().map(|&field| row[field].clone()).filter(|to| *to != Value::Null).collect()
        };
        let wanted: Vec<Value> = held.iter().flat_map(targets).collect();
        let mut there = self.keys(table, &wanted)?;
        let (mut ready, mut rest) = (Vec::new(), std::mem::take(held));
        loop {
            let before = ready.len();
            let (found, left): (Vec<Row>, Vec<Row>) = rest.into_iter().partition(|row| {
                let own_key = &row[table.key()];
                let found =
                    |to: &Value| to == own_key || there.contains(&format!("{:?}", to.as_ref()));
                targets(row).iter().all(found)
            });
            there.extend(found.iter().map(|row| key_of(table, row)));
            ready.extend(found);
            rest = left;
            if ready.len() == before {
                *held = rest;
                return Ok(ready);
            }
        }
    }
}

/// Returns the key of a row as a text, since a value cannot be hashed.
fn key_of(table: &Table, row: &Row) -> String {
    format!("{:?}", row[table.key()].as_ref())
}

/// Returns the fields that refer to rows of their own table.
pub(super) fn references_to_itself(table: &Table) -> Vec<usize> {
    let is_own =
        |kind: &Kind| matches!(kind, Kind::Reference { table: to, .. } if to == table.name());
    (0..table.fields().len()).filter(|&field| is_own(&table.fields()[field].kind)).collect()
}

/// The error for rows that cannot be inserted one after the other.
#[cold]
pub(super) fn circle(table: &Table) -> Error {
    let message = format!(
        "rows of `{}` refer to each other in a cycle, or too many rows refer to later ones: set \
         those references to NULL before the move",
        table.name()
    );
    Error::new(ErrorKind::Unsupported, message)
}

/// Reads the next rows by key, with all fields.
pub(super) fn piece(
    session: &mut dyn Session,
    table: &Table,
    after: Option<Value>,
) -> Result<Vec<Row>> {
    let (after, fields) = (after.map(|key| table.place_of_key(key)), Some(table.all()));
    let query = RowQuery { after, fields, limit: Some(PIECE_ROWS as u64), ..RowQuery::new() };
    let (mut rows, mut bytes) = (Vec::new(), 0);
    let mut keep = |row: &[ValueRef<'_>]| {
        bytes += row.iter().map(bytes_of).sum::<usize>();
        rows.push(row.iter().map(ValueRef::to_value).collect());
        if bytes < PIECE_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    engine::run(session, &mut Operation::List { table, query: &query }, &mut keep)?;
    Ok(rows)
}

/// Returns the approximate size of a value.
const fn bytes_of(value: &ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(text) | ValueRef::Json(text) => text.len(),
        ValueRef::Blob(bytes) => bytes.len(),
        _ => 8,
    }
}

/// Rows as the source of an insert, without the values that the database computes.
struct Rows<'r> {
    rows: std::slice::Iter<'r, Row>,
    generated: FieldSet,
}

impl<'a> RowSource<'a> for Rows<'a> {
    fn remaining(&self) -> usize {
        self.rows.len()
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        let Some(next) = self.rows.next() else { return Ok(false) };
        for (slot, value) in row.iter_mut().zip(next) {
            *slot = value.as_ref();
        }
        self.generated.iter().for_each(|field| row[field] = ValueRef::Absent);
        Ok(true)
    }
}

/// Inserts rows with all their values but generated columns, all or none.
pub(super) fn insert(session: &mut dyn Session, table: &Table, rows: &[Row]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut rows = Rows { rows: rows.iter(), generated: table.generated_fields() };
    engine::run(session, &mut Operation::insert_many(table, &mut rows), &mut NoRows).map(drop)
}

/// The number of rows of a table, and a checksum of their values that is independent of the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    rows: u64,
    checksum: u128,
}

/// Reads a table, and returns the number and checksum of its rows.
fn sum(session: &mut dyn Session, table: &Table, step: &mut dyn FnMut(u64)) -> Result<Sum> {
    let (mut sum, mut after) = (Sum::default(), None);
    loop {
        let rows = piece(session, table, after.take())?;
        let Some(last) = rows.last() else { return Ok(sum) };
        for row in &rows {
            sum.checksum = sum.checksum.wrapping_add(checksum(row));
        }
        sum.rows += rows.len() as u64;
        after = Some(last[table.key()].clone());
        step(rows.len() as u64);
    }
}

/// Returns the checksum of a row.
pub(super) fn checksum(row: &Row) -> u128 {
    let mut hash = Fingerprint::default();
    row.iter().for_each(|value| hash.add_value(value.as_ref()));
    let bytes = hash.bytes();
    u128::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 16]))
}
