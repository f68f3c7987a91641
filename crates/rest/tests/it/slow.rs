//! An engine that has every operation wait, once without an end and once with
//! it: what answers at once in memory takes the road of engines that cannot.

use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_model::{Result, RowSink, Table};
use marmota_store::engine::{Capability, Engine, Session, Submitted, Ticket};
use marmota_store::operation::{Operation, Outcome};

pub(crate) struct Slow<E>(E);

impl<E> Slow<E> {
    pub(crate) const fn new(engine: E) -> Self {
        Self(engine)
    }
}

impl<E: Engine> Engine for Slow<E> {
    fn capability(&self) -> &Capability {
        self.0.capability()
    }

    fn prepare(&self, tables: &[Arc<Table>], version: u32) -> Result<()> {
        self.0.prepare(tables, version)
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(SlowSession { inner: self.0.session()?, tickets: 0, polled: Vec::new() }))
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

struct SlowSession {
    inner: Box<dyn Session>,
    tickets: u64,
    /// The tickets that were polled once.
    polled: Vec<Ticket>,
}

impl Session for SlowSession {
    fn submit(&mut self, _: &mut Operation<'_>, _: &mut dyn RowSink) -> Result<Submitted> {
        self.tickets += 1;
        Ok(Submitted::Waiting(Ticket(self.tickets)))
    }

    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        context: &mut Context<'_>,
    ) -> Poll<Result<Outcome>> {
        if !self.polled.contains(&ticket) {
            self.polled.push(ticket);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.wait(ticket, operation, sink))
    }

    fn wait(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome> {
        self.polled.retain(|polled| *polled != ticket);
        match self.inner.submit(operation, sink)? {
            Submitted::Done(outcome) => Ok(outcome),
            Submitted::Waiting(ticket) => self.inner.wait(ticket, operation, sink),
        }
    }

    fn cancel(&mut self, ticket: Ticket) {
        self.polled.retain(|polled| *polled != ticket);
    }
}
