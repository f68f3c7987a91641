//! The secondary of a pair: writes pieces and commits of the primary, each exactly once.
//!
//! The changes of a commit are applied in its order. Each state of the primary satisfied its unique
//! indexes and references, and so does each state here. Engines may record the changes of a statement
//! in another order than that in which they can be repeated (a deleted row, and those that refer to
//! it): a change that is refused is tried again after the others of its commit.

use std::cmp::Ordering;
use std::sync::Arc;

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, NoRows, OnDelete, Result, Table, Timestamp};

use super::piece::{Commits, Piece, Source, again, is_whole, order};
use super::writes::{Repeated, has_version, replacement};
use crate::admin::transfer::{Ends, PIECE_ROWS, insert, references_to_itself};
use crate::contract::change::{Change, Commit, Position};
use crate::contract::engine::{self, Engine, Session};
use crate::contract::operation::{ANSWERS, BatchMode, Operation, Outcome, Write};
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

    /// Applies commits in one transaction, as a batch. If the batch is refused, each half is applied
    /// for itself, and in the end the changes of a commit one by one.
    ///
    /// # Errors
    /// Those of the engine; the commits up to the position of the secondary were applied then.
    pub(crate) fn apply(&mut self, source: &mut Source, commits: &[Arc<Commit>]) -> Result<()> {
        let Some(last) = commits.last() else { return Ok(()) };
        let (writes, versions) = self.writes(source, commits)?;
        let applied = self.in_transaction(|target| {
            target.record.position = last.position;
            target.apply_batch(&writes, &versions)
        });
        match applied {
            Err(error) if may_succeed_alone(&error) && commits.len() > 1 => {
                let (first, second) = commits.split_at(commits.len() / 2);
                self.apply(source, first)?;
                return self.apply(source, second);
            }
            Err(error) if may_succeed_alone(&error) => {}
            applied => return applied,
        }
        self.in_transaction(|target| {
            target.record.position = last.position;
            let number = last.position.number;
            let applied = target.apply_one(source, last);
            applied.map_err(|error| error.at(format_args!("commit {number}")))
        })
    }

    /// Returns the writes that repeat commits, and the versions that the rows have to get.
    fn writes(
        &self,
        source: &mut Source,
        commits: &[Arc<Commit>],
    ) -> Result<(Vec<Write>, Vec<Option<i64>>)> {
        let (mut writes, mut versions) = (Vec::new(), Vec::new());
        for change in commits.iter().flat_map(|commit| &commit.changes) {
            if let Some(table) = self.covered(change)? {
                let Repeated { write, version } = Repeated::of(source, &table, change)?;
                writes.push(write);
                versions.push(version);
            }
        }
        Ok((writes, versions))
    }

    /// Executes writes as one batch, which engines send to a server at once.
    ///
    /// # Errors
    /// Those of the engine, and [`ErrorKind::Conflict`] if a row does not get its version.
    fn apply_batch(&mut self, writes: &[Write], versions: &[Option<i64>]) -> Result<()> {
        if writes.is_empty() {
            return Ok(());
        }
        let mut results = Vec::with_capacity(writes.len());
        let mode = BatchMode::AllOrNothing;
        let mut batch =
            Operation::Batch { writes, links: &[], once: None, mode, results: &mut results };
        engine::run(&mut *self.session, &mut batch, &mut NoRows)?;
        let has_version = |(version, result): (&Option<i64>, &Result<Outcome>)| {
            result.as_ref().is_ok_and(|outcome| has_version(*version, outcome))
        };
        match versions.iter().zip(&results).all(has_version) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Conflict, "a row got another version")),
        }
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
            target.record.covered = covered.clone();
            Ok(())
        })
    }

    /// Calls `write` in a transaction that also writes the record, and again if its locks conflict
    /// with those of the database's own work.
    fn in_transaction(&mut self, mut write: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        again(|| self.in_one_transaction(&mut write))
    }

    fn in_one_transaction(&mut self, write: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
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
    fn try_change(
        &mut self,
        source: &mut Source,
        table: &Arc<Table>,
        change: &Change,
    ) -> Result<bool> {
        match self.change(source, table, change) {
            Ok(()) => Ok(true),
            Err(error) if may_succeed_alone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn change(&mut self, source: &mut Source, table: &Arc<Table>, change: &Change) -> Result<()> {
        let done = self.repeat(source, table, change);
        done.map_err(|error| {
            let (kind, key) = (change.kind.name(), change.key());
            error.at(format_args!("{kind} of `{}` {key:?}", table.name()))
        })
    }

    fn repeat(&mut self, source: &mut Source, table: &Arc<Table>, change: &Change) -> Result<()> {
        let repeated = Repeated::of(source, table, change)?;
        let outcome = self.run(&repeated.write)?;
        match &change.after {
            Some(after) if !has_version(repeated.version, &outcome) => {
                let is_acted_on = self.acted_on.iter().any(|name| name == table.name());
                let write = replacement(source, table, &change.table, after, is_acted_on)?;
                self.run(&write).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn run(&mut self, write: &Write) -> Result<Outcome> {
        let session = &mut *self.session;
        write.with_operation(|operation| engine::run(session, operation, &mut NoRows))
    }
}

/// Returns whether a write may succeed after others of its commit, or by a replacement.
fn may_succeed_alone(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Invalid | ErrorKind::NotFound)
}

/// Returns the tables of the primary whose rows move, in the order in which they are copied. The
/// answers to batches do if the secondary, which has the tables `theirs`, stores answers too.
///
/// # Errors
/// [`ErrorKind::Invalid`] if tables refer to each other in a cycle.
pub(super) fn moved(primary: &Store, theirs: &[Arc<Table>]) -> Result<Vec<Arc<Table>>> {
    let mut tables = primary.registry().by_dependency()?;
    if theirs.iter().any(|table| table.name() == ANSWERS) {
        tables.extend(primary.core.recordable(ANSWERS).cloned());
    }
    Ok(tables)
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
    let answers = secondary.core.recordable(ANSWERS).into_iter();
    let own: Vec<_> = secondary.registry().tables().iter().chain(answers).cloned().collect();
    let tables = moved(primary, &own)?;
    Target::new(secondary.engine(), &own, tables, (table, theirs))
}

/// The commits that were applied together.
pub(super) struct Applied {
    /// The time of the last one; `None` if there were none.
    pub(super) at: Option<Timestamp>,
    pub(super) changes: usize,
}

/// Applies some commits up to a number.
///
/// # Errors
/// Those of the engines.
pub(super) fn apply_some(
    source: &mut Source,
    target: &mut Target<'_>,
    commits: &mut Commits,
    number: u64,
) -> Result<Applied> {
    let (mut batch, mut changes, mut is_last) = (Vec::new(), 0, false);
    while !is_last && batch.len() < COMMITS && changes < CHANGES {
        match commits.next_up_to(number)? {
            Some(commit) => {
                changes += commit.changes.len();
                batch.push(commit);
            }
            None => is_last = true,
        }
    }
    target.apply(source, &batch)?;
    if is_last {
        // Numbers after the last commit belong to no commit.
        target.record.position.number = target.record.position.number.max(number);
    }
    Ok(Applied { at: batch.last().map(|commit| commit.at), changes })
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
