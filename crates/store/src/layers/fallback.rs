//! The layer of reads that an engine may leave to the store: groups of rows, and the first rows for
//! each value of a field.
//!
//! The engine gets the read first. If it returns [`ErrorKind::Unsupported`], the layer lists the rows,
//! and groups or limits them as they are lent. So such a read takes turns, can wait and is cancelled
//! like any list of the engine, and its results are the same as those of an engine that does it
//! itself. Only the groups are kept in memory, up to a limit.

use std::ops::ControlFlow;
use std::task::{Context, Poll};

use hashbrown::HashMap;
use marmota_model::binary::put_value;
use marmota_model::{ErrorKind, Result, RowQuery, RowSink, ValueRef};

use crate::contract::durability::Durability;
use crate::contract::operation::{Operation, Outcome};
use crate::layers::handle::HandleContext;
use crate::layers::layer::Layer;
use crate::layers::session::pool::Sessions;
use crate::rows::row_groups::RowGroups;

/// The layer of reads that the engine leaves to the store.
pub(crate) struct FallbackLayer<L> {
    next: L,
}

/// A read that waits in this layer or below it.
#[derive(Debug, Default)]
pub(crate) struct FallbackState<S> {
    /// The state of a read that this layer executes as a list.
    reading: Option<Reading>,
    next: S,
}

/// A read that is executed as a list.
#[derive(Debug)]
enum Reading {
    /// Groups, so far.
    Groups(Box<(RowQuery, RowGroups)>),
    /// The number of rows for each value of a field, so far.
    Each(HashMap<Vec<u8>, u64>),
}

/// Returns true for an operation that an engine may leave to this layer.
#[inline]
pub(crate) const fn is_left_to_store(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Group { .. } | Operation::ListEach { .. })
}

impl<L: Layer> FallbackLayer<L> {
    /// Creates the layer above `next`.
    pub(crate) const fn new(next: L) -> Self {
        Self { next }
    }

    /// Executes a read as a list: submits the list, or continues it with the context of a poll.
    fn read(
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
        let run = |list: &mut Operation<'_>, sink: &mut dyn RowSink| {
            let mut listed = Outcome::default();
            match context {
                Some(context) => self.next.poll(handle, next, list, sink, &mut listed, context),
                None => self.next.submit(handle, next, None, list, sink, &mut listed),
            }
        };
        match (reading, operation) {
            (Reading::Groups(reading), Operation::Group { table, query, result }) => {
                let (list, groups) = &mut **reading;
                let done = run(&mut Operation::List { table, query: list }, groups);
                if let Poll::Ready(Ok(())) = done {
                    let _lending = self.sessions().begin_lending()?;
                    outcome.rows = groups.lend((table, result), query, sink)?;
                }
                done
            }
            (Reading::Each(counts), Operation::ListEach { table, query, by, limit }) => {
                let (by, limit) = (*by, *limit);
                let mut first = FirstRows { counts, by, limit, sink, key: Vec::new() };
                let done = run(&mut Operation::List { table, query }, &mut first);
                if let Poll::Ready(Ok(())) = done {
                    outcome.rows = counts.values().map(|count| (*count).min(limit)).sum();
                }
                done
            }
            _ => Poll::Ready(Ok(())),
        }
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
                Reading::Groups(Box::new((list, RowGroups::new(table, query))))
            }
            _ => Reading::Each(HashMap::new()),
        });
        self.read(handle, state, operation, sink, outcome, None)
    }
}

/// A sink for the first rows of each value of a field.
struct FirstRows<'r> {
    counts: &'r mut HashMap<Vec<u8>, u64>,
    by: usize,
    limit: u64,
    sink: &'r mut dyn RowSink,
    key: Vec<u8>,
}

impl RowSink for FirstRows<'_> {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.key.clear();
        put_value(&mut self.key, row[self.by]);
        let count = match self.counts.get_mut(&self.key) {
            Some(count) => count,
            None => self.counts.entry(self.key.clone()).or_default(),
        };
        *count += 1;
        if *count > self.limit {
            return ControlFlow::Continue(());
        }
        self.sink.row(row)
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
        self.next.cancel(handle, state.next);
    }

    #[inline]
    fn sessions(&self) -> &Sessions {
        self.next.sessions()
    }
}
