//! Operations of the memory engine that take more than one turn: they end at
//! their deadline, and a delete takes place as a whole or not at all.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use marmota_memory::Memory;
use marmota_model::{
    ErrorKind, Field, FilterExpr, KeyKind, Kind, NoRows, Place, Result, Role, RowQuery, Schema,
    Table, Value, ValueRef,
};
use marmota_store::engine::{self, Engine, Session, Submitted, Ticket};
use marmota_store::operation::{BatchMode, Operation, Outcome, Write};

const ROWS: i64 = 100_000;
const LONG: Duration = Duration::from_secs(60);

struct Fixture {
    engine: Memory,
    item: Arc<Table>,
    part: Arc<Table>,
}

impl Fixture {
    fn new(engine: Memory) -> Self {
        let id = || Field::new("id", Kind::I64).role(Role::Key);
        let of = Kind::Reference { table: "item".into(), key: KeyKind::Auto };
        let item = Schema::new("item", vec![id(), Field::new("text", Kind::TEXT)]);
        let part = Schema::new("part", vec![id(), Field::new("item", of)]);
        let tables = [item, part].map(|schema| Arc::new(Table::new(schema).unwrap()));
        engine.prepare(&tables, 1).unwrap();
        let [item, part] = tables;
        let fixture = Self { engine, item, part };
        let row = |id: i64| Write::Insert {
            table: Arc::clone(&fixture.item),
            row: vec![Value::Int(id), Value::Text(format!("item {id}"))],
            on_conflict: Default::default(),
        };
        let writes: Vec<Write> = (1..=ROWS).map(row).collect();
        batch(&mut *fixture.session(), &writes);
        fixture
    }

    fn session(&self) -> Box<dyn Session> {
        self.engine.session().unwrap()
    }

    fn count(&self, filter: Option<&FilterExpr>) -> u64 {
        let mut count = Operation::Count { table: &self.item, filter };
        engine::run(&mut *self.session(), &mut count, &mut NoRows).unwrap().rows
    }

    fn delete<'a>(&'a self, filter: &'a FilterExpr) -> Operation<'a> {
        Operation::DeleteWhere { table: &self.item, filter: Some(filter) }
    }
}

fn batch(session: &mut dyn Session, writes: &[Write]) {
    let mut results = Vec::new();
    let mode = BatchMode::AllOrNothing;
    let mut batch =
        Operation::Batch { writes, links: &[], once: None, mode, results: &mut results };
    engine::run(session, &mut batch, &mut NoRows).unwrap();
}

/// Rows whose texts have this in them, which no index tells.
fn with(text: &str) -> FilterExpr {
    FilterExpr::Match { field: 1, place: Place::Anywhere, text: text.into() }
}

fn submit(session: &mut dyn Session, operation: &mut Operation<'_>) -> Ticket {
    let mut all = |_: &[ValueRef<'_>]| ControlFlow::Continue(());
    match session.submit(None, operation, &mut all, &mut Outcome::default()).unwrap() {
        Submitted::Waiting(ticket) => ticket,
        Submitted::Done => panic!("it took one turn"),
    }
}

fn poll(
    session: &mut dyn Session,
    ticket: Ticket,
    operation: &mut Operation<'_>,
) -> Poll<Result<u64>> {
    let mut outcome = Outcome::default();
    let mut context = Context::from_waker(Waker::noop());
    let mut all = |_: &[ValueRef<'_>]| ControlFlow::Continue(());
    let polled = session.poll(ticket, operation, &mut all, &mut outcome, &mut context);
    polled.map_ok(|()| outcome.rows)
}

fn finish(session: &mut dyn Session, ticket: Ticket, operation: &mut Operation<'_>) -> Result<u64> {
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        if let Poll::Ready(done) = poll(session, ticket, operation) {
            return done;
        }
    }
    panic!("it did not end");
}

#[test]
fn reads_and_deletes_end_at_their_deadline() {
    let fixture = Fixture::new(Memory::from_url("memory:?read_deadline_ms=1").unwrap());
    let filter = with("9");
    let query = RowQuery { filter: Some(filter.clone()), ..RowQuery::default() };
    for mut operation in [
        Operation::Count { table: &fixture.item, filter: Some(&filter) },
        Operation::List { table: &fixture.item, query: &query },
        fixture.delete(&filter),
    ] {
        let mut session = fixture.session();
        let ticket = submit(&mut *session, &mut operation);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(2) {}
        let error = finish(&mut *session, ticket, &mut operation).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.to_string().contains("longer than 1 ms"), "{error}");
        assert!(error.to_string().contains("`read_deadline_ms`"), "{error}");
    }
    assert_eq!(fixture.engine.statistics().read_timeouts, 3);
    // Without a filter it is one turn, and nothing is kept.
    assert_eq!(fixture.count(None), ROWS as u64);
    batch(
        &mut *fixture.session(),
        &[Write::Delete { table: Arc::clone(&fixture.item), key: Value::Int(1), version: None }],
    );
}

#[test]
fn the_deadline_is_an_option() {
    for url in ["memory:?read_deadline_ms=0", "memory:a.mem?durability=full&read_deadline_ms=5"] {
        assert!(Memory::from_url(url).is_ok(), "{url}");
    }
    for url in ["memory:?read_deadline_ms=-1", "memory:?read_deadline_ms", "memory:?format=json"] {
        assert_eq!(Memory::from_url(url).err().unwrap().kind(), ErrorKind::Invalid, "{url}");
    }
}

/// Others read until it begins to remove rows, then all of them are gone at once.
#[test]
fn a_long_delete_is_seen_as_a_whole() {
    let fixture = Fixture::new(Memory::new());
    let filter = with("item");
    let mut delete = fixture.delete(&filter);
    let mut deleting = fixture.session();
    let ticket = submit(&mut *deleting, &mut delete);
    let (mut turns, mut done) = (0, None);
    let mut reader = fixture.session();
    while done.is_none() {
        let mut count = Operation::Count { table: &fixture.item, filter: None };
        let mut outcome = Outcome::default();
        match reader.submit(None, &mut count, &mut NoRows, &mut outcome).unwrap() {
            Submitted::Done => assert_eq!(outcome.rows, ROWS as u64),
            Submitted::Waiting(waiting) => reader.cancel(waiting),
        }
        turns += 1;
        if let Poll::Ready(deleted) = poll(&mut *deleting, ticket, &mut delete) {
            done = Some(deleted.unwrap());
        }
    }
    assert_eq!(done, Some(ROWS as u64));
    assert!(turns > 1, "{turns} turns");
    assert_eq!(fixture.count(None), 0);
}

/// Given up while it seeks it leaves nothing; later it takes place.
#[test]
fn a_long_delete_that_is_given_up_leaves_the_table_free() {
    let fixture = Fixture::new(Memory::new());
    let filter = with("item");
    let mut delete = fixture.delete(&filter);
    let mut session = fixture.session();
    let ticket = submit(&mut *session, &mut delete);
    session.cancel(ticket);
    assert_eq!(fixture.count(None), ROWS as u64);
    let ticket = submit(&mut *session, &mut delete);
    loop {
        let mut count = Operation::Count { table: &fixture.item, filter: None };
        let mut reader = fixture.session();
        let counted = reader.submit(None, &mut count, &mut NoRows, &mut Outcome::default());
        if let Submitted::Waiting(waiting) = counted.unwrap() {
            reader.cancel(waiting);
            break;
        }
        assert!(poll(&mut *session, ticket, &mut delete).is_pending(), "nobody had to wait");
    }
    session.cancel(ticket);
    assert_eq!(fixture.count(None), 0);
}

#[test]
fn a_row_that_is_referred_to_keeps_all() {
    let fixture = Fixture::new(Memory::new());
    batch(
        &mut *fixture.session(),
        &[Write::Insert {
            table: Arc::clone(&fixture.part),
            row: vec![Value::Int(1), Value::Int(ROWS)],
            on_conflict: Default::default(),
        }],
    );
    let filter = with("9");
    let mut delete = fixture.delete(&filter);
    let mut session = fixture.session();
    let last = with(&format!("item {ROWS}"));
    assert_eq!(fixture.count(Some(&last)), 1);
    // The last row is not among them.
    let ticket = submit(&mut *session, &mut delete);
    let deleted = finish(&mut *session, ticket, &mut delete).unwrap();
    assert_eq!(fixture.count(None), ROWS as u64 - deleted);
    let filter = with("0");
    let mut delete = fixture.delete(&filter);
    let ticket = submit(&mut *session, &mut delete);
    let error = finish(&mut *session, ticket, &mut delete).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(fixture.count(None), ROWS as u64 - deleted);
}

/// The transaction's other operations wait, and its end undoes it.
#[test]
fn a_long_delete_in_a_transaction_is_a_part_of_it() {
    let fixture = Fixture::new(Memory::new());
    let filter = with("9");
    for commits in [false, true] {
        let mut session = fixture.session();
        engine::run(&mut *session, &mut Operation::Begin, &mut NoRows).unwrap();
        let mut delete = fixture.delete(&filter);
        let ticket = submit(&mut *session, &mut delete);
        let mut count = Operation::Count { table: &fixture.item, filter: None };
        let counting = submit(&mut *session, &mut count);
        let deleted = finish(&mut *session, ticket, &mut delete).unwrap();
        let counted = finish(&mut *session, counting, &mut count).unwrap();
        assert_eq!(counted, ROWS as u64 - deleted);
        let mut end = if commits { Operation::Commit } else { Operation::Rollback };
        engine::run(&mut *session, &mut end, &mut NoRows).unwrap();
        let left = if commits { counted } else { ROWS as u64 };
        assert_eq!(fixture.count(None), left);
    }
}

/// Rows that refer to each other go together, and all stay if one that refers to
/// them does.
#[test]
fn a_long_delete_removes_rows_that_refer_to_each_other() {
    let engine = Memory::new();
    let parent = Kind::Reference { table: "node".into(), key: KeyKind::Auto };
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("text", Kind::TEXT),
        Field::new("parent", parent).nullable(true),
    ];
    let node = Arc::new(Table::new(Schema::new("node", fields)).unwrap());
    engine.prepare(std::slice::from_ref(&node), 1).unwrap();
    let row = |id: i64| Write::Insert {
        table: Arc::clone(&node),
        // Each row refers to the one before it.
        row: vec![
            Value::Int(id),
            Value::Text(if id == ROWS { "last" } else { "item" }.to_owned()),
            if id == 1 { Value::Null } else { Value::Int(id - 1) },
        ],
        on_conflict: Default::default(),
    };
    let mut session = engine.session().unwrap();
    batch(&mut *session, &(1..=ROWS).map(row).collect::<Vec<Write>>());
    let filter = with("item");
    let mut delete = Operation::DeleteWhere { table: &node, filter: Some(&filter) };
    let ticket = submit(&mut *session, &mut delete);
    let error = finish(&mut *session, ticket, &mut delete).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains(&(ROWS - 1).to_string()), "{error}");
    let last = Write::Delete { table: Arc::clone(&node), key: Value::Int(ROWS), version: None };
    batch(&mut *session, &[last]);
    let ticket = submit(&mut *session, &mut delete);
    assert_eq!(finish(&mut *session, ticket, &mut delete).unwrap(), ROWS as u64 - 1);
}
