//! Fills the secondary of a pair.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Table, Uuid};

use super::apply::{Target, advance, moved};
use super::flip::check_alone;
use super::piece::Source;
use crate::admin::transfer::{Ends, count};
use crate::builder::{Assembled, StoreBuilder};
use crate::contract::engine::Engine;
use crate::contract::plan::Destructive;
use crate::layers::feed::pair_record::{self, Covered, PairRecord, PairRole};
use crate::migration::MIGRATIONS;
use crate::migration::computed::COMPUTED;
use crate::store::Store;

/// The tables that no change of a model is in. Their rows are copied when the secondary is filled.
const UNRECORDED: [&str; 2] = [MIGRATIONS, COMPUTED];

/// The URLs of the databases of a pair, without passwords: each database records the other one, and
/// errors name it.
#[derive(Clone, Debug)]
pub struct PairUrls {
    /// The URL of the primary.
    pub primary: String,
    /// The URL of the secondary.
    pub secondary: String,
}

/// The progress of [`fill`].
#[derive(Clone, Copy, Debug)]
pub struct FillProgress<'t> {
    /// The table that is copied.
    pub table: &'t str,
    /// The number of rows that were copied by this call.
    pub rows: u64,
    /// The number of rows that the primary had when the call began.
    pub rows_total: u64,
}

/// Copies the rows of an open store to another database, while the store is used. Both are a pair
/// afterwards. The store was opened with [`StoreBuilder::pair_role`], so that it records the changes
/// of all tables. The other database is changed to fit the models, and closed at the end.
///
/// An interrupted fill continues: after a crash, open the primary and call it again.
///
/// # Errors
/// - [`ErrorKind::Invalid`] if the primary does not record the changes of all tables.
/// - [`ErrorKind::Conflict`] if the other database has rows, or belongs to another pair, or if other
///   processes use the primary.
/// - [`ErrorKind::Stale`] if commits were removed from the feed before they were applied.
/// - [`ErrorKind::Unsupported`] if one of the engines has no change feed.
/// - [`ErrorKind::Closed`] after `progress` has returned `Break`.
pub fn fill(
    primary: &Store,
    secondary: StoreBuilder,
    urls: &PairUrls,
    progress: &mut dyn FnMut(FillProgress<'_>) -> ControlFlow<()>,
) -> Result<()> {
    if !primary.feed()?.has_internal {
        let message = "the store does not record the changes of all tables: open it with \
                       `StoreBuilder::pair_role`";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let mut source = Source::new(primary)?;
    let record_table = pair_record::table()?;
    if PairRecord::find(primary.engine())?.is_some_and(|found| found.role == PairRole::Secondary) {
        return Err(Error::new(ErrorKind::Conflict, "this store is the secondary of a pair"));
    }
    check_alone(primary)?;
    let version = secondary.version;
    if !secondary.capability().change_feed {
        let message = format!(
            "the engine `{}` has no change feed, so a live move to it cannot be undone: stop the \
             server, and use `marmota move`",
            secondary.capability().name
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let to = secondary.pair_role(PairRole::Secondary).assemble()?;
    let done = to
        .engine
        .migrate(&to.tables, version, &Destructive::default())
        .and_then(|_| begin(primary, &to, &record_table, urls))
        .and_then(|record| run(&mut source, &to, (record_table, record), progress));
    let closed = to.engine.close();
    done.and(closed)
}

/// Records the pair in both databases. Returns the record of the secondary.
fn begin(
    primary: &Store,
    to: &Assembled,
    record_table: &Arc<Table>,
    urls: &PairUrls,
) -> Result<PairRecord> {
    let (mut from_session, mut to_session) = (primary.engine().session()?, to.engine.session()?);
    let ours = PairRecord::read(&mut *from_session, record_table)?;
    if let Some(theirs) = PairRecord::read(&mut *to_session, record_table)? {
        let is_same = ours.is_some_and(|ours| ours.pair == theirs.pair);
        if !is_same || theirs.role != PairRole::Secondary {
            let message = format!(
                "the other database is the {theirs}: move to an empty database, or end that pair \
                 first"
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        return Ok(theirs);
    }
    for table in to.tables.iter().filter(|table| !is_own(table.name())) {
        if count(&mut *to_session, table)? > 0 {
            let message = format!(
                "the table `{}` of the other database has rows: move to an empty database",
                table.name()
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
    }
    let position = primary.position()?;
    let first = moved(primary, &to.tables)?.first().map(|table| table.name().to_owned());
    let ours = PairRecord {
        pair: Uuid::now_v7(),
        role: PairRole::Primary,
        term: 0,
        peer: urls.secondary.clone(),
        position,
        covered: Covered::All,
    };
    let theirs = PairRecord {
        role: PairRole::Secondary,
        peer: urls.primary.clone(),
        covered: first.map_or(Covered::All, |table| Covered::UpTo(table, None)),
        ..ours.clone()
    };
    // A secondary without a primary is refused when it is opened, and by the next attempt.
    ours.write(&mut *from_session, record_table)?;
    theirs.write(&mut *to_session, record_table)?;
    Ok(theirs)
}

/// Returns true for a table that the store of the secondary writes to by itself.
fn is_own(table: &str) -> bool {
    use crate::layers::feed::schema::FEED_TABLES;
    FEED_TABLES.contains(&table) || UNRECORDED.contains(&table) || table == pair_record::PAIR
}

fn run(
    source: &mut Source,
    to: &Assembled,
    record: (Arc<Table>, PairRecord),
    progress: &mut dyn FnMut(FillProgress<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let tables = moved(&source.store, &to.tables)?;
    copy_unrecorded(source.store.engine(), &*to.engine, &to.tables)?;
    let mut target = Target::new(&*to.engine, &to.tables, tables, record)?;
    let (mut rows, mut rows_total) = (0, 0);
    for (table, _) in &target.tables {
        rows_total += count(&mut *source.session, table)?;
    }
    let mut commits = source.commits(target.position())?;
    loop {
        let place = target.current()?;
        let Some((table, _)) = target.tables.get(place) else { return Ok(()) };
        let (table, after) = match &target.record.covered {
            Covered::UpTo(_, after) => (Arc::clone(table), after.clone()),
            Covered::All => return Ok(()),
        };
        let step = FillProgress { table: table.name(), rows, rows_total };
        if progress(step).is_break() {
            return Err(Error::new(ErrorKind::Closed, "the move was stopped"));
        }
        let piece = source.piece(&table, after.as_ref())?;
        // The rows that were copied before come to the position of the piece.
        advance(source, &mut target, &mut commits, piece.number)?;
        rows += piece.rows.len() as u64;
        target.add(place, piece)?;
    }
}

/// Copies rows of tables that are not in the feed and that the other database does not have.
///
/// # Errors
/// Those of the engines.
fn copy_unrecorded(from: &dyn Engine, to: &dyn Engine, tables: &[Arc<Table>]) -> Result<()> {
    for table in tables.iter().filter(|table| UNRECORDED.contains(&table.name())) {
        if from.open_table(table)? {
            let mut ends = Ends { from: from.session()?, to: to.session()? };
            ends.copy(table, table, &mut |_| {})?;
        }
    }
    Ok(())
}
