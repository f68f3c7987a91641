//! An engine that has every operation wait, once without an end and once with
//! it: what answers at once in memory takes the road of engines that cannot.
//! Reads lend their first row before they wait, as long scans do.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::task::{Context, Poll};

use marmota_model::{Result, RowSink, Value, ValueRef};
use marmota_store::Durability;
use marmota_store::engine::{self, Engine, Session, Submitted, Ticket};
use marmota_store::operation::{Operation, Outcome};

use crate::wrapped::Wrapped;

/// The engine, slow.
pub(crate) fn slow<E: Engine>(engine: E) -> Wrapped<E> {
    Wrapped::new(engine, |inner| {
        Box::new(SlowSession { inner, tickets: 0, waiting: HashMap::new() })
    })
}

struct SlowSession {
    inner: Box<dyn Session>,
    tickets: u64,
    waiting: HashMap<Ticket, Waiting>,
}

#[derive(Default)]
struct Waiting {
    polled: bool,
    /// What a read has still to lend, and its outcome.
    read: Option<(Vec<Vec<Value>>, Outcome)>,
}

impl SlowSession {
    fn run(&mut self, operation: &mut Operation<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        engine::run(&mut *self.inner, operation, sink)
    }

    fn end(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome> {
        let waiting = self.waiting.remove(&ticket).expect("a ticket of this session");
        let Some((rows, outcome)) = waiting.read else { return self.run(operation, sink) };
        // Whether the sink breaks does not matter: there is nothing behind.
        let _ = rows.iter().try_for_each(|row| lend(row, sink));
        Ok(outcome)
    }
}

fn lend(row: &[Value], sink: &mut dyn RowSink) -> ControlFlow<()> {
    sink.row(&row.iter().map(Value::as_ref).collect::<Vec<_>>())
}

impl Session for SlowSession {
    fn submit(
        &mut self,
        _: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        _: &mut Outcome,
    ) -> Result<Submitted> {
        self.tickets += 1;
        let mut waiting = Waiting::default();
        if let Operation::Get { .. } | Operation::List { .. } = operation {
            let mut rows = Vec::new();
            let mut keep = |row: &[ValueRef<'_>]| {
                rows.push(row.iter().map(ValueRef::to_value).collect::<Vec<_>>());
                ControlFlow::Continue(())
            };
            let outcome = self.run(operation, &mut keep)?;
            if !rows.is_empty() && lend(&rows.remove(0), sink).is_break() {
                rows.clear();
            }
            waiting.read = Some((rows, outcome));
        }
        self.waiting.insert(Ticket(self.tickets), waiting);
        Ok(Submitted::Waiting(Ticket(self.tickets)))
    }

    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let waiting = self.waiting.get_mut(&ticket).expect("a ticket of this session");
        if !std::mem::replace(&mut waiting.polled, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.end(ticket, operation, sink).map(|done| *outcome = done))
    }

    fn cancel(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
    }
}
