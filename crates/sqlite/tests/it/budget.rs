//! Long reads leave their thread to others, are of one moment, and end in time.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use marmota_model::{
    ErrorKind, Field, Filter, FilterExpr, Kind, NoRows, Result, Role, RowSink, Schema, Table,
    Value, parse_filter, parse_order,
};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::Store;
use marmota_store::action::{Action, Verb};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::read::ListRecords;

const ROWS: i64 = 200_000;
/// How long one call of a long read may keep its thread.
const TURN_MAX: Duration = Duration::from_millis(20);
/// How often a measurement is repeated on a busy machine.
const TRIES: usize = 8;
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A statement that takes for ever, nearly.
const ENDLESS: &str = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c LIMIT \
                       100000000000) SELECT count(*) FROM c";

fn open(location: Location, options: SqliteOptions) -> Store {
    let schema = Schema::new(
        "note",
        vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("text", Kind::TEXT),
            Field::new("number", Kind::I64),
        ],
    );
    Store::builder(Sqlite::open(location, options).unwrap()).schema(schema).open().unwrap()
}

fn fill(store: &Store) {
    let filled = store.execute(format!(
        "INSERT INTO note(id, text, number) WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 \
         FROM c WHERE n < {ROWS}) SELECT n, 'note ' || n, 0 FROM c"
    ));
    assert_eq!(filled.run().unwrap(), ROWS as u64);
}

struct Bell(Thread, AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::SeqCst);
        self.0.unpark();
    }
}

/// How long this thread was ready to run and had no processor; nothing where
/// the system does not say.
fn unscheduled() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').nth(1).and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Polls a future to its end, with something else before each poll; gives the
/// longest poll and how many there were.
pub(crate) fn drive<F: Future>(
    future: F,
    mut between: impl FnMut(usize),
) -> (F::Output, Duration, usize) {
    let bell = Arc::new(Bell(thread::current(), AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&bell));
    let (mut future, mut longest, mut polls) = (pin!(future), Duration::ZERO, 0);
    let until = Instant::now() + LONG;
    loop {
        if bell.1.swap(false, Ordering::SeqCst) {
            let (waited, began) = (unscheduled(), Instant::now());
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            let took = began.elapsed();
            longest = longest.max(took.saturating_sub(unscheduled().saturating_sub(waited)));
            polls += 1;
            if let Poll::Ready(output) = polled {
                return (output, longest, polls);
            }
            between(polls);
        }
        assert!(Instant::now() < until, "nobody woke the read");
        thread::park_timeout(Duration::from_millis(5));
    }
}

/// The first column of the rows of a statement.
macro_rules! ints {
    ($store:expr, $text:expr) => {
        $store.sql($text).map(|row| row.read_at::<i64>(0))
    };
}

pub(crate) fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Repeats a measurement until it is short enough.
pub(crate) fn in_short_turns(mut measure: impl FnMut() -> Duration) {
    let turns: Vec<Duration> = (0..TRIES).map(|_| measure()).collect();
    let shortest = turns.iter().min().unwrap();
    assert!(*shortest < TURN_MAX, "each read had a turn of this length at least: {turns:?}");
}

fn list<'s>(store: &'s Store, filter: Option<&Filter>) -> Action<'s, ListRecords> {
    let list = store.list_records(&store.table("note").unwrap());
    match filter {
        Some(filter) => list.filter(filter.clone()),
        None => list,
    }
}

/// Lists while rows change between polls, in transactions that write the first
/// and the last row alike.
fn is_of_one_moment(store: &Store, filter: Option<&Filter>, in_all: bool) -> Duration {
    let table = store.table("note").unwrap();
    let mut writes = 0;
    let change = |writes: i64| {
        let written = store.execute(format!(
            "UPDATE note SET number = {writes} WHERE id = 1 OR id = {ROWS} OR id = {writes} + 100"
        ));
        assert_eq!(written.run().unwrap(), 3);
    };
    let (rows, longest, polls) = drive(list(store, filter), |_| {
        writes += 1;
        change(writes);
        assert_eq!(store.get_record(&table, 1).run().unwrap().values()[2], Value::Int(writes));
    });
    let rows = rows.unwrap();
    assert!(store.statistics().engine.read_handovers > 0, "the read had one turn of {polls}");
    let number = |row: &marmota_model::Record| row.values()[2].clone();
    assert_eq!(number(rows.first().unwrap()), number(rows.last().unwrap()));
    let mut ids: Vec<i64> =
        rows.iter().map(|row| row.values()[0].as_ref().as_int().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), rows.len(), "a row came twice");
    if in_all {
        assert_eq!(rows.len() as i64, ROWS);
    }
    longest
}

#[test]
fn a_full_scan_leaves_its_thread_and_is_of_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(Location::File(folder.path().join("a.db")), SqliteOptions::default());
    fill(&store);
    in_short_turns(|| is_of_one_moment(&store, None, true));
    let statistics = store.statistics().engine;
    assert!(statistics.read_handovers > 0, "{statistics:?}");
}

/// The budget ends inside a step, after some rows were lent.
#[test]
fn a_sparse_filter_skips_and_repeats_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(Location::File(folder.path().join("a.db")), SqliteOptions::default());
    fill(&store);
    let table = store.table("note").unwrap();
    let filter = parse_filter(&table, "id = 1 or text ~ \"777\" or id = 200000").unwrap();
    let wanted = (1..=ROWS).filter(|n| n.to_string().contains("777") || [1, ROWS].contains(n));
    let wanted = wanted.count();
    in_short_turns(|| is_of_one_moment(&store, Some(&filter), false));
    assert_eq!(list(&store, Some(&filter)).run().unwrap().len(), wanted);
}

/// A sort and a count lend no row before their end.
#[test]
fn a_sort_and_a_count_leave_their_thread() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(Location::File(folder.path().join("a.db")), SqliteOptions::default());
    fill(&store);
    let table = store.table("note").unwrap();
    in_short_turns(|| {
        let mut list = store.list_records(&table).limit(10);
        for order in parse_order(&table, "-number,text").unwrap() {
            list = list.order(order);
        }
        let (rows, longest, _) = drive(list, |_| {});
        assert_eq!(rows.unwrap()[0].values()[1], Value::Text("note 1".into()));
        longest
    });
    in_short_turns(|| {
        let query = ints!(store, "SELECT count(*) FROM note WHERE text LIKE '%77%7%7%'");
        let (count, longest, _) = drive(query, |_| {});
        assert_eq!(count.unwrap().len(), 1);
        longest
    });
}

/// A search runs statements of its own within the one that is read: the budget ends the inner one
/// and then the outer one. The connection must not keep the snapshot of the first end.
#[test]
fn what_a_search_saw_is_not_what_later_reads_see() {
    let folder = tempfile::tempdir().unwrap();
    let schema = Schema::new(
        "note",
        vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("text", Kind::TEXT).search(true),
            Field::new("number", Kind::I64),
        ],
    );
    let location = Location::File(folder.path().join("a.db"));
    let engine = Sqlite::open(location, SqliteOptions::default()).unwrap();
    let store = Store::builder(engine).schema(schema).open().unwrap();
    fill(&store);
    let table = store.table("note").unwrap();
    let before = store.statistics().engine.read_handovers;
    let filter = parse_filter(&table, "@ 'note 1*'").unwrap();
    for number in 1..=50 {
        let mut list = store.list_records(&table).filter(filter.clone()).limit(5);
        for order in parse_order(&table, "-text").unwrap() {
            list = list.order(order);
        }
        let (rows, _, _) = drive(list, |_| {});
        assert_eq!(rows.unwrap().len(), 5);
        let written = store.execute(format!("UPDATE note SET number = {number} WHERE id = 7"));
        assert_eq!(written.run().unwrap(), 1);
        let seen = store.get_record(&table, 7).run().unwrap();
        assert_eq!(seen.values()[2], Value::Int(number), "the read saw an old snapshot");
    }
    assert!(store.statistics().engine.read_handovers > before, "no search left its thread");
}

/// Whoever blocks its thread for a read is not helped by another thread.
#[test]
fn a_read_of_a_blocking_caller_stays_on_its_thread() {
    let folder = tempfile::tempdir().unwrap();
    for location in [Location::File(folder.path().join("a.db")), Location::Memory] {
        let store = open(location, SqliteOptions::default());
        fill(&store);
        let handovers = || store.statistics().engine.read_handovers;
        let before = handovers();
        assert_eq!(list(&store, None).run().unwrap().len() as i64, ROWS);
        let rows = marmota_store::action::block_on(list(&store, None)).unwrap();
        assert_eq!(rows.len() as i64, ROWS);
        assert_eq!(handovers(), before);
        drive(list(&store, None), |_| {}).0.unwrap();
        assert!(handovers() > before);
    }
}

/// Run again, such a statement gives other rows.
#[test]
fn sql_by_chance_gives_each_row_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(Location::File(folder.path().join("a.db")), SqliteOptions::default());
    fill(&store);
    let query = ints!(store, "SELECT id FROM note ORDER BY random()");
    let (ids, _, _) = drive(query, |_| {});
    let mut ids = ids.unwrap();
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(1..=ROWS), "{} rows", ids.len());
}

#[test]
fn a_read_that_takes_too_long_is_ended_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    for location in [Location::File(folder.path().join("a.db")), Location::Memory] {
        let options = SqliteOptions { read_deadline_ms: 50, ..SqliteOptions::default() };
        let store = open(location, options);
        let began = Instant::now();
        let error = ints!(store, ENDLESS).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.to_string().contains("50 ms"), "{error}");
        assert!(error.to_string().contains("`read_deadline_ms`"), "{error}");
        assert!(began.elapsed() < LONG / 2);
        assert_eq!(store.statistics().engine.read_timeouts, 1);
        // The connection is as good as before.
        assert_eq!(store.execute("INSERT INTO note VALUES (1, 'a', 1)").run().unwrap(), 1);
        assert_eq!(ints!(store, "SELECT id FROM note").run().unwrap().len(), 1);
    }
}

#[test]
fn a_read_that_is_dropped_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    for location in [Location::File(folder.path().join("a.db")), Location::Memory] {
        let options = SqliteOptions { read_deadline_ms: 0, ..SqliteOptions::default() };
        let store = open(location, options);
        // More than there are threads: if they did not end, the last would wait.
        for _ in 0..20 {
            let mut read = Box::pin(ints!(store, ENDLESS));
            let until = Instant::now() + LONG;
            while store.statistics().engine.read_handovers == 0 && Instant::now() < until {
                assert!(poll_once(read.as_mut()).is_pending());
            }
            let _ = poll_once(read.as_mut());
            drop(read);
        }
        let began = Instant::now();
        let numbers = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c LIMIT 300000) \
                       SELECT n FROM c";
        assert_eq!(ints!(store, numbers).run().unwrap().len(), 300_000);
        assert!(began.elapsed() < LONG);
        assert!(store.statistics().engine.reads_cancelled > 0);
        store.close().unwrap();
    }
}

#[test]
fn too_many_long_reads_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { read_deadline_ms: 0, scans_max: 2, ..SqliteOptions::default() };
    let store = open(Location::File(folder.path().join("a.db")), options);
    let mut reads: Vec<_> = (0..2).map(|_| Box::pin(ints!(store, ENDLESS))).collect();
    for read in &mut reads {
        assert!(poll_once(read.as_mut()).is_pending());
    }
    let (refused, _, _) = drive(ints!(store, ENDLESS), |_| {});
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("`scans_max`"), "{error}");
    assert_eq!(ints!(store, "SELECT 1").run().unwrap().len(), 1, "short reads go on");
}

#[test]
fn a_transaction_waits_for_its_scan() {
    let folder = tempfile::tempdir().unwrap();
    for location in [Location::File(folder.path().join("a.db")), Location::Memory] {
        let store = open(location, SqliteOptions::default());
        fill(&store);
        let table = store.table("note").unwrap();
        let transaction = store.begin_run().unwrap();
        let written = transaction.execute("UPDATE note SET number = 5 WHERE id = 1");
        assert_eq!(written.run().unwrap(), 1);
        let mut scan = Box::pin(transaction.list_records(&table));
        assert!(poll_once(scan.as_mut()).is_pending());
        // Another operation of the transaction meanwhile.
        let mut other = Box::pin(transaction.execute("UPDATE note SET number = 6 WHERE id = 2"));
        let _ = poll_once(other.as_mut());
        let (rows, _, _) = drive(scan, |_| {});
        let rows = rows.unwrap();
        assert_eq!(rows.len() as i64, ROWS);
        assert_eq!((&rows[0].values()[2], &rows[1].values()[2]), (&Value::Int(5), &Value::Int(0)));
        let (written, _, _) = drive(other, |_| {});
        assert_eq!(written.unwrap(), 1);
        transaction.commit().run().unwrap();
        assert_eq!(store.get_record(&table, 2).run().unwrap().values()[2], Value::Int(6));
    }
}

#[test]
fn a_transaction_that_ends_among_its_scan_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    for location in [Location::File(folder.path().join("a.db")), Location::Memory] {
        let store = open(location, SqliteOptions::default());
        fill(&store);
        let table = store.table("note").unwrap();
        let transaction = store.begin_run().unwrap();
        let written = transaction.execute("UPDATE note SET number = 5 WHERE id = 1");
        assert_eq!(written.run().unwrap(), 1);
        let mut scan = Box::pin(transaction.list_records(&table));
        assert!(poll_once(scan.as_mut()).is_pending());
        drop(scan);
        drop(transaction);
        // The writer's turn comes back.
        let written = store.execute("UPDATE note SET number = number + 1 WHERE id = 1");
        assert_eq!(written.run().unwrap(), 1);
        assert_eq!(store.get_record(&table, 1).run().unwrap().values()[2], Value::Int(1));
    }
}

struct DeleteWhere(Arc<Table>, FilterExpr);

impl Verb for DeleteWhere {
    type Output = u64;

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self(table, filter) = self;
        call(&mut Operation::DeleteWhere { table, filter: Some(filter) }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<u64> {
        Ok(outcome.rows)
    }
}

/// A delete and an update of many rows leave their thread, and take place once.
#[test]
fn a_write_of_many_rows_leaves_its_thread() {
    let folder = tempfile::tempdir().unwrap();
    for location in [Location::File(folder.path().join("a.db")), Location::Memory] {
        let store = open(location, SqliteOptions::default());
        fill(&store);
        let table = store.table("note").unwrap();
        in_short_turns(|| {
            let update = store.execute("UPDATE note SET number = number + 1");
            let (updated, longest, _) = drive(update, |_| {});
            assert_eq!(updated.unwrap(), ROWS as u64);
            longest
        });
        let numbers = ints!(store, "SELECT DISTINCT number FROM note").run().unwrap();
        assert_eq!(numbers, [TRIES as i64]);
        let returning = "UPDATE note SET number = -1 WHERE text LIKE '%77%' RETURNING id";
        let (ids, _, _) = drive(store.execute(returning), |_| {});
        let ids = ids.unwrap();
        let wanted = (1..=ROWS).filter(|n| n.to_string().contains("77")).count() as u64;
        assert_eq!(ids, wanted);
        let filter = parse_filter(&table, "number = -1").unwrap();
        let filter = filter.into_expr_for(&table).unwrap();
        let (deleted, _, _) = drive(store.action(DeleteWhere(table, filter)), |_| {});
        assert_eq!(deleted.unwrap(), wanted);
        let left = ints!(store, "SELECT count(*) FROM note").run().unwrap();
        assert_eq!(left, [ROWS - wanted as i64]);
    }
}
