//! The verbs that read the change feed.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, RowQuery, RowSink, ValueRef};

use crate::contract::change::{Change, Commit, Position};
use crate::contract::operation::{Operation, Outcome};
use crate::layers::feed::ChangeFeed;
use crate::layers::feed::commit_rows::{commits_between, integer};
use crate::layers::feed::hub::Next;
use crate::layers::feed::schema::identity;
use crate::layers::feed::shapes::Shape;
use crate::layers::feed::stored_commit::StoredCommit;
use crate::rights::is_internal;
use crate::store::Store;
use crate::verbs::action::Verb;

/// The number of commits that are read from the table at once.
const PAGE: u64 = 200;

/// An event of a [`ChangeStream`].
#[derive(Clone, Debug)]
pub enum FeedEvent {
    /// A commit.
    Commit(Arc<Commit>),
    /// Commits were removed from the feed before they were read
    /// ([`ChangeRetention`](crate::change::ChangeRetention)). The stream continues with the commits
    /// after this position. Read the rows again.
    Gap(Position),
}

/// The commits of a store from a position on, in order; made by [`Store::changes`].
///
/// It has no end until the store is closed. A stream that is dropped and started again at
/// [`Self::position`] continues without a loss, also in another process.
#[derive(Debug)]
pub struct ChangeStream {
    store: Store,
    feed: Arc<ChangeFeed>,
    /// Its number in the hub.
    reader: u64,
    /// The number of the last commit that was returned.
    number: u64,
    /// Commits read from the table.
    page: VecDeque<Arc<StoredCommit>>,
    /// True if it returns changes of internal tables too.
    has_internal: bool,
}

impl Store {
    /// Reads the commits of the store in order, beginning after its current position.
    ///
    /// The store records changes if it was opened with
    /// [`StoreBuilder::changes`](crate::StoreBuilder::changes).
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// use marmota_store::change::{ChangeKind, ChangeRetention, FeedEvent};
    ///
    /// let store = Store::builder(Memory::new())
    ///     .model::<City>()
    ///     .changes(ChangeRetention::default())
    ///     .open()?;
    /// let mut changes = store.changes()?;
    /// store.insert(&city("Bourges", 64_000)).run()?;
    /// # marmota_store::action::block_on(async {
    /// let Some(FeedEvent::Commit(commit)) = changes.next().await? else { unreachable!() };
    /// assert_eq!(commit.changes[0].kind, ChangeKind::Insert);
    /// assert_eq!(commit.changes[0].table.name(), "city");
    /// # Ok::<(), marmota_model::Error>(())
    /// # })?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the store records no changes, [`ErrorKind::Denied`] for a
    /// handle with rights: the feed has the rows of all tables.
    pub fn changes(&self) -> Result<ChangeStream> {
        if self.rights().is_some() {
            let message = "the change feed has rows of all tables; read it without rights";
            return Err(Error::new(ErrorKind::Denied, message));
        }
        let feed = Arc::clone(self.feed()?);
        let number = feed.hub.position().number;
        let reader = feed.hub.add_reader();
        Ok(ChangeStream {
            store: self.outside(),
            feed,
            reader,
            number,
            page: VecDeque::new(),
            has_internal: false,
        })
    }

    /// Returns the position of the last commit that the feed has.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the store records no changes.
    pub fn position(&self) -> Result<Position> {
        Ok(self.feed()?.hub.position())
    }

    /// Returns the position of a write with this outcome, at which its changes are visible. A batch
    /// whose stored answer is repeated has one too. `None` if the write changed nothing, or the
    /// store records no changes.
    #[must_use]
    pub fn position_of(&self, outcome: &Outcome) -> Option<Position> {
        let feed = self.feed().ok()?.hub.feed();
        outcome.commit.map(|number| Position { feed, number: number.get() })
    }

    /// Returns true if the feed has reached a position: the changes up to it are visible here.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a position of another database, [`ErrorKind::Unsupported`] if the
    /// store records no changes.
    pub fn has_reached(&self, position: Position) -> Result<bool> {
        let feed = self.feed()?;
        feed.check(position)?;
        Ok(feed.hub.position().number >= position.number)
    }

    /// Waits until the feed has reached a position, for at most `wait_max`.
    ///
    /// If another process made the commit, a cached row can be older for a moment: read through
    /// [`Store::without_cache`], unless the engine has [`Capability::polled_commits`].
    ///
    /// [`Capability::polled_commits`]: crate::engine::Capability::polled_commits
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # use marmota_store::change::ChangeRetention;
    /// let store = Store::builder(Memory::new()).changes(ChangeRetention::default()).open()?;
    /// let position = store.position()?;
    /// # marmota_store::action::block_on(async {
    /// store.reached(position, Duration::from_secs(1)).await
    /// # })?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Store::has_reached`]; [`ErrorKind::Timeout`] after `wait_max`,
    /// [`ErrorKind::Closed`] if the store is closed.
    pub async fn reached(&self, position: Position, wait_max: Duration) -> Result<()> {
        let feed = self.feed()?;
        feed.check(position)?;
        let (reader, until) = (Reader::new(feed), Instant::now() + wait_max);
        let mut is_timed = false;
        poll_fn(|context| {
            loop {
                let last = feed.hub.position().number;
                if last >= position.number {
                    return Poll::Ready(Ok(()));
                }
                match feed.hub.next(last, reader.number, Some(context.waker())) {
                    Next::Nothing => {}
                    Next::Closed => {
                        let error = Error::new(ErrorKind::Closed, "the store is closed");
                        return Poll::Ready(Err(error));
                    }
                    _ => continue,
                }
                if Instant::now() >= until {
                    return Poll::Ready(Err(not_reached(position, feed, wait_max)));
                }
                #[cfg(target_os = "linux")]
                if !std::mem::replace(&mut is_timed, true) {
                    let _ = crate::contract::engine::wake_at(until, context.waker().clone());
                }
                return Poll::Pending;
            }
        })
        .await
    }
}

#[cold]
fn not_reached(position: Position, feed: &ChangeFeed, wait_max: Duration) -> Error {
    let message = format!(
        "the position {position} was not reached within {} ms; the last one here is {}",
        wait_max.as_millis(),
        feed.hub.position()
    );
    Error::new(ErrorKind::Timeout, message)
}

impl ChangeFeed {
    /// Checks that a position belongs to this feed.
    pub(crate) fn check(&self, position: Position) -> Result<()> {
        if position.feed == self.hub.feed() {
            return Ok(());
        }
        let message = format!(
            "the position {position} belongs to another database; begin at a position of this one, \
             such as {}",
            self.hub.position()
        );
        Err(Error::new(ErrorKind::Invalid, message))
    }
}

impl ChangeStream {
    /// Continues after this position.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a position of another database, or one that this database has not
    /// reached.
    pub fn from(mut self, position: Position) -> Result<Self> {
        self.feed.check(position)?;
        let last = self.feed.hub.position();
        let capability = self.store.capability();
        if position > last && !capability.shared_file && !capability.shared_commits {
            let message = format!("the position {position} is after the last one, {last}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.number = position.number;
        self.page.clear();
        Ok(self)
    }

    /// Returns changes of internal tables too, which are recorded while the database is in a pair.
    pub(crate) const fn with_internal(mut self) -> Self {
        self.has_internal = true;
        self
    }

    /// Returns the position of the last commit that was read.
    #[must_use]
    pub fn position(&self) -> Position {
        Position { feed: self.feed.hub.feed(), number: self.number }
    }

    /// Waits for the next commit, or returns a gap. `None` after the store was closed.
    ///
    /// The future can be dropped without a loss.
    ///
    /// # Errors
    /// Those of the engine that reads stored commits.
    pub async fn next(&mut self) -> Result<Option<FeedEvent>> {
        loop {
            let Self { feed, number, reader, page, .. } = self;
            if let Some(commit) = page.front().map(Arc::clone) {
                let returned = self.returned(&commit).await;
                // Only now: the future may be dropped before.
                self.page.pop_front();
                match returned? {
                    Some(event) => return Ok(Some(event)),
                    None => continue,
                }
            }
            let next =
                poll_fn(|context| match feed.hub.next(*number, *reader, Some(context.waker())) {
                    Next::Nothing => Poll::Pending,
                    next => Poll::Ready(next),
                });
            match next.await {
                Next::Commit(commit) => {
                    if let Some(event) = self.returned(&commit).await? {
                        return Ok(Some(event));
                    }
                }
                Next::Removed(number) => {
                    self.number = number;
                    return Ok(Some(FeedEvent::Gap(self.position())));
                }
                Next::Stored(to) => {
                    match stored_commits(&self.store, &self.feed, self.number, to).await? {
                        StoredPage::Commits(page) => self.page = page,
                        StoredPage::Empty => self.number = to,
                        StoredPage::Removed(to) => {
                            self.number = to;
                            return Ok(Some(FeedEvent::Gap(self.position())));
                        }
                    }
                }
                Next::Nothing | Next::Closed => return Ok(None),
            }
        }
    }

    /// Returns the event of a commit; `None` if only internal tables were changed.
    async fn returned(&mut self, commit: &StoredCommit) -> Result<Option<FeedEvent>> {
        let decoded = decoded(&self.store, &self.feed, commit).await?;
        self.number = commit.number;
        let hides = |change: &Change| is_internal(&change.table);
        if self.has_internal || !decoded.changes.iter().any(hides) {
            return Ok(Some(FeedEvent::Commit(decoded)));
        }
        let shown = decoded.changes.iter().filter(|change| !hides(change));
        let changes: Vec<Change> = shown.cloned().collect();
        if changes.is_empty() {
            return Ok(None);
        }
        let Commit { position, at, .. } = *decoded;
        Ok(Some(FeedEvent::Commit(Arc::new(Commit { position, at, changes }))))
    }
}

impl Drop for ChangeStream {
    fn drop(&mut self) {
        self.feed.hub.remove_reader(self.reader);
    }
}

/// A registered reader of the hub.
struct Reader<'f> {
    feed: &'f ChangeFeed,
    number: u64,
}

impl<'f> Reader<'f> {
    fn new(feed: &'f ChangeFeed) -> Self {
        Self { feed, number: feed.hub.add_reader() }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.feed.hub.remove_reader(self.number);
    }
}

/// Decodes a commit. The tables that it names may have been recorded by a process with other
/// versions of the models: then they are read first.
pub(crate) async fn decoded(
    store: &Store,
    feed: &ChangeFeed,
    commit: &StoredCommit,
) -> Result<Arc<Commit>> {
    match commit.decode(feed.hub.feed(), &feed.shapes) {
        Ok(decoded) => Ok(decoded),
        Err(_) => {
            store.action(LearnShapes { feed, read: Ok(()) }).await?;
            commit.decode(feed.hub.feed(), &feed.shapes)
        }
    }
}

/// The verb that reads the recorded tables which are not known here.
struct LearnShapes<'f> {
    feed: &'f ChangeFeed,
    read: Result<()>,
}

impl Verb for LearnShapes<'_> {
    type Output = ();

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self { feed, read } = self;
        let table = &*feed.shape_table;
        let query = RowQuery { fields: Some(table.all()), ..RowQuery::new() };
        call(&mut Operation::List { table, query: &query }, &mut |row: &[ValueRef<'_>]| {
            match Shape::of_row(row, |name| store.core.recordable(name)) {
                Ok((number, shape)) if feed.shapes.get(number).is_none() => {
                    feed.shapes.add(number, shape);
                }
                Ok(_) => {}
                Err(error) => *read = Err(error),
            }
            ControlFlow::Continue(())
        })
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<()> {
        std::mem::replace(&mut self.read, Ok(()))
    }
}

/// A page of stored commits.
pub(crate) enum StoredPage {
    /// The first ones, in order.
    Commits(VecDeque<Arc<StoredCommit>>),
    /// The numbers belong to no commits.
    Empty,
    /// The commits up to this number were removed.
    Removed(u64),
}

/// Reads the first stored commits after a number and up to another.
pub(crate) async fn stored_commits(
    store: &Store,
    feed: &ChangeFeed,
    after: u64,
    to: u64,
) -> Result<StoredPage> {
    let read = StoredCommits { after, to, feed, read: VecDeque::new() };
    let mut page = store.action(read).await?;
    page.retain(|commit| commit.number > after);
    let capability = store.capability();
    if capability.shared_commits || capability.shared_file {
        // Another process records what it removes, and then removes it: so this is read later.
        let removed = store.action(RemovedUpTo { feed, removed: 0 }).await?;
        if removed > after {
            feed.hub.removed(removed);
            return Ok(StoredPage::Removed(removed));
        }
    }
    match page.is_empty() {
        false => Ok(StoredPage::Commits(page)),
        true if capability.shared_commits => Ok(StoredPage::Empty),
        // They were removed meanwhile.
        true => Ok(StoredPage::Removed(after.max(to))),
    }
}

/// Returns the number of the last commit that was removed from the feed, by any process.
///
/// # Errors
/// Those of the engine.
pub(crate) fn removed_up_to(store: &Store, feed: &ChangeFeed) -> Result<u64> {
    store.action(RemovedUpTo { feed, removed: 0 }).run()
}

/// The verb that reads the number of the last removed commit.
struct RemovedUpTo<'f> {
    feed: &'f ChangeFeed,
    removed: u64,
}

impl Verb for RemovedUpTo<'_> {
    type Output = u64;

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self { feed, removed } = self;
        let table = &*feed.identity;
        let query = RowQuery { fields: Some(table.all()), limit: Some(1), ..RowQuery::new() };
        call(&mut Operation::List { table, query: &query }, &mut |row: &[ValueRef<'_>]| {
            *removed = integer(row[identity::REMOVED]);
            ControlFlow::Break(())
        })
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<u64> {
        Ok(self.removed)
    }
}

/// The verb that reads a page of stored commits.
struct StoredCommits<'f> {
    after: u64,
    to: u64,
    feed: &'f ChangeFeed,
    read: VecDeque<Arc<StoredCommit>>,
}

impl Verb for StoredCommits<'_> {
    type Output = VecDeque<Arc<StoredCommit>>;

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self { after, to, feed, read } = self;
        let table = &*feed.commits;
        let query = commits_between(*after, *to, table.all(), PAGE);
        call(&mut Operation::List { table, query: &query }, &mut |row: &[ValueRef<'_>]| {
            read.extend(StoredCommit::of_row(row).map(Arc::new));
            ControlFlow::Continue(())
        })
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Self::Output> {
        Ok(std::mem::take(&mut self.read))
    }
}
