//! Changes the roles of a pair, and ends it.
//!
//! The record of the old primary is written first, after all of its commits were applied. Until the
//! other record is written, neither database is primary: a crash there is ended by [`settle`].

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, NoRows, Result, RowQuery, Timestamp, ValueRef};

use super::apply::{advance, target};
use super::piece::{Source, last_commit};
use crate::builder::StoreBuilder;
use crate::contract::change::Position;
use crate::contract::durability::Durability;
use crate::contract::engine::{self, Engine};
use crate::contract::operation::Operation;
use crate::layers::feed::commit_rows::{integer, timestamp};
use crate::layers::feed::pair_record::{self, PairRecord, PairRole};
use crate::layers::feed::schema::cursor;
use crate::rights::is_internal;
use crate::store::Store;

/// The pause between two looks at what has to end.
const PAUSE: Duration = Duration::from_millis(1);

/// Changes the roles. Both stores have no callers meanwhile.
///
/// # Errors
/// [`ErrorKind::Busy`] if something does not end in time; then nothing is changed.
pub(super) fn flip(primary: &Store, secondary: &Store, wait_max: Duration) -> Result<()> {
    let until = Instant::now() + wait_max;
    let mut source = Source::new(primary)?;
    let mut target = target(primary, secondary)?;
    let mut commits = source.commits(target.position())?;
    // Accepted writes in the background are commits too.
    primary.core.flush();
    loop {
        let last = source.last_position()?;
        advance(&mut source, &mut target, &mut commits, last.number)?;
        wait_for_hooks(&source, last, until)?;
        primary.core.layers.sessions().seal();
        match is_ended(primary.engine(), &mut source, last) {
            Ok(true) => break,
            ended => {
                primary.core.layers.sessions().unseal();
                ended?;
            }
        }
        if Instant::now() >= until {
            return Err(busy("the primary is still written to"));
        }
        std::thread::sleep(PAUSE);
    }
    // A process that starts after the exchange is refused.
    let done = check_alone(primary).and_then(|()| exchange(primary, secondary));
    if done.is_err() && !is_marked(primary).unwrap_or(true) {
        primary.core.layers.sessions().unseal();
    }
    done
}

/// Checks that no other process uses the database of a store, as far as the engine can know: it would
/// write to the old primary after a flip.
///
/// # Errors
/// [`ErrorKind::Conflict`] with the connections of other processes; those of the engine.
pub fn check_alone(store: &Store) -> Result<()> {
    let others = store.engine().other_processes()?;
    if others.is_empty() {
        return Ok(());
    }
    let message = format!(
        "other processes use the database too, and would write to it after the move: stop them, and \
         try again ({})",
        others.join(", ")
    );
    Err(Error::new(ErrorKind::Conflict, message))
}

/// Returns true if no commit was made after the last one, and none is in progress.
fn is_ended(engine: &dyn Engine, source: &mut Source, last: Position) -> Result<bool> {
    if !engine.open_commits()?.is_empty() {
        return Ok(false);
    }
    Ok(last_commit(&mut *source.session, &source.feed)? <= last.number)
}

/// Writes the records of both databases.
fn exchange(primary: &Store, secondary: &Store) -> Result<()> {
    let table = pair_record::table()?;
    let (mut ours, mut theirs) = (primary.engine().session()?, secondary.engine().session()?);
    let none = || Error::new(ErrorKind::Invalid, "the databases are not a pair");
    let mut old = PairRecord::read(&mut *ours, &table)?.ok_or_else(none)?;
    let mut new = PairRecord::read(&mut *theirs, &table)?.ok_or_else(none)?;
    let last = last_commit(&mut *theirs, secondary.feed()?)?;
    let position = secondary.position()?;
    old.position = Position { number: last.max(position.number), ..position };
    (old.role, old.term) = (PairRole::Secondary, old.term + 1);
    // All writers have ended, and this transaction waits for one that has not.
    engine::run(&mut *ours, &mut Operation::Begin, &mut NoRows)?;
    old.write(&mut *ours, &table)?;
    engine::run_as(&mut *ours, Some(Durability::Full), &mut Operation::Commit, &mut NoRows)?;
    // The hooks of the new primary begin with the next commit: those of the old one have handled
    // all before it.
    let cursors = &*secondary.feed()?.cursors;
    let mut forget = Operation::DeleteWhere { table: cursors, filter: None };
    engine::run(&mut *theirs, &mut forget, &mut NoRows)?;
    (new.role, new.term) = (PairRole::Primary, old.term);
    new.write(&mut *theirs, &table)
}

/// Returns true if the record of the old primary was written.
fn is_marked(primary: &Store) -> Result<bool> {
    let found = PairRecord::read(&mut *primary.engine().session()?, &*pair_record::table()?)?;
    Ok(found.is_none_or(|record| record.role == PairRole::Secondary))
}

/// Waits until the hooks that are called now have handled all commits.
fn wait_for_hooks(source: &Source, last: Position, until: Instant) -> Result<()> {
    loop {
        let mut hooks: Vec<(String, u64)> = Vec::new();
        let table = &*source.feed.cursors;
        let query = RowQuery { fields: Some(table.all()), ..RowQuery::new() };
        let mut list = Operation::List { table, query: &query };
        let mut session = source.store.engine().session()?;
        engine::run(&mut *session, &mut list, &mut |row: &[ValueRef<'_>]| {
            let is_called = timestamp(row[cursor::UNTIL]).is_some_and(|at| at > Timestamp::now());
            if is_called && integer(row[cursor::FEED]) == last.feed {
                let name = row[cursor::NAME].as_text().unwrap_or_default();
                hooks.push((name.to_owned(), integer(row[cursor::NUMBER])));
            }
            ControlFlow::Continue(())
        })?;
        let mut waiting = None;
        for (name, number) in hooks {
            if has_changes(source, Position { number, ..last }, last)? {
                waiting = Some(name);
            }
        }
        let Some(name) = waiting else { return Ok(()) };
        if Instant::now() >= until {
            return Err(busy(&format!("the hook `{name}` has not handled all commits")));
        }
        std::thread::sleep(PAUSE * 10);
    }
}

/// Returns true if a commit between two positions has changes that hooks get.
fn has_changes(source: &Source, from: Position, to: Position) -> Result<bool> {
    let mut commits = source.commits(from)?;
    while let Some(commit) = commits.next_up_to(to.number)? {
        if commit.changes.iter().any(|change| !is_internal(&change.table)) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cold]
fn busy(what: &str) -> Error {
    Error::new(ErrorKind::Busy, format!("{what}; the roles were not changed, try again"))
}

/// Ends a pair: the primary forgets it. The secondary stays marked, so that it is not taken for the
/// primary by mistake.
///
/// # Errors
/// Those of the engine.
pub fn end(primary: &Store) -> Result<()> {
    PairRecord::remove(&mut *primary.engine().session()?, &*pair_record::table()?)
}

/// Ends a flip that was interrupted: if neither of two databases is primary, the one that has all
/// commits becomes it. Returns the place of the primary: 0 or 1. No other process may have them open.
///
/// # Errors
/// [`ErrorKind::Invalid`] if the databases are not of one pair.
pub fn settle(databases: &[StoreBuilder; 2]) -> Result<usize> {
    let place = choose(databases);
    let closed = databases.iter().try_for_each(|builder| builder.engine().close());
    let place = place?;
    closed.map(|()| place)
}

fn choose(databases: &[StoreBuilder; 2]) -> Result<usize> {
    let none = || Error::new(ErrorKind::Invalid, "one of the databases does not belong to a pair");
    let read = |builder: &StoreBuilder| PairRecord::find(builder.engine())?.ok_or_else(none);
    let mut records = [read(&databases[0])?, read(&databases[1])?];
    if records[0].pair != records[1].pair {
        return Err(Error::new(ErrorKind::Invalid, "the databases belong to different pairs"));
    }
    let is_primary = |record: &PairRecord| record.role == PairRole::Primary;
    if let Some(place) = records.iter().position(is_primary) {
        return Ok(place);
    }
    // The old primary has the higher term, and its record was written once the other one had all
    // commits.
    let place = usize::from(records[0].term > records[1].term);
    let term = records[1 - place].term;
    let new = &mut records[place];
    (new.role, new.term) = (PairRole::Primary, term);
    new.write(&mut *databases[place].engine().session()?, &*pair_record::table()?)?;
    Ok(place)
}

/// Returns true if a store records the changes of all tables, as [`fill`](super::fill) needs it: it
/// was opened with [`StoreBuilder::pair_role`](crate::StoreBuilder::pair_role), or its database is in
/// a pair.
#[must_use]
pub fn is_prepared(store: &Store) -> bool {
    store.feed().is_ok_and(|feed| feed.has_internal)
}

/// Returns what the database of a store records about its pair; `None` if it is in none.
///
/// # Errors
/// Those of the engine.
pub fn record_of(store: &Store) -> Result<Option<PairRecord>> {
    match is_prepared(store) {
        true => PairRecord::read(&mut *store.engine().session()?, &*pair_record::table()?),
        false => Ok(None),
    }
}
