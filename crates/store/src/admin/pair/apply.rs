//! The secondary of a pair: writes pieces and commits of the primary, each exactly once.
//!
//! The changes of a commit are applied in its order. Each state of the primary satisfied its unique
//! indexes and references, and so does each state here. Engines may record the changes of a statement
//! in another order than that in which they can be repeated (a deleted row, and those that refer to
//! it): a change that is refused is tried again after the others of its commit.

use std::cmp::Ordering;
use std::sync::Arc;

use hashbrown::HashMap;
use marmota_model::{
    Error, ErrorKind, NoRows, OnDelete, Result, Table, Timestamp, Value, ValueRef,
};

use super::piece::{Commits, Piece, Source, is_whole, order};
use crate::admin::transfer::{Ends, PIECE_ROWS, Row, insert, references_to_itself};
use crate::contract::change::{Change, ChangeKind, Commit, Position};
use crate::contract::engine::{self, Engine, Session};
use crate::contract::operation::{OnConflict, Operation};
use crate::layers::feed::pair_record::{self, Covered, PairRecord, PairRole};
use crate::store::Store;

/// The commits that are applied in one transaction, at most; a commit with many changes ends it.
const COMMITS: usize = 200;
const CHANGES: usize = 2_000;
/// The secondary of a pair.
pub(crate) struct Target<'e> {
    engine: &'e dyn Engine,
    pub(crate) session: Box<dyn Session>,
    pub(crate) record_table: Arc<Table>,
    pub(crate) record: PairRecord,
    /// The tables in the order in which they are copied: those of the primary and its own.
    pub(crate) tables: Vec<(Arc<Table>, Arc<Table>)>,
    /// The place of each table in `tables`, by its name.
    places: HashMap<String, usize>,
    /// The tables whose rows are deleted or changed by the database when others are.
    acted_on: Vec<String>,
}

impl<'e> Target<'e> {
    /// # Errors
    /// [`ErrorKind::Invalid`] if a table is missing; those of the engine.
    pub(crate) fn new(
        engine: &'e dyn Engine,
        own: &[Arc<Table>],
        of_source: Vec<Arc<Table>>,
        (record_table, record): (Arc<Table>, PairRecord),
    ) -> Result<Self> {
        let pair = |of_source: Arc<Table>| {
            let of_own = own.iter().find(|table| table.name() == of_source.name());
            let none = || {
                let message = format!("the other database has no model `{}`", of_source.name());
                Error::new(ErrorKind::Invalid, message)
            };
            Ok((Arc::clone(&of_source), Arc::clone(of_own.ok_or_else(none)?)))
        };
        let tables: Vec<_> = of_source.into_iter().map(pair).collect::<Result<_>>()?;
        let places = tables.iter().enumerate();
        let places = places.map(|(place, (table, _))| (table.name().to_owned(), place)).collect();
        let fields = tables.iter().flat_map(|(table, _)| table.fields());
        let with_action = fields.filter(|field| field.on_delete != OnDelete::Restrict);
        let acted_on = with_action.filter_map(|field| match &field.kind {
            marmota_model::Kind::Reference { table, .. } => Some(table.to_string()),
            _ => None,
        });
        let acted_on = acted_on.collect();
        let session = engine.session()?;
        Ok(Self { engine, session, record_table, record, tables, places, acted_on })
    }

    /// Returns the position that the secondary has.
    pub(crate) const fn position(&self) -> Position {
        self.record.position
    }

    /// Returns the place of the table whose rows are copied; the number of tables once all are.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a table that the program does not have.
    pub(crate) fn current(&self) -> Result<usize> {
        match &self.record.covered {
            Covered::All => Ok(self.tables.len()),
            Covered::UpTo(table, _) => self.places.get(table).copied().ok_or_else(|| {
                let message = format!("the move has begun to copy `{table}`, which has no model");
                Error::new(ErrorKind::Invalid, message)
            }),
        }
    }

    /// Applies commits in one transaction.
    ///
    /// # Errors
    /// Those of the engine; nothing was applied then.
    pub(crate) fn apply(&mut self, source: &mut Source, commits: &[Arc<Commit>]) -> Result<()> {
        let Some(last) = commits.last() else { return Ok(()) };
        self.in_transaction(|target| {
            for commit in commits {
                target
                    .apply_one(source, commit)
                    .map_err(|error| error.at(format_args!("commit {}", commit.position.number)))?;
            }
            target.record.position = last.position;
            Ok(())
        })
    }

    /// Writes a piece, which is at the position of the secondary.
    ///
    /// # Errors
    /// Those of the engine; nothing was written then.
    pub(crate) fn add(&mut self, place: usize, mut piece: Piece) -> Result<()> {
        let table = Arc::clone(&self.tables[place].1);
        let mut parts = Vec::new();
        if is_whole(&table) {
            // The rows that others refer to come first.
            let own = references_to_itself(&table);
            let from = self.engine.session()?;
            let to = self.engine.session()?;
            let mut ends = Ends { from, to };
            while !piece.rows.is_empty() {
                let ready = ends.ready(&table, &own, &mut piece.rows)?;
                match ready.is_empty() {
                    false => parts.push(ready),
                    // They refer to each other, so they are inserted together.
                    true => parts.push(std::mem::take(&mut piece.rows)),
                }
            }
        } else {
            parts.push(piece.rows);
        }
        let covered = match piece.to {
            Some(key) => Covered::UpTo(table.name().to_owned(), Some(key)),
            None => match self.tables.get(place + 1) {
                Some((next, _)) => Covered::UpTo(next.name().to_owned(), None),
                None => Covered::All,
            },
        };
        self.in_transaction(|target| {
            for rows in &parts {
                for rows in rows.chunks(PIECE_ROWS) {
                    insert(&mut *target.session, &table, rows)?;
                }
            }
            target.record.covered = covered;
            Ok(())
        })
    }

    /// Calls `write` in a transaction that also writes the record.
    fn in_transaction(&mut self, write: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let before = self.record.clone();
        engine::run(&mut *self.session, &mut Operation::Begin, &mut NoRows)?;
        let done = write(self).and_then(|()| {
            self.record.write(&mut *self.session, &self.record_table)?;
            engine::run(&mut *self.session, &mut Operation::Commit, &mut NoRows).map(drop)
        });
        if done.is_err() {
            self.record = before;
            // The session is opened again after an error.
            let _ = engine::run(&mut *self.session, &mut Operation::Rollback, &mut NoRows);
        }
        done
    }

    fn apply_one(&mut self, source: &mut Source, commit: &Commit) -> Result<()> {
        let mut waiting: Vec<&Change> = Vec::new();
        for change in &commit.changes {
            let Some(table) = self.covered(change)? else { continue };
            let is_same = |other: &&Change| {
                Arc::ptr_eq(&other.table, &change.table) && other.key() == change.key()
            };
            // The changes of a row stay in order.
            if waiting.iter().any(is_same) || !self.try_change(source, &table, change)? {
                waiting.push(change);
            }
        }
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut left: Vec<&Change> = Vec::new();
            for change in std::mem::take(&mut waiting) {
                let Some(table) = self.covered(change)? else { continue };
                let is_first = !left.iter().any(|other| {
                    Arc::ptr_eq(&other.table, &change.table) && other.key() == change.key()
                });
                if !is_first || !self.try_change(source, &table, change)? {
                    left.push(change);
                }
            }
            if left.len() == before {
                let Some(table) = self.covered(left[0])? else { return Ok(()) };
                return self.change(source, &table, left[0]);
            }
            waiting = left;
        }
        Ok(())
    }

    /// Returns the secondary's table of a change, if the row was copied.
    fn covered(&self, change: &Change) -> Result<Option<Arc<Table>>> {
        let Some(&place) = self.places.get(change.table.name()) else { return Ok(None) };
        let is_covered = match self.current()?.cmp(&place) {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => match &self.record.covered {
                Covered::UpTo(_, Some(to)) => {
                    order(&change.table, change.key(), to) != Ordering::Greater
                }
                _ => false,
            },
        };
        Ok(is_covered.then(|| Arc::clone(&self.tables[place].1)))
    }

    /// Applies a change. Returns false if it is to be tried again after others.
    fn try_change(&mut self, source: &mut Source, table: &Table, change: &Change) -> Result<bool> {
        match self.change(source, table, change) {
            Ok(()) => Ok(true),
            Err(error) => match error.kind() {
                ErrorKind::Conflict | ErrorKind::Invalid | ErrorKind::NotFound => Ok(false),
                _ => Err(error),
            },
        }
    }

    fn change(&mut self, source: &mut Source, table: &Table, change: &Change) -> Result<()> {
        let key = change.key().clone();
        let done = match (change.kind, &change.after) {
            (ChangeKind::Delete, _) | (_, None) => {
                let mut delete = Operation::Delete { table, key: key.as_ref(), version: None };
                match engine::run(&mut *self.session, &mut delete, &mut NoRows) {
                    // The database has deleted it together with another row.
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                    done => done.map(drop),
                }
            }
            (ChangeKind::Insert, Some(after)) => {
                let mut row = after.clone();
                source.read_absent(&change.table, &mut row)?;
                let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
                let mut insert = Operation::insert(table, &values);
                engine::run(&mut *self.session, &mut insert, &mut NoRows).map(drop)
            }
            (ChangeKind::Update, Some(after)) => self.update(source, table, change, after),
        };
        done.map_err(|error| {
            error.at(format_args!("{} of `{}` {key:?}", change.kind.name(), table.name()))
        })
    }

    fn update(
        &mut self,
        source: &mut Source,
        table: &Table,
        change: &Change,
        after: &Row,
    ) -> Result<()> {
        let key = after[table.key()].clone();
        let mut row = vec![Value::Absent; after.len()];
        for place in change.changed.iter() {
            row[place] = after[place].clone();
        }
        // Only the blobs that have changed are read.
        let mut blobs = after.clone();
        for (place, value) in blobs.iter_mut().enumerate() {
            if *value == Value::Absent && !change.changed.contains(place) {
                *value = Value::Null;
            }
        }
        source.read_absent(&change.table, &mut blobs)?;
        for place in change.changed.iter().filter(|&place| after[place] == Value::Absent) {
            row[place] = blobs[place].clone();
        }
        row[table.key()] = Value::Absent;
        if let Some(version) = table.version() {
            row[version] = Value::Absent;
        }
        let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        let mut update =
            Operation::Update { table, key: key.as_ref(), row: &values, version: None };
        let outcome = engine::run(&mut *self.session, &mut update, &mut NoRows)?;
        let Some(version) = table.version() else { return Ok(()) };
        if outcome.version.is_none_or(|has| Value::Int(has) == after[version]) {
            return Ok(());
        }
        self.replace(source, table, change, after)
    }

    /// Writes a row whose version an update does not give: raw SQL does not count versions.
    fn replace(
        &mut self,
        source: &mut Source,
        table: &Table,
        change: &Change,
        after: &Row,
    ) -> Result<()> {
        if self.acted_on.iter().any(|name| name == table.name()) {
            let message = format!(
                "a row of `{}` got a version that no update gives, and other rows are deleted or \
                 changed with it: raw SQL has to add one to the version of a row that it updates",
                table.name()
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut row = after.clone();
        source.read_absent(&change.table, &mut row)?;
        let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        let on_conflict = OnConflict::Replace;
        let mut insert = Operation::Insert { table, row: &values, on_conflict };
        engine::run(&mut *self.session, &mut insert, &mut NoRows).map(drop)
    }
}

/// Returns the secondary of a pair that is filled.
///
/// # Errors
/// [`ErrorKind::Invalid`] if the stores are not of one pair.
pub(super) fn target<'s>(primary: &Store, secondary: &'s Store) -> Result<Target<'s>> {
    let table = pair_record::table()?;
    let none = || Error::new(ErrorKind::Invalid, "the databases are not a pair: fill one first");
    let ours = PairRecord::read(&mut *primary.engine().session()?, &table)?.ok_or_else(none)?;
    let theirs = PairRecord::read(&mut *secondary.engine().session()?, &table)?.ok_or_else(none)?;
    if ours.pair != theirs.pair {
        return Err(Error::new(ErrorKind::Invalid, "the databases belong to different pairs"));
    }
    if (ours.role, theirs.role) != (PairRole::Primary, PairRole::Secondary) {
        let message = format!("the databases have these roles: {ours}; {theirs}");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    if theirs.covered != Covered::All {
        return Err(Error::new(ErrorKind::Invalid, "the secondary is not filled yet"));
    }
    let tables = primary.registry().by_dependency()?;
    Target::new(secondary.engine(), secondary.registry().tables(), tables, (table, theirs))
}

/// Applies some commits up to a number. Returns the time of the last one, if there are any.
///
/// # Errors
/// Those of the engines.
pub(super) fn apply_some(
    source: &mut Source,
    target: &mut Target<'_>,
    commits: &mut Commits,
    number: u64,
) -> Result<Option<Timestamp>> {
    let (mut batch, mut changes) = (Vec::new(), 0);
    while batch.len() < COMMITS && changes < CHANGES {
        let Some(commit) = commits.next_up_to(number)? else {
            target.apply(source, &batch)?;
            // Numbers after the last commit belong to no commit.
            target.record.position.number = target.record.position.number.max(number);
            return Ok(batch.last().map(|commit| commit.at));
        };
        changes += commit.changes.len();
        batch.push(commit);
    }
    target.apply(source, &batch)?;
    Ok(batch.last().map(|commit| commit.at))
}

/// Applies all commits up to a number that the feed has reached.
///
/// # Errors
/// Those of the engines.
pub(super) fn advance(
    source: &mut Source,
    target: &mut Target<'_>,
    commits: &mut Commits,
    number: u64,
) -> Result<()> {
    while target.position().number < number {
        apply_some(source, target, commits, number)?;
    }
    Ok(())
}
