//! The layer of reads that an engine may leave to the store: groups of rows, the first rows for each
//! value of a field, and the best rows by a computed order. Lists in an order by fields of related
//! rows, and groups by them, are never given to engines: they are executed as several reads.
//!
//! The engine gets the other reads first. If it returns [`ErrorKind::Unsupported`], the layer lists the rows,
//! and groups, limits or ranks them as they are lent. So such a read takes turns, can wait and is cancelled
//! like any list of the engine, and its results are the same as those of an engine that does it
//! itself. Only the groups and the best rows are kept in memory, up to a limit.

mod related_groups;
mod related_list;
mod related_lookup;
mod staged_read;

use std::ops::ControlFlow;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use marmota_model::binary::put_value;
use marmota_model::{Error, ErrorKind, GroupQuery, Result, RowQuery, RowSink, Table, ValueRef};

use self::related_groups::RelatedGroups;
use self::related_list::RelatedList;
use self::staged_read::StagedRead;
use crate::contract::durability::Durability;
use crate::contract::operation::{Operation, Outcome};
use crate::layers::handle::HandleContext;
use crate::layers::layer::Layer;
use crate::layers::session::pool::Sessions;
use crate::rows::best_rows::BestRows;
use crate::rows::row_groups::{RowGroups, SortedGroups};

/// The layer of reads that the engine leaves to the store.
pub(crate) struct FallbackLayer<L> {
    next: L,
}

/// A read that waits in this layer or below it.
#[derive(Debug, Default)]
pub(crate) struct FallbackState<S> {
    /// The state of a read that this layer executes as others.
    reading: Option<Reading<S>>,
    next: S,
}

/// A read that is executed as a list, or as several reads.
#[derive(Debug)]
enum Reading<S> {
    /// Groups.
    Groups(Box<GroupsRead>),
    /// The first rows for each value of a field: the list without its limit, and the rows so far.
    Each(Box<(RowQuery, Counts)>),
    /// The best rows, so far.
    Ranked(Box<(RowQuery, BestRows)>),
    /// A read by related rows.
    Staged(Box<Staged<S>>),
}

/// A read of groups: the list of their rows, the groups so far, and the groups after the last row.
#[derive(Debug)]
struct GroupsRead {
    list: RowQuery,
    groups: RowGroups,
    sorted: Option<SortedGroups>,
}

/// A read in stages.
#[derive(Debug)]
struct Staged<S> {
    read: Box<dyn StagedRead>,
    /// True while the read of the stage waits, with this state.
    is_submitted: bool,
    state: FallbackState<S>,
}

/// The maximum size of the values of a field whose rows are counted, in bytes.
const COUNTS_BYTES_MAX: usize = 64 << 20;
/// The approximate size of a count without its value.
const COUNT_BYTES: usize = 48;

/// The time after which a read of many short lists, or of groups after its list, lets the thread do
/// other work.
const TURN: Duration = Duration::from_millis(1);

/// The number of rows for each value of a field.
#[derive(Debug, Default)]
struct Counts {
    rows: HashMap<Vec<u8>, u64>,
    bytes: usize,
    /// The number of rows that were lent.
    lent: u64,
}

/// Returns true for an operation that an engine may leave to this layer.
#[inline]
pub(crate) const fn is_left_to_store(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Group { .. } | Operation::ListEach { .. } | Operation::ListRanked { .. } => true,
        Operation::List { query, .. } => !query.related.is_empty(),
        _ => false,
    }
}

/// Returns true for a list in an order by fields of related rows, and for groups by them.
#[inline]
const fn has_related_fields(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::List { query, .. } | Operation::ListEach { query, .. } => {
            !query.related.is_empty()
        }
        Operation::Group { query, .. } => !query.related.is_empty(),
        _ => false,
    }
}

impl<L: Layer> FallbackLayer<L> {
    /// Creates the layer above `next`.
    pub(crate) const fn new(next: L) -> Self {
        Self { next }
    }

    /// Executes a read as a list: submits the list, or continues it with the context of a poll. A read
    /// that is done leaves nothing in `state`, which its owner forgets without dropping it.
    fn read(
        &self,
        handle: &HandleContext,
        state: &mut FallbackState<L::State>,
        operation: &Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: Option<&mut Context<'_>>,
    ) -> Poll<Result<()>> {
        let read = self.read_on(handle, state, operation, sink, outcome, context);
        if read.is_ready() {
            state.reading = None;
        }
        read
    }

    fn read_on(
        &self,
        handle: &HandleContext,
        state: &mut FallbackState<L::State>,
        operation: &Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: Option<&mut Context<'_>>,
    ) -> Poll<Result<()>> {
        let FallbackState { reading: Some(reading), next } = state else {
            return Poll::Ready(Ok(()));
        };
        if let Reading::Staged(staged) = reading {
            return self.read_staged(handle, staged, operation, sink, outcome, context);
        }
        if let (Reading::Groups(reading), Operation::Group { table, query, result }) =
            (&mut *reading, operation)
            && let Some(sorted) = &mut reading.sorted
        {
            return self.lend_groups(sorted, (table, result), query, sink, outcome, context);
        }
        let (mut context, mut listed) = (context, Outcome::default());
        let mut run = |list: &mut Operation<'_>, sink: &mut dyn RowSink| match &mut context {
            Some(context) => self.next.poll(handle, next, list, sink, &mut listed, context),
            None => self.next.submit(handle, next, None, list, sink, &mut listed),
        };
        let done = match (reading, operation) {
            (Reading::Groups(reading), Operation::Group { table, query, result }) => {
                let GroupsRead { list, groups, sorted } = &mut **reading;
                ready!(run(&mut Operation::List { table, query: list }, groups))?;
                outcome.from_replica |= listed.from_replica;
                let sorted = sorted.insert(groups.end(result, query)?);
                self.lend_groups(sorted, (table, result), query, sink, outcome, context)
            }
            (Reading::Ranked(reading), Operation::ListRanked { table, .. }) => {
                let (list, best) = &mut **reading;
                let done = run(&mut Operation::List { table, query: list }, best);
                if let Poll::Ready(Ok(())) = done {
                    let _lending = self.sessions().begin_lending()?;
                    outcome.rows = best.lend(sink)?;
                }
                done
            }
            (Reading::Each(reading), Operation::ListEach { table, query, by, limit }) => {
                let (list, counts) = &mut **reading;
                let (by, limit, lent_max) = (*by, *limit, query.limit.unwrap_or(u64::MAX));
                let mut first = FirstRows { counts, by, limit, lent_max, sink, key: Vec::new() };
                let done = match lent_max {
                    0 => Poll::Ready(Ok(())),
                    _ => run(&mut Operation::List { table, query: list }, &mut first),
                };
                if done.is_ready() && counts.bytes > COUNTS_BYTES_MAX {
                    let message = "the field has too many different values; select fewer rows";
                    return Poll::Ready(Err(Error::new(ErrorKind::Invalid, message)));
                }
                if let Poll::Ready(Ok(())) = done {
                    outcome.rows = counts.lent;
                }
                done
            }
            _ => Poll::Ready(Ok(())),
        };
        outcome.from_replica |= listed.from_replica;
        done
    }

    /// Sorts and lends groups, until the turn is over.
    fn lend_groups(
        &self,
        groups: &mut SortedGroups,
        tables: (&Table, &Table),
        query: &GroupQuery,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: Option<&mut Context<'_>>,
    ) -> Poll<Result<()>> {
        let begun = Instant::now();
        let _lending = self.sessions().begin_lending()?;
        while groups.advance(tables, query, sink)? {
            if begun.elapsed() > TURN {
                if let Some(context) = context {
                    context.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
        }
        outcome.rows = groups.lent();
        Poll::Ready(Ok(()))
    }

    /// Executes the stages of a read, until one has to wait.
    fn read_staged(
        &self,
        handle: &HandleContext,
        staged: &mut Staged<L::State>,
        operation: &Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        mut context: Option<&mut Context<'_>>,
    ) -> Poll<Result<()>> {
        let Some(table) = operation.table() else { return Poll::Ready(Ok(())) };
        let begun = Instant::now();
        while let Some(related) = staged.read.table() {
            let related = related.map(|name| table.related(name)).transpose()?;
            if staged.read.has_read() {
                let (table, mut done) = (related.as_deref().unwrap_or(table), Outcome::default());
                let context = context.as_deref_mut();
                ready!(self.read_stage(handle, staged, table, &mut done, context))?;
                outcome.from_replica |= done.from_replica;
            }
            let _lending = self.sessions().begin_lending()?;
            staged.read.advance(operation, sink)?;
            if begun.elapsed() > TURN {
                if let Some(context) = context {
                    context.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
        }
        outcome.rows = staged.read.lent();
        Poll::Ready(Ok(()))
    }

    /// Executes the read of a stage, on `table`, or continues it.
    fn read_stage(
        &self,
        handle: &HandleContext,
        staged: &mut Staged<L::State>,
        table: &Table,
        done: &mut Outcome,
        context: Option<&mut Context<'_>>,
    ) -> Poll<Result<()>> {
        let Staged { read, is_submitted, state } = staged;
        let query = read.query();
        let mut stage = query.operation(table);
        if !*is_submitted {
            *state = FallbackState::default();
            let submitted = self.submit(handle, state, None, &mut stage, &mut **read, done);
            *is_submitted = submitted.is_pending();
            if submitted.is_ready() {
                return submitted;
            }
        }
        // Only a poll registers the waker.
        let polled = match context {
            Some(context) => self.poll(handle, state, &mut stage, &mut **read, done, context),
            None => Poll::Pending,
        };
        *is_submitted = polled.is_pending();
        polled
    }

    /// Begins a read by related rows.
    #[inline(never)]
    fn submit_related(
        &self,
        handle: &HandleContext,
        state: &mut FallbackState<L::State>,
        operation: &Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        let read: Box<dyn StagedRead> = match operation {
            Operation::List { table, query } => {
                query.check_paths(table)?;
                Box::new(RelatedList::new(table, query))
            }
            Operation::Group { table, query, .. } => Box::new(RelatedGroups::new(table, query)?),
            Operation::ListEach { query, .. } => {
                query.refuse_related("a list of the first rows of each value")?;
                return Poll::Ready(Ok(()));
            }
            _ => return Poll::Ready(Ok(())),
        };
        let staged = Staged { read, is_submitted: false, state: FallbackState::default() };
        state.reading = Some(Reading::Staged(Box::new(staged)));
        self.read(handle, state, operation, sink, outcome, None)
    }

    /// Submits a read to the engine, and begins to execute it as a list if the engine refuses it.
    #[inline(never)]
    fn submit_read(
        &self,
        handle: &HandleContext,
        state: &mut FallbackState<L::State>,
        operation: &Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        submitted: Poll<Result<()>>,
    ) -> Poll<Result<()>> {
        match &submitted {
            Poll::Ready(Err(error)) if error.kind() == ErrorKind::Unsupported => {}
            _ => return submitted,
        }
        state.next = L::State::default();
        state.reading = Some(match operation {
            Operation::Group { table, query, .. } => {
                let list = RowQuery {
                    filter: query.filter.clone(),
                    fields: Some(query.fields()),
                    ..RowQuery::new()
                };
                let groups = RowGroups::new(table, query);
                Reading::Groups(Box::new(GroupsRead { list, groups, sorted: None }))
            }
            Operation::ListRanked { table, query } => {
                let list = RowQuery {
                    filter: query.filter.clone(),
                    fields: Some(query.fields_read(table)),
                    limit: (query.limit == 0).then_some(0),
                    ..RowQuery::new()
                };
                Reading::Ranked(Box::new((list, BestRows::new(table, query))))
            }
            Operation::ListEach { query, .. } => {
                let list = RowQuery { limit: None, ..RowQuery::clone(query) };
                Reading::Each(Box::new((list, Counts::default())))
            }
            _ => return submitted,
        });
        self.read(handle, state, operation, sink, outcome, None)
    }
}

/// A sink for the first rows of each value of a field.
struct FirstRows<'r> {
    counts: &'r mut Counts,
    by: usize,
    limit: u64,
    /// The maximum number of rows of all values.
    lent_max: u64,
    sink: &'r mut dyn RowSink,
    key: Vec<u8>,
}

impl RowSink for FirstRows<'_> {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.key.clear();
        put_value(&mut self.key, row[self.by]);
        let Counts { rows, bytes, lent } = &mut *self.counts;
        let count = match rows.get_mut(&self.key) {
            Some(count) => count,
            None => {
                *bytes += self.key.len() + COUNT_BYTES;
                if *bytes > COUNTS_BYTES_MAX {
                    return ControlFlow::Break(());
                }
                rows.entry(self.key.clone()).or_default()
            }
        };
        *count += 1;
        if *count > self.limit {
            return ControlFlow::Continue(());
        }
        *lent += 1;
        self.sink.row(row)?;
        if *lent == self.lent_max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl<L: Layer> Layer for FallbackLayer<L> {
    /// The part of this layer, with the state of the layer below.
    type State = FallbackState<L::State>;

    #[inline(always)]
    fn submit(
        &self,
        handle: &HandleContext,
        state: &mut Self::State,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        if has_related_fields(operation) {
            return self.submit_related(handle, state, operation, sink, outcome);
        }
        let next = &mut state.next;
        let submitted = self.next.submit(handle, next, durability, operation, sink, outcome);
        if is_left_to_store(operation) {
            return self.submit_read(handle, state, operation, sink, outcome, submitted);
        }
        submitted
    }

    #[inline]
    fn poll(
        &self,
        handle: &HandleContext,
        state: &mut Self::State,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        if state.reading.is_some() {
            return self.read(handle, state, operation, sink, outcome, Some(context));
        }
        let polled = self.next.poll(handle, &mut state.next, operation, sink, outcome, context);
        if !is_left_to_store(operation) {
            return polled;
        }
        match self.submit_read(handle, state, operation, sink, outcome, polled) {
            // Only a poll registers the waker.
            Poll::Pending if state.reading.is_some() => {
                self.read(handle, state, operation, sink, outcome, Some(context))
            }
            polled => polled,
        }
    }

    fn cancel(&self, handle: &HandleContext, state: Self::State) {
        match state.reading {
            Some(Reading::Staged(staged)) if staged.is_submitted => {
                self.cancel(handle, staged.state);
            }
            // Between two stages nothing waits in a session, nor after the list of groups.
            Some(Reading::Staged(_)) => {}
            Some(Reading::Groups(groups)) if groups.sorted.is_some() => {}
            _ => self.next.cancel(handle, state.next),
        }
    }

    #[inline]
    fn sessions(&self) -> &Sessions {
        self.next.sessions()
    }
}
