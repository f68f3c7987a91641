//! Tests of the layers, each above a layer that returns prepared results and records its calls.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use marmota_model::{
    Caller, Error, ErrorKind, Field, Key, Kind, Model, NoRows, Result, Role, RowQuery, RowSink,
    Schema, Table, ValueRef,
};
use parking_lot::Mutex;

use super::cache::CacheLayer;
use super::cache::row_cache::Cache;
use super::fallback::{FallbackLayer, FallbackState};
use super::handle::{HandleContext, Place};
use super::layer::Layer;
use super::metrics::MetricsLayer;
use super::metrics::meter::{Meter, Metering};
use super::rights::RightsLayer;
use super::session::Sessions;
use super::steps::StepsLayer;
use super::thread_slot::SLOTS;
use crate::contract::audit::AuditLog;
use crate::contract::durability::Durability;
use crate::contract::engine::{Capability, Engine, Session, Submitted, Ticket};
use crate::contract::operation::{Operation, Outcome};
use crate::contract::plan::{Destructive, Plan};
use crate::rights::{Grant, Right, Rights};
use crate::rows::history::{HISTORY_TABLE, History, of_row};
use crate::rows::registry::Registry;

/// How the lowest layer answers a call.
#[derive(Clone, Copy)]
enum Answer {
    /// It is done with this many rows.
    Done(u64),
    Fails,
    /// The engine leaves the operation to the store.
    Refuses,
    Waits,
}
use Answer::{Done, Fails, Refuses, Waits};

/// The calls of a recorder.
type Calls = Arc<Mutex<Vec<String>>>;

struct Recorder {
    answers: Mutex<VecDeque<Answer>>,
    calls: Calls,
    sessions: Sessions,
}

impl Recorder {
    fn new(answers: &[Answer]) -> Self {
        Self {
            answers: Mutex::new(answers.iter().copied().collect()),
            calls: Calls::default(),
            sessions: Sessions::new(Box::new(Idle(Capability::new("idle", false))), false),
        }
    }

    fn answer(
        &self,
        call: &str,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        self.calls.lock().push(format!("{call} {}", described(operation)));
        match self.answers.lock().pop_front().expect("an answer for each call") {
            Waits => Poll::Pending,
            Fails => Poll::Ready(Err(Error::new(ErrorKind::Engine, "it fails"))),
            Refuses => Poll::Ready(Err(Error::new(ErrorKind::Unsupported, "left to the store"))),
            Done(rows) => {
                outcome.rows = rows;
                if let Operation::Get { .. } = operation {
                    let _ = sink.row(&[ValueRef::Int(1), ValueRef::Int(7)]);
                }
                if let Operation::Batch { writes, results, .. } = operation {
                    let done = || Ok(Outcome { rows: 1, ..Outcome::default() });
                    results.extend(writes.iter().map(|_| done()));
                }
                Poll::Ready(Ok(()))
            }
        }
    }
}

fn described(operation: &Operation<'_>) -> &'static str {
    match operation {
        Operation::Get { .. } => "get",
        Operation::List { query, .. } if query.filter.is_some() => "narrowed list",
        Operation::List { .. } => "list",
        Operation::Count { .. } => "count",
        Operation::Insert { .. } => "insert",
        Operation::Update { .. } => "update",
        Operation::Batch { .. } => "batch",
        Operation::Commit => "commit",
        _ => "other",
    }
}

impl Layer for Recorder {
    type State = ();

    fn submit(
        &self,
        _: &HandleContext,
        (): &mut (),
        _: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        self.answer("submit", operation, sink, outcome)
    }

    fn poll(
        &self,
        _: &HandleContext,
        (): &mut (),
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        _: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        self.answer("poll", operation, sink, outcome)
    }

    fn cancel(&self, _: &HandleContext, (): ()) {
        self.calls.lock().push("cancel".to_owned());
    }

    fn sessions(&self) -> &Sessions {
        &self.sessions
    }
}

/// An engine with sessions that do nothing.
struct Idle(Capability);

impl Engine for Idle {
    fn capability(&self) -> &Capability {
        &self.0
    }

    fn plan(&self, _: &[Arc<Table>], _: u32) -> Result<Plan> {
        Ok(Plan::default())
    }

    fn migrate(&self, _: &[Arc<Table>], _: u32, _: &Destructive) -> Result<Plan> {
        Ok(Plan::default())
    }

    fn open_table(&self, _: &Arc<Table>) -> Result<bool> {
        Ok(true)
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(IdleSession))
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

struct IdleSession;

impl Session for IdleSession {
    fn submit(
        &mut self,
        _: Option<Durability>,
        _: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        _: &mut Outcome,
    ) -> Result<Submitted> {
        let _ = sink.row(&[]);
        Ok(Submitted::Done)
    }

    fn poll(
        &mut self,
        _: Ticket,
        _: &mut Operation<'_>,
        _: &mut dyn RowSink,
        _: &mut Outcome,
        _: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn cancel(&mut self, _: Ticket) {}
}

/// The tables `note`, whose owner is immutable, and the history.
fn registry() -> Arc<Registry> {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("owner", Kind::I64).immutable(true),
    ];
    let mut note = Schema::new("note", fields);
    note.audit = true;
    let mut registry = Registry::default();
    registry.add(Arc::new(Table::new(note).unwrap()), None).unwrap();
    registry.add(Arc::new(Table::new(History::schema().clone()).unwrap()), None).unwrap();
    Arc::new(registry)
}

fn under(rights: Arc<Rights>) -> HandleContext {
    HandleContext { rights: Some(rights), ..HandleContext::of_store() }
}

/// Calls of one operation through a layer.
struct Driver<'l, L: Layer> {
    layer: &'l L,
    handle: HandleContext,
    state: L::State,
    outcome: Outcome,
}

impl<'l, L: Layer> Driver<'l, L> {
    fn new(layer: &'l L, handle: HandleContext) -> Self {
        Self { layer, handle, state: L::State::default(), outcome: Outcome::default() }
    }

    fn submit(&mut self, mut operation: Operation<'_>) -> Poll<Result<()>> {
        let Self { layer, handle, state, outcome } = self;
        layer.submit(handle, state, None, &mut operation, &mut NoRows, outcome)
    }

    fn poll(&mut self, mut operation: Operation<'_>) -> Poll<Result<()>> {
        let Self { layer, handle, state, outcome } = self;
        let context = &mut Context::from_waker(Waker::noop());
        layer.poll(handle, state, &mut operation, &mut NoRows, outcome, context)
    }

    fn cancel(self) {
        self.layer.cancel(&self.handle, self.state);
    }
}

fn kind(polled: Poll<Result<()>>) -> Option<ErrorKind> {
    match polled {
        Poll::Ready(Err(error)) => Some(error.kind()),
        _ => None,
    }
}

#[test]
fn an_operation_is_counted_once_when_it_ends() {
    let registry = registry();
    let meter = Arc::new(Meter::new(Metering::default(), &registry, SLOTS));
    let answers = [Waits, Waits, Done(3), Fails, Waits];
    let layer = MetricsLayer::new(Some(Arc::clone(&meter)), Recorder::new(&answers));
    let (note, query) = (registry.table("note").unwrap(), RowQuery::new());
    let list = || Operation::List { table: note, query: &query };
    let counted = || {
        let verbs = meter.activity().verbs;
        verbs.first().map(|of| (of.verb, of.done.count, of.done.rows, of.done.errors))
    };

    let mut waits = Driver::new(&layer, HandleContext::of_store());
    assert!(waits.submit(list()).is_pending() && waits.poll(list()).is_pending());
    assert_eq!(counted(), None);
    assert!(waits.poll(list()).is_ready());
    assert_eq!(counted(), Some(("list", 1, 3, 0)));

    assert!(Driver::new(&layer, HandleContext::of_store()).submit(list()).is_ready());
    assert_eq!(counted(), Some(("list", 2, 3, 1)), "one that fails");

    let mut cancelled = Driver::new(&layer, HandleContext::of_store());
    assert!(cancelled.submit(list()).is_pending());
    cancelled.cancel();
    assert_eq!(counted(), Some(("list", 3, 3, 2)), "one that is cancelled");
}

#[test]
fn rights_refuse_or_narrow_an_operation_at_each_call() {
    let registry = registry();
    let caller = Caller { id: "7".into(), name: "ann".into(), groups: vec![] };
    let own = Grant::new("note", &[Right::Read]).rule("owner = @user.id");
    let rights = Rights::new(&registry, Some(caller), &[own]).unwrap();
    let recorder = Recorder::new(&[Waits, Done(1)]);
    let calls = Calls::clone(&recorder.calls);
    let layer = RightsLayer::new(recorder);
    let (note, query) = (registry.table("note").unwrap(), RowQuery::new());
    let list = || Operation::List { table: note, query: &query };

    let mut reads = Driver::new(&layer, under(Arc::clone(&rights)));
    assert!(reads.submit(list()).is_pending() && reads.poll(list()).is_ready());
    let row = [ValueRef::Int(1), ValueRef::Int(7)];
    let refused = Driver::new(&layer, under(rights)).submit(Operation::insert(note, &row));
    assert_eq!(kind(refused), Some(ErrorKind::Denied));
    assert_eq!(std::mem::take(&mut *calls.lock()), ["submit narrowed list", "poll narrowed list"]);
}

/// The state of an operation that is done is forgotten, so nothing may be left in it.
#[test]
fn a_read_left_to_the_store_leaves_nothing_in_its_state() {
    let registry = registry();
    let (note, query) = (registry.table("note").unwrap(), RowQuery::new());
    let each = || Operation::ListEach { table: note, query: &query, by: 1, limit: 1 };
    let is_empty = |driver: &Driver<'_, FallbackLayer<Recorder>>| {
        format!("{:?}", driver.state) == format!("{:?}", FallbackState::<()>::default())
    };
    let answers =
        [Refuses, Done(0), Refuses, Fails, Refuses, Waits, Done(0), Waits, Refuses, Done(0)];
    let layer = FallbackLayer::new(Recorder::new(&answers));

    let mut done = Driver::new(&layer, HandleContext::of_store());
    assert!(matches!(done.submit(each()), Poll::Ready(Ok(()))) && is_empty(&done));
    let mut fails = Driver::new(&layer, HandleContext::of_store());
    assert!(kind(fails.submit(each())) == Some(ErrorKind::Engine) && is_empty(&fails));
    let mut waits = Driver::new(&layer, HandleContext::of_store());
    assert!(waits.submit(each()).is_pending() && !is_empty(&waits));
    assert!(matches!(waits.poll(each()), Poll::Ready(Ok(()))) && is_empty(&waits));
    let mut late = Driver::new(&layer, HandleContext::of_store());
    assert!(late.submit(each()).is_pending() && is_empty(&late));
    assert!(matches!(late.poll(each()), Poll::Ready(Ok(()))) && is_empty(&late));
}

#[test]
fn the_history_of_a_row_is_read_after_the_check_of_the_row() {
    let registry = registry();
    let caller = Caller { id: "7".into(), name: "ann".into(), groups: vec![] };
    let own = Grant::new("note", &[Right::Read, Right::History]).rule("owner = @user.id");
    let rights = Rights::new(&registry, Some(caller), &[own]).unwrap();
    let history = registry.table(HISTORY_TABLE).unwrap();
    let schema = registry.table("note").unwrap().schema();
    let query =
        RowQuery { filter: Some(of_row(schema, 1_i64.borrow()).into_expr()), ..RowQuery::new() };
    let list = || Operation::List { table: history, query: &query };
    let run = |answers: &[Answer], polls: usize| {
        let recorder = Recorder::new(answers);
        let calls = Calls::clone(&recorder.calls);
        let layer = RightsLayer::new(recorder);
        let mut driver = Driver::new(&layer, under(Arc::clone(&rights)));
        assert_eq!(driver.submit(list()).is_pending(), polls > 0);
        for poll in 1..=polls {
            assert_eq!(driver.poll(list()).is_pending(), poll < polls);
        }
        std::mem::take(&mut *calls.lock())
    };
    assert_eq!(run(&[Done(1), Done(5)], 0), ["submit count", "submit narrowed list"]);
    assert_eq!(run(&[Done(0)], 0), ["submit count"], "the row may not be read");
    assert_eq!(run(&[Waits, Done(0)], 1), ["submit count", "poll count"]);
    // In the first poll, the list is polled after its submission, so that it registers the waker.
    assert_eq!(
        run(&[Waits, Done(1), Waits, Waits, Done(5)], 2),
        [
            "submit count",
            "poll count",
            "submit narrowed list",
            "poll narrowed list",
            "poll narrowed list"
        ]
    );
}

#[test]
fn a_write_with_additional_steps_is_executed_as_a_batch() {
    let registry = registry();
    let note = registry.table("note").unwrap();
    let row = [ValueRef::Int(1), ValueRef::Int(7)];
    let update =
        || Operation::Update { table: note, key: ValueRef::Int(1), row: &row, version: None };
    let recorder = Recorder::new(&[Done(1), Waits, Done(1)]);
    let calls = Calls::clone(&recorder.calls);
    let layer = StepsLayer::new(None, None, true, &registry, recorder);
    let insert =
        Driver::new(&layer, HandleContext::of_store()).submit(Operation::insert(note, &row));
    assert!(insert.is_ready());
    let mut updated = Driver::new(&layer, HandleContext::of_store());
    assert!(updated.submit(update()).is_pending() && updated.poll(update()).is_ready());
    assert_eq!(updated.outcome.rows, 1);
    assert_eq!(
        std::mem::take(&mut *calls.lock()),
        ["submit insert", "submit batch", "poll batch"],
        "a field is immutable"
    );

    let history = registry.table(HISTORY_TABLE).unwrap();
    let audit_log = AuditLog::new(Arc::clone(history), None);
    let recorder = Recorder::new(&[Done(1)]);
    let calls = Calls::clone(&recorder.calls);
    let layer = StepsLayer::new(Some(audit_log), None, true, &registry, recorder);
    let mut driver = Driver::new(&layer, HandleContext::of_store());
    assert!(driver.submit(Operation::insert(note, &row)).is_ready());
    let entry = driver.submit(Operation::insert(history, &[]));
    assert_eq!(kind(entry), Some(ErrorKind::Denied));
    assert_eq!(std::mem::take(&mut *calls.lock()), ["submit batch"], "the table is audited");
}

#[test]
fn a_row_is_cached_until_a_write_is_announced() {
    let registry = registry();
    let note = registry.table("note").unwrap();
    let cache = Arc::new(Cache::new(&registry, 1 << 20, SLOTS));
    let recorder = Recorder::new(&[Done(1), Waits, Done(1), Waits, Done(1)]);
    let calls = Calls::clone(&recorder.calls);
    let layer = CacheLayer::new(Some(Arc::clone(&cache)), recorder);
    let fields = note.read_by_default();
    let get = || Operation::Get { table: note, key: ValueRef::Int(1), fields };
    let row = [ValueRef::Int(1), ValueRef::Int(7)];
    let insert = || Operation::insert(note, &row);
    let driver = || Driver::new(&layer, HandleContext::of_store());

    for _ in 0..2 {
        assert!(driver().submit(get()).is_ready());
    }
    assert_eq!(calls.lock().len(), 1, "the second is answered by the cache");

    let before = cache.version(note);
    let mut write = driver();
    assert!(write.submit(insert()).is_pending());
    assert_eq!(cache.version(note), None, "a write is in progress");
    assert!(write.poll(insert()).is_ready());
    assert!(cache.version(note).is_some() && cache.version(note) != before);

    // It may still be executed, but before a later write is.
    let mut cancelled = driver();
    assert!(cancelled.submit(insert()).is_pending());
    cancelled.cancel();
    assert_eq!(cache.version(note), None);
    assert!(driver().submit(insert()).is_ready());
    assert!(cache.version(note).is_some());
}

#[test]
fn a_transaction_reads_without_the_cache_and_announces_its_tables_at_the_commit() {
    let registry = registry();
    let note = registry.table("note").unwrap();
    let cache = Arc::new(Cache::new(&registry, 1 << 20, SLOTS));
    let recorder = Recorder::new(&[Done(1), Done(1), Done(1), Waits, Done(0)]);
    let calls = Calls::clone(&recorder.calls);
    let transaction = Arc::new(recorder.sessions.transaction().unwrap());
    let layer = CacheLayer::new(Some(Arc::clone(&cache)), recorder);
    let handle =
        HandleContext { place: Place::Transaction(transaction), ..HandleContext::of_store() };
    let fields = note.read_by_default();
    let get = || Operation::Get { table: note, key: ValueRef::Int(1), fields };
    let before = cache.version(note);
    let mut driver = Driver::new(&layer, handle);
    assert!(driver.submit(get()).is_ready() && driver.submit(get()).is_ready());
    assert_eq!(calls.lock().len(), 2);
    let row = [ValueRef::Int(1), ValueRef::Int(7)];
    assert!(driver.submit(Operation::insert(note, &row)).is_ready());
    assert_eq!(cache.version(note), before, "others do not see the row");
    assert!(driver.submit(Operation::Commit).is_pending());
    assert_eq!(cache.version(note), None);
    assert!(driver.poll(Operation::Commit).is_ready());
    assert!(cache.version(note).is_some() && cache.version(note) != before);
}

#[test]
fn a_session_is_not_called_within_its_own_row_callback_nor_after_the_close() {
    let sessions = Sessions::new(Box::new(Idle(Capability::new("idle", false))), false);
    let (handle, mut state) = (HandleContext::of_store(), Default::default());
    let mut within = None;
    let mut sink = |_: &[ValueRef<'_>]| {
        let (state, outcome) = (&mut Default::default(), &mut Outcome::default());
        let again =
            sessions.submit(&handle, state, None, &mut Operation::Begin, &mut NoRows, outcome);
        within = kind(again);
        ControlFlow::Continue(())
    };
    let outcome = &mut Outcome::default();
    let called =
        sessions.submit(&handle, &mut state, None, &mut Operation::Begin, &mut sink, outcome);
    assert!(called.is_ready());
    assert_eq!(within, Some(ErrorKind::Unsupported));
    sessions.close().unwrap();
    let closed =
        sessions.submit(&handle, &mut state, None, &mut Operation::Begin, &mut NoRows, outcome);
    assert_eq!(kind(closed), Some(ErrorKind::Closed));
}
