//! The cache beside an engine that stops where it is told to: what is seen
//! between the steps of a write, and what is never kept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use marmota_memory::Memory;
use marmota_model::{
    ErrorKind, Field, FieldSet, Kind, NoRows, Record, Result, Role, RowSink, Schema, Table, Value,
    ValueRef,
};
use marmota_store::engine::{self, Capability, Engine, Session, Submitted, Ticket};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::plan::{Destructive, Plan};
use marmota_store::{Durability, Progress, Store};

/// Where sessions stop.
#[derive(Default)]
struct Stops {
    /// Behind a write that took place, before it is answered.
    behind_write: Stop,
    /// Behind a read by key, before it is answered.
    behind_read: Stop,
    /// Deletes wait, and take place before the first write that does not.
    deletes_wait: AtomicBool,
    late: Mutex<Vec<i64>>,
    late_table: OnceLock<Arc<Table>>,
}

/// A place to stop at, once it is armed.
#[derive(Default)]
struct Stop {
    armed: AtomicBool,
    reached: AtomicBool,
}

impl Stop {
    fn arm(&self) {
        self.reached.store(false, Ordering::SeqCst);
        self.armed.store(true, Ordering::SeqCst);
    }

    fn pass(&self) {
        if self.armed.load(Ordering::SeqCst) && !self.reached.swap(true, Ordering::SeqCst) {
            wait_for(|| !self.armed.load(Ordering::SeqCst));
        }
    }

    fn wait(&self) {
        wait_for(|| self.reached.load(Ordering::SeqCst));
    }

    fn let_go(&self) {
        self.armed.store(false, Ordering::SeqCst);
    }
}

fn wait_for(is: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < until, "waited for too long");
        thread::sleep(Duration::from_micros(100));
    }
}

struct Stopping {
    inner: Memory,
    stops: Arc<Stops>,
}

impl Engine for Stopping {
    fn capability(&self) -> &Capability {
        self.inner.capability()
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        self.inner.plan(tables, version)
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        self.inner.migrate(tables, version, destructive)
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        self.inner.open_table(table)
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        let inner = self.inner.session()?;
        Ok(Box::new(StoppingSession { inner, stops: Arc::clone(&self.stops) }))
    }

    fn close(&self) -> Result<()> {
        self.inner.close()
    }
}

struct StoppingSession {
    inner: Box<dyn Session>,
    stops: Arc<Stops>,
}

impl Session for StoppingSession {
    fn submit(
        &mut self,
        _: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        if let (true, Operation::Delete { key: ValueRef::Int(key), .. }) =
            (self.stops.deletes_wait.load(Ordering::SeqCst), &*operation)
        {
            self.stops.late.lock().unwrap().push(*key);
            return Ok(Submitted::Waiting(Ticket(1)));
        }
        if operation.is_write() {
            for key in std::mem::take(&mut *self.stops.late.lock().unwrap()) {
                let table = self.stops.late_table.get().unwrap();
                let key = ValueRef::Int(key);
                let mut delete = Operation::Delete { table, key, version: None };
                engine::run(&mut *self.inner, &mut delete, &mut NoRows)?;
            }
        }
        *outcome = engine::run(&mut *self.inner, operation, sink)?;
        match operation {
            Operation::Get { .. } => self.stops.behind_read.pass(),
            operation if operation.is_write() => self.stops.behind_write.pass(),
            _ => {}
        }
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
        Poll::Pending
    }

    fn cancel(&mut self, _: Ticket) {}
}

struct Stand {
    store: Store,
    stops: Arc<Stops>,
    table: Arc<Table>,
    other: Arc<Table>,
}

impl Stand {
    fn new() -> Self {
        let schema = |name| {
            let fields = vec![
                Field::new("id", Kind::I64).role(Role::Key),
                Field::new("text", Kind::TEXT),
                Field::new("photo", Kind::Blob).nullable(true),
            ];
            Schema::new(name, fields)
        };
        let stops = Arc::new(Stops::default());
        let engine = Stopping { inner: Memory::new(), stops: Arc::clone(&stops) };
        let builder = Store::builder(engine).schema(schema("a")).schema(schema("b"));
        let store = builder.cache(1 << 16).open().unwrap();
        let (table, other) = (store.table("a").unwrap(), store.table("b").unwrap());
        stops.late_table.set(Arc::clone(&table)).unwrap();
        let stand = Self { store, stops, table, other };
        stand.write(&stand.table, "old");
        stand.write(&stand.other, "old");
        stand
    }

    /// Writes row 1.
    fn write(&self, table: &Arc<Table>, text: &str) {
        let record = record(table, &[("id", 1.into()), ("text", text.into())]);
        match self.store.update_record(1, &record).run() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.store.insert_record(&record).run().map(drop)
            }
            written => written.map(drop),
        }
        .unwrap();
    }

    fn get(&self, table: &Arc<Table>) -> String {
        let record = self.store.get_record(table, 1).run().unwrap();
        record.value("text").unwrap().as_ref().as_text().unwrap().to_owned()
    }

    fn hits(&self) -> u64 {
        self.store.cache_stats().unwrap().hits
    }
}

fn record(table: &Arc<Table>, values: &[(&str, Value)]) -> Record {
    let mut record = Record::new(Arc::clone(table));
    values.iter().for_each(|(field, value)| record.set(field, value.clone()).unwrap());
    record
}

#[test]
fn a_row_comes_from_the_cache_until_its_table_is_written_to() {
    let stand = Stand::new();
    for _ in 0..3 {
        assert_eq!(stand.get(&stand.table), "old");
        assert_eq!(stand.get(&stand.other), "old");
    }
    assert_eq!(stand.hits(), 4);
    stand.write(&stand.other, "new");
    assert_eq!(stand.get(&stand.table), "old");
    assert_eq!(stand.hits(), 5, "a write to `b` leaves `a`");
    assert_eq!(stand.get(&stand.other), "new");
    assert_eq!(stand.get(&stand.other), "new");
    let stats = stand.store.cache_stats().unwrap();
    assert_eq!((stats.hits, stats.misses, stats.rows), (6, 3, 2));
    assert!(stats.bytes > 0 && stats.bytes <= stats.bytes_max);
}

#[test]
fn nobody_sees_the_old_row_once_the_new_one_was_seen() {
    let stand = Stand::new();
    assert_eq!(stand.get(&stand.table), "old");
    stand.stops.behind_write.arm();
    thread::scope(|scope| {
        scope.spawn(|| stand.write(&stand.table, "new"));
        // It took place, and is not acknowledged yet.
        stand.stops.behind_write.wait();
        assert_eq!(stand.store.table_version(&stand.table), None);
        let listed = stand.store.list_records(&stand.table).run().unwrap();
        assert_eq!(listed[0].value("text").unwrap().as_ref().as_text(), Some("new"));
        assert_eq!(stand.get(&stand.table), "new");
        stand.stops.behind_write.let_go();
    });
    assert_eq!(stand.get(&stand.table), "new");
}

#[test]
fn a_row_read_beside_a_write_is_not_kept() {
    let stand = Stand::new();
    stand.stops.behind_read.arm();
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(stand.get(&stand.table), "old"));
        // It has the old row, and has not kept it yet.
        stand.stops.behind_read.wait();
        stand.write(&stand.table, "new");
        stand.stops.behind_read.let_go();
    });
    assert_eq!(stand.get(&stand.table), "new");
    assert_eq!(stand.get(&stand.table), "new");
}

#[test]
fn a_write_that_was_given_up_may_come_late() {
    let stand = Stand::new();
    assert_eq!(stand.get(&stand.table), "old");
    stand.stops.deletes_wait.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        let key = ValueRef::Int(1);
        let mut delete = Operation::Delete { table: &stand.table, key, version: None };
        let mut outcome = Outcome::default();
        let progress = stand.store.submit(None, &mut delete, &mut NoRows, &mut outcome).unwrap();
        let Progress::Pending(mut pending) = progress else { panic!("it did not wait") };
        let mut context = Context::from_waker(Waker::noop());
        let polled =
            stand.store.poll(&mut pending, &mut delete, &mut NoRows, &mut outcome, &mut context);
        assert!(polled.is_pending());
        stand.store.cancel(pending);
        stand.stops.late.lock().unwrap().truncate(1);
    }
    // Until it has taken place, or never will, its table has no version.
    assert_eq!(stand.get(&stand.table), "old");
    assert_eq!((stand.store.table_version(&stand.table), stand.hits()), (None, 0));
    stand.write(&stand.other, "new");
    assert!(stand.store.table_version(&stand.table).is_some());
    let error = stand.store.get_record(&stand.table, 1).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn fields_that_are_not_kept_come_from_the_engine() {
    let stand = Stand::new();
    let photo = Value::Blob(vec![1, 2, 3]);
    let record = record(&stand.table, &[("photo", photo.clone())]);
    stand.store.update_record(1, &record).run().unwrap();
    assert_eq!(stand.get(&stand.table), "old");
    let read = |fields| {
        let mut read = Vec::new();
        let mut sink = |row: &[ValueRef<'_>]| {
            read = row.iter().map(ValueRef::to_value).collect();
            std::ops::ControlFlow::Break(())
        };
        let key = ValueRef::Int(1);
        let mut get = Operation::Get { table: &stand.table, key, fields };
        stand.store.run(&mut get, &mut sink).unwrap();
        read
    };
    assert_eq!(read(FieldSet::first(3)), [Value::Int(1), Value::from("old"), photo]);
    assert_eq!(stand.hits(), 0);
    let text_only = [Value::Absent, Value::from("old"), Value::Absent];
    assert_eq!(read(FieldSet::EMPTY.with(1)), text_only);
    assert_eq!(stand.hits(), 1);
}

#[test]
fn a_panic_in_a_write_leaves_the_table_its_cache() {
    let stand = Stand::new();
    struct Panics;
    impl<'a> marmota_model::RowSource<'a> for Panics {
        fn remaining(&self) -> usize {
            1
        }
        fn next(&mut self, _: &mut [ValueRef<'a>]) -> Result<bool> {
            panic!("a bad source")
        }
    }
    let write = || {
        let rows = &mut Panics;
        stand.store.run(&mut Operation::insert_many(&stand.table, rows), &mut NoRows)
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(write)).is_err());
    assert_eq!((stand.get(&stand.table), stand.get(&stand.table)), ("old".into(), "old".into()));
    assert_eq!(stand.hits(), 1);
}
