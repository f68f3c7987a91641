//! Opens the feed of a database: its identity, the tables that it records, its last commit.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, NoRows, Result, RowQuery, Table, Uuid, Value, ValueRef};

use super::shared_commits;
use crate::contract::change::recorder::CommitReceiver as _;
use crate::contract::change::{ChangeRecorder, RecordedTable};
use crate::contract::engine::{self, Engine};
use crate::contract::operation::{Keys, OnConflict, Operation};
use crate::layers::feed::ChangeFeed;
use crate::layers::feed::commit_rows::{self, integer};
use crate::layers::feed::hub::ChangeHub;
use crate::layers::feed::schema::{self, commit, identity};
use crate::layers::feed::shapes::{Shape, Shapes, fields_of};
use crate::layers::feed::tables::FeedTables;
use crate::rights::is_internal;
use crate::store::{Store, StoreCore};

/// The name in the only row of the table with the identity.
const NAME: &str = "feed";

/// Opens the feed of a store, and lets its engine record changes, with those of internal tables if
/// the database is in a pair. A replica gets the commits from its
/// primary and records none.
///
/// # Errors
/// [`ErrorKind::Unsupported`] for an engine that cannot record changes; those of the engine.
pub(super) fn open(
    store: &Store,
    tables: FeedTables,
    is_replica: bool,
    has_internal: bool,
) -> Result<Arc<ChangeFeed>> {
    let FeedTables { commits, shapes: shape_table, identity, cursors, dead_letters } = tables;
    let (feed, removed) = read_identity(store, &identity, is_replica)?;
    let mut shapes_now = read_shapes(store, &shape_table)?;
    let recorded = match is_replica {
        true => Vec::new(),
        false => record_tables(store, &shape_table, &mut shapes_now, has_internal)?,
    };
    let last = last_commit(store, &commits)?.max(removed);
    let is_shared = store.capability().shared_commits;
    if is_shared {
        // One with an earlier number may not be visible yet.
        shared_commits::wait_for_earlier(store)?;
    }
    let hub = Arc::new(ChangeHub::new(feed, last, removed, is_shared));
    if is_replica {
        // Nothing reports its commits, so that the table is always read for them.
        hub.add_reader();
    } else {
        let receiver = Arc::<ChangeHub>::clone(&hub);
        let recorder = Arc::new(ChangeRecorder::new(Arc::clone(&commits), recorded, receiver));
        store.engine().record_changes(&recorder)?;
    }
    if is_shared {
        // Some were made before the engine reported them.
        hub.changed();
    }
    let shapes = shapes_now.shapes;
    let cache = OnceLock::new();
    Ok(Arc::new(ChangeFeed {
        hub,
        shapes,
        shape_table,
        commits,
        identity,
        cursors,
        dead_letters,
        cache,
        has_internal,
    }))
}

/// Gives the feed of a database another identity, if it has a feed: positions of before are then
/// refused. It is for a database whose rows were replaced, as by restoring a backup: its next commits
/// get numbers that were used before.
///
/// # Errors
/// Those of the engine.
pub fn renew_feed(engine: &dyn Engine) -> Result<()> {
    let table = Arc::new(Table::new(schema::identity())?);
    if !engine.open_table(&table)? {
        return Ok(());
    }
    let mut delete = Operation::DeleteWhere { table: &table, filter: None };
    engine::run(&mut *engine.session()?, &mut delete, &mut NoRows).map(drop)
}

/// Returns the identity of the feed and the number of its last removed commit. The first process
/// that opens the feed makes the identity.
fn read_identity(store: &Store, table: &Table, is_replica: bool) -> Result<(u64, u64)> {
    // The random bits of a version 7 UUID.
    let made = Uuid::now_v7().as_u64_pair().1 as i64;
    let row = [ValueRef::Absent, ValueRef::Text(NAME), ValueRef::Int(made), ValueRef::Int(0)];
    let on_conflict = OnConflict::Ignore;
    if !is_replica {
        store.run(&mut Operation::Insert { table, row: &row, on_conflict }, &mut NoRows)?;
    }
    let mut found = None;
    let query = RowQuery { fields: Some(table.all()), limit: Some(1), ..RowQuery::new() };
    store.run(&mut Operation::List { table, query: &query }, &mut |row: &[ValueRef<'_>]| {
        found = Some((integer(row[identity::FEED]), integer(row[identity::REMOVED])));
        ControlFlow::Break(())
    })?;
    found.ok_or_else(|| match is_replica {
        true => Error::new(
            ErrorKind::Invalid,
            "the primary has not recorded changes yet: start it with `--changes` first",
        ),
        false => Error::new(ErrorKind::Bug, "the change feed has no identity"),
    })
}

/// The recorded tables of a feed.
struct KnownShapes {
    shapes: Shapes,
    /// The number of the shape that each table has now, by the address of the table.
    current: HashMap<usize, u64>,
}

fn read_shapes(store: &Store, table: &Table) -> Result<KnownShapes> {
    let shapes = Shapes::new(store.engine().recorded_rows());
    let mut known = KnownShapes { shapes, current: HashMap::new() };
    let mut read = Ok(());
    let query = RowQuery { fields: Some(table.all()), ..RowQuery::new() };
    store.run(&mut Operation::List { table, query: &query }, &mut |row: &[ValueRef<'_>]| {
        read = known.add(row, &store.core);
        if read.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    read.map(|()| known)
}

impl KnownShapes {
    fn add(&mut self, row: &[ValueRef<'_>], core: &StoreCore) -> Result<()> {
        let (number, shape) = Shape::of_row(row, |name| core.recordable(name))?;
        if let Some(table) = shape.table().filter(|_| shape.is_current()) {
            self.current.insert(Arc::as_ptr(table) as usize, number);
        }
        self.shapes.add(number, shape);
        Ok(())
    }
}

/// Returns the tables of the store with their numbers, and adds those that the feed does not have.
fn record_tables(
    store: &Store,
    table: &Table,
    known: &mut KnownShapes,
    has_internal: bool,
) -> Result<Vec<RecordedTable>> {
    let mut recorded = Vec::new();
    let is_recorded = |table: &&Arc<Table>| has_internal || !is_internal(table);
    let answers = store.core.answers.iter().map(|(table, _)| table);
    for of in store.registry().tables().iter().chain(answers).filter(is_recorded) {
        let number = match known.current.get(&(Arc::as_ptr(of) as usize)) {
            Some(&number) => number,
            None => {
                let fields = fields_of(of);
                let text = serde_json::to_string(&fields).unwrap_or_default();
                let row = [ValueRef::Absent, ValueRef::Text(of.name()), ValueRef::Json(&text)];
                let done = store.run(&mut Operation::insert(table, &row), &mut NoRows)?;
                let Keys::One(Value::Int(number)) = done.keys else {
                    return Err(Error::new(ErrorKind::Bug, "a recorded table got no number"));
                };
                known.shapes.add(number as u64, Shape::new(&fields, Some(of)));
                number as u64
            }
        };
        recorded.push(RecordedTable::new(number as u32, Arc::clone(of)));
    }
    Ok(recorded)
}

/// Returns the number of the last commit, or 0.
fn last_commit(store: &Store, table: &Table) -> Result<u64> {
    let mut last = 0;
    let query = commit_rows::last_commit();
    store.run(&mut Operation::List { table, query: &query }, &mut |row: &[ValueRef<'_>]| {
        last = integer(row[commit::NUMBER]);
        ControlFlow::Break(())
    })?;
    Ok(last)
}
