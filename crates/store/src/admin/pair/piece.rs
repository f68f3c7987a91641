//! The primary of a pair: its rows at a known position of the change feed, and its commits.
//!
//! A piece of rows is exact at a position if no commit was made while it was read. If there are
//! always commits, it is read in a transaction. If the database numbers the commits of several
//! programs, a read may see a commit but not one with an earlier number: the missing ones are then
//! applied to the piece.

use std::cmp::Ordering;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, FieldSet, Kind, NoRows, Result, Table, Value, ValueRef};

use crate::admin::transfer::{HELD_ROWS_MAX, Row, circle, piece, references_to_itself};
use crate::contract::change::{Commit, Position};
use crate::contract::engine::{self, Session};
use crate::contract::operation::Operation;
use crate::layers::feed::ChangeFeed;
use crate::layers::feed::commit_rows::{self, commits_between, integer};
use crate::layers::feed::schema::commit;
use crate::runtime::backoff::Backoff;
use crate::runtime::block_on::block_on;
use crate::store::Store;
use crate::verbs::changes::{ChangeStream, FeedEvent};

/// The number of reads that are tried without a transaction.
const TRIES: usize = 5;
/// The time for which a commit is waited for at first, and at most.
const POLL: Duration = Duration::from_millis(20);
const PATIENCE_MAX: Duration = Duration::from_secs(5);
/// The time for a visible commit to be published.
const PUBLISH_MAX: Duration = Duration::from_secs(30);
/// The time for repeating what fails because of the locks of others.
const CONFLICTS_MAX: Duration = Duration::from_secs(3);

/// The primary of a pair, as it is read.
pub(crate) struct Source {
    pub(crate) store: Store,
    pub(crate) feed: Arc<ChangeFeed>,
    pub(crate) session: Box<dyn Session>,
}

/// Consecutive rows of a table at a position.
pub(crate) struct Piece {
    pub(crate) rows: Vec<Row>,
    /// The number of the last commit that they have.
    pub(crate) number: u64,
    /// The last key that the piece covers; `None` if it reaches to the end of the table.
    pub(crate) to: Option<Value>,
}

impl Source {
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the store records no changes; those of the engine.
    pub(crate) fn new(store: &Store) -> Result<Self> {
        let feed = Arc::clone(store.feed()?);
        Ok(Self { store: store.outside(), feed, session: store.engine().session()? })
    }

    /// Reads the commits after a position, including changes of internal tables.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a position of another database.
    pub(crate) fn commits(&self, from: Position) -> Result<Commits> {
        let stream = self.store.changes()?.with_internal().from(from)?;
        Ok(Commits { stream, next: None })
    }

    /// Returns the position of the last commit that is visible, once it was published.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn last_position(&mut self) -> Result<Position> {
        let number = last_commit(&mut *self.session, &self.feed)?;
        let published = self.feed.hub.position();
        let last = Position { number: number.max(published.number), ..published };
        block_on(self.store.reached(last, PUBLISH_MAX))?;
        Ok(last)
    }

    /// Reads the next rows of a table after a key. A table that refers to itself is read completely,
    /// so that each row comes after those that it refers to.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn piece(&mut self, table: &Table, after: Option<&Value>) -> Result<Piece> {
        let (rows, number, missing) = again(|| match self.feed.hub.is_shared() {
            true => self.read_shared(table, after),
            false => self.read_exact(table, after).map(|(rows, number)| (rows, number, Vec::new())),
        })?;
        let key = table.key();
        let is_end = rows.is_empty() || is_whole(table);
        let to = (!is_end).then(|| rows[rows.len() - 1][key].clone());
        let mut piece = Piece { rows, number, to };
        for commit in &missing {
            piece.apply(table, after, commit);
        }
        for row in &mut piece.rows {
            self.read_absent(table, row)?;
        }
        Ok(piece)
    }

    fn read_exact(&mut self, table: &Table, after: Option<&Value>) -> Result<(Vec<Row>, u64)> {
        // All commits may have been removed from the table.
        let published = self.feed.hub.position().number;
        let session = &mut *self.session;
        let mut before = last_commit(session, &self.feed)?;
        for _ in 0..TRIES {
            let rows = read(session, table, after)?;
            let now = last_commit(session, &self.feed)?;
            if now == before {
                return Ok((rows, now.max(published)));
            }
            before = now;
        }
        in_transaction(session, |session| {
            let number = last_commit(session, &self.feed)?;
            Ok((read(session, table, after)?, number.max(published)))
        })
    }

    fn read_shared(
        &mut self,
        table: &Table,
        after: Option<&Value>,
    ) -> Result<(Vec<Row>, u64, Vec<Arc<Commit>>)> {
        let published = self.feed.hub.position();
        let feed = Arc::clone(&self.feed);
        // The transactions of the engine read a snapshot.
        let (rows, visible) = in_transaction(&mut *self.session, |session| {
            let visible = visible_after(session, &feed, published.number)?;
            Ok((read(session, table, after)?, visible))
        })?;
        let last = visible.last().copied().unwrap_or(published.number);
        if last - published.number == visible.len() as u64 {
            return Ok((rows, last, Vec::new()));
        }
        let last = Position { number: last, ..published };
        block_on(self.store.reached(last, PUBLISH_MAX))?;
        let mut commits = self.commits(published)?;
        let mut missing = Vec::new();
        while let Some(commit) = commits.next_up_to(last.number)? {
            if visible.binary_search(&commit.position.number).is_err() {
                missing.push(commit);
            }
        }
        Ok((rows, last.number, missing))
    }

    /// Reads the values that the feed does not have: blobs. A blob may be newer than the position;
    /// then a later commit writes it again. If the row was deleted meanwhile, its blobs are empty
    /// until the delete is applied.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn read_absent(&mut self, table: &Table, row: &mut Row) -> Result<()> {
        let is_missing = |place: &usize| {
            row[*place] == Value::Absent && table.fields()[*place].kind == Kind::Blob
        };
        let fields: FieldSet = (0..row.len()).filter(is_missing).collect();
        if fields.is_empty() {
            return Ok(());
        }
        for place in fields.iter() {
            let field = &table.fields()[place];
            row[place] = if field.nullable { Value::Null } else { Value::Blob(Vec::new()) };
        }
        let key = row[table.key()].clone();
        let mut get = Operation::Get { table, key: key.as_ref(), fields };
        engine::run(&mut *self.session, &mut get, &mut |read: &[ValueRef<'_>]| {
            for place in fields.iter() {
                row[place] = read[place].to_value();
            }
            ControlFlow::Break(())
        })
        .map(drop)
    }
}

impl Piece {
    /// Applies a commit that was not visible to the rows.
    fn apply(&mut self, table: &Table, after: Option<&Value>, commit: &Commit) {
        let key = table.key();
        for change in commit.changes.iter().filter(|change| change.table.name() == table.name()) {
            let of = change.key();
            let is_in = after.is_none_or(|after| order(table, of, after) == Ordering::Greater)
                && self.to.as_ref().is_none_or(|to| order(table, of, to) != Ordering::Greater);
            if !is_in {
                continue;
            }
            let place = self.rows.binary_search_by(|row| order(table, &row[key], of));
            match (place, &change.after) {
                (Ok(place), Some(row)) => self.rows[place].clone_from(row),
                (Ok(place), None) => drop(self.rows.remove(place)),
                (Err(place), Some(row)) => self.rows.insert(place, row.clone()),
                (Err(_), None) => {}
            }
        }
    }
}

/// The commits of the primary, in order.
pub(crate) struct Commits {
    stream: ChangeStream,
    /// A commit that was read and is not due yet.
    next: Option<Arc<Commit>>,
}

impl Commits {
    /// Returns the next commit up to a number that the feed has reached; `None` after the last one.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`] if it was removed from the feed.
    pub(crate) fn next_up_to(&mut self, number: u64) -> Result<Option<Arc<Commit>>> {
        if self.next.is_none() {
            self.next = self.read_up_to(number)?;
        }
        Ok(self.next.take_if(|commit| commit.position.number <= number))
    }

    fn read_up_to(&mut self, number: u64) -> Result<Option<Arc<Commit>>> {
        let mut patience = POLL;
        while self.stream.position().number < number {
            match poll_for(self.stream.next(), patience) {
                Some(Ok(Some(FeedEvent::Commit(commit)))) => return Ok(Some(commit)),
                Some(Ok(Some(FeedEvent::Gap(_)))) => {
                    return Err(Error::new(
                        ErrorKind::Stale,
                        "commits were removed from the change feed before the other database had \
                         them: end the move, empty the other database, and begin again, with a \
                         longer retention of changes",
                    ));
                }
                Some(Ok(None)) => return Err(Error::new(ErrorKind::Closed, "the store is closed")),
                Some(Err(error)) => return Err(error),
                // The last numbers may belong to no commit, or the database is slow.
                None => patience = (2 * patience).min(PATIENCE_MAX),
            }
        }
        Ok(None)
    }
}

/// Polls a future for some time. Returns `None` if it is not ready then.
fn poll_for<T>(future: impl Future<Output = T>, time: Duration) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let until = Instant::now() + time;
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return Some(done);
        }
        let left = until.checked_duration_since(Instant::now())?;
        std::thread::park_timeout(left);
    }
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Compares two keys in the order of a list.
pub(crate) fn order(table: &Table, a: &Value, b: &Value) -> Ordering {
    if table.has_composite_key() {
        let (a, b) = (table.key_values(a.as_ref()), table.key_values(b.as_ref()));
        let orders = a.iter().zip(&b).map(|(a, b)| a.as_ref().order(&b.as_ref()));
        return orders.fold(Ordering::Equal, Ordering::then);
    }
    table.fields()[table.key()].kind.collation().order(a.as_ref(), b.as_ref())
}

/// Returns true for a table that is copied in one piece.
pub(crate) fn is_whole(table: &Table) -> bool {
    !references_to_itself(table).is_empty()
}

/// Reads the next piece, or the whole table.
fn read(session: &mut dyn Session, table: &Table, after: Option<&Value>) -> Result<Vec<Row>> {
    let mut rows = piece(session, table, after.cloned())?;
    if !is_whole(table) {
        return Ok(rows);
    }
    loop {
        let Some(last) = rows.last() else { return Ok(rows) };
        let mut more = piece(session, table, Some(last[table.key()].clone()))?;
        if more.is_empty() {
            return Ok(rows);
        }
        rows.append(&mut more);
        if rows.len() > HELD_ROWS_MAX {
            return Err(circle(table));
        }
    }
}

/// Calls `read` in a transaction that is rolled back.
fn in_transaction<T>(
    session: &mut dyn Session,
    read: impl FnOnce(&mut dyn Session) -> Result<T>,
) -> Result<T> {
    engine::run(session, &mut Operation::Begin, &mut NoRows)?;
    let done = read(session);
    let ended = engine::run(session, &mut Operation::Rollback, &mut NoRows);
    let done = done?;
    ended.map(|_| done)
}

/// Returns the number of the last visible commit.
pub(crate) fn last_commit(session: &mut dyn Session, feed: &ChangeFeed) -> Result<u64> {
    let mut last = 0;
    let query = commit_rows::last_commit();
    let mut list = Operation::List { table: &feed.commits, query: &query };
    engine::run(session, &mut list, &mut |row: &[ValueRef<'_>]| {
        last = integer(row[commit::NUMBER]);
        ControlFlow::Break(())
    })?;
    Ok(last)
}

/// Returns the numbers of the visible commits after a number.
fn visible_after(session: &mut dyn Session, feed: &ChangeFeed, number: u64) -> Result<Vec<u64>> {
    let mut visible = Vec::new();
    let fields = FieldSet::EMPTY.with(commit::NUMBER);
    let query = commits_between(number, i64::MAX as u64, fields, u64::MAX);
    let mut list = Operation::List { table: &feed.commits, query: &query };
    engine::run(session, &mut list, &mut |row: &[ValueRef<'_>]| {
        visible.push(integer(row[commit::NUMBER]));
        ControlFlow::Continue(())
    })?;
    Ok(visible)
}

/// Repeats what fails because its locks conflict with those of callers, for some seconds.
///
/// # Errors
/// Those of `run`.
pub(crate) fn again<T>(mut run: impl FnMut() -> Result<T>) -> Result<T> {
    let mut backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));
    let until = Instant::now() + CONFLICTS_MAX;
    loop {
        match run() {
            Err(error) if error.is_retryable() && Instant::now() < until => {
                std::thread::sleep(backoff.pause());
            }
            done => return done,
        }
    }
}
