//! SQL over tables in memory has the budget, the deadline and the end of any
//! other read, and keeps no thread that writes to them.

use std::time::{Duration, Instant};

use marmota_memory::Memory;
use marmota_model::{ErrorKind, Field, Kind, Record, Role, Schema, Value};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::Store;

use crate::budget::{LONG, drive, in_short_turns, poll_once};

const ROWS: i64 = 200_000;
/// So many pairs of rows are looked at that no machine comes to the end.
const PAIRS: &str = "SELECT count(*) FROM item a, item b WHERE a.text || b.text = 'no'";

fn schema(name: &'static str) -> Schema {
    let key = Field::new("id", Kind::I64).role(Role::Key);
    let fields = vec![key, Field::new("text", Kind::TEXT), Field::new("number", Kind::I64)];
    Schema::new(name, fields)
}

/// A file with a table `note`, and a table `item` in memory.
fn open(options: SqliteOptions) -> (Store, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let engine = Sqlite::open(Location::File(folder.path().join("a.db")), options).unwrap();
    let store = Store::builder(engine)
        .schema(schema("note"))
        .database("live", Memory::new(), |live| live.schema(schema("item")))
        .open()
        .unwrap();
    let item = store.table("item").unwrap();
    for first in (1..=ROWS).step_by(5_000) {
        let mut batch = store.batch();
        for id in first..first + 5_000 {
            let text = Value::Text(format!("item {}", id * 7919 % ROWS));
            batch.insert_values(&item, &[Value::Int(id), text, Value::Int(0)]);
        }
        batch.all_or_nothing().run().unwrap();
    }
    (store, folder)
}

/// The first column of the rows of a statement.
macro_rules! ints {
    ($store:expr, $text:expr) => {
        $store.sql($text).map(|row| row.read_at::<i64>(0))
    };
}

#[test]
fn a_long_statement_leaves_its_thread() {
    let (store, _folder) = open(SqliteOptions::default());
    let item = store.table("item").unwrap();
    for (text, rows) in [
        // Without SQLite, by a filter, sorted, grouped, and with both databases.
        ("SELECT number, id, text FROM item", ROWS as usize),
        ("SELECT count(*) FROM item WHERE text LIKE '%77%7%'", 1),
        ("SELECT id FROM item ORDER BY text DESC", ROWS as usize),
        ("SELECT count(*) FROM item GROUP BY substr(text, -1)", 10),
        ("SELECT i.id FROM item i LEFT JOIN note n ON n.id=i.id", ROWS as usize),
    ] {
        in_short_turns(|| {
            let (found, longest, polls) = drive(ints!(store, text), |_| {
                assert_eq!(store.get_record(&item, 1).run().unwrap().values()[2], Value::Int(0));
            });
            assert_eq!(found.unwrap().len(), rows, "{text}");
            assert!(polls > 1, "{text}");
            longest
        });
    }
    assert!(store.statistics().engine.read_handovers > 0);
}

/// What was lent before the statement moved comes no second time.
#[test]
fn each_row_comes_once_and_in_order() {
    let (store, _folder) = open(SqliteOptions::default());
    for text in ["SELECT id FROM item", "SELECT id FROM item WHERE number + 0 = 0 ORDER BY id"] {
        let (ids, ..) = drive(ints!(store, text), |_| {});
        assert!(ids.unwrap().into_iter().eq(1..=ROWS), "{text}");
    }
    let (ids, ..) = drive(ints!(store, "SELECT id FROM item ORDER BY random()"), |_| {});
    let mut ids = ids.unwrap();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(1..=ROWS));
}

/// A write to the table waits for the statement, its thread does not; other
/// tables are written meanwhile.
#[test]
fn a_write_waits_without_its_thread() {
    let (store, _folder) = open(SqliteOptions::default());
    let mut change = Record::new(store.table("item").unwrap());
    change.set("number", 1).unwrap();
    let mut write = Box::pin(store.update_record(ROWS, &change));
    let mut longest = Duration::MAX;
    let mut is_begun = false;
    let text = "SELECT sum(number) FROM item WHERE text || '' LIKE '%e%'";
    let (sums, ..) = drive(ints!(store, text), |_| {
        let began = Instant::now();
        if !is_begun {
            assert!(poll_once(write.as_mut()).is_pending(), "the statement sees one moment");
            is_begun = true;
        }
        store.execute("INSERT INTO note(text, number) VALUES ('', 0)").run().unwrap();
        longest = longest.min(began.elapsed());
    });
    assert!(is_begun);
    assert_eq!(sums.unwrap(), [0]);
    assert!(longest < LONG / 100, "{longest:?}");
    drive(write, |_| {}).0.unwrap();
    assert_eq!(ints!(store, "SELECT sum(number) FROM item").run().unwrap(), [1]);
}

#[test]
fn a_statement_that_takes_too_long_is_ended() {
    let (store, _folder) = open(SqliteOptions { read_deadline_ms: 50, ..SqliteOptions::default() });
    let began = Instant::now();
    let error = ints!(store, PAIRS).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("`read_deadline_ms`"), "{error}");
    assert!(began.elapsed() < LONG / 2);
    assert_eq!(store.statistics().engine.read_timeouts, 1);
    // The table is free again.
    let item = store.table("item").unwrap();
    store.delete_record(&item, 1).run().unwrap();
}

#[test]
fn a_statement_that_is_dropped_frees_the_tables() {
    let (store, _folder) = open(SqliteOptions { read_deadline_ms: 0, ..SqliteOptions::default() });
    // More than there are threads, so that some have not begun.
    let mut reads: Vec<_> = (0..12).map(|_| Box::pin(ints!(store, PAIRS))).collect();
    for read in &mut reads {
        assert!(poll_once(read.as_mut()).is_pending());
    }
    let item = store.table("item").unwrap();
    let mut write = Box::pin(store.delete_record(&item, 1));
    assert!(poll_once(write.as_mut()).is_pending());
    drop(reads);
    drive(write, |_| {}).0.unwrap();
    assert_eq!(store.statistics().engine.reads_cancelled, 12);
}

/// A transaction that has only read a table ends while others read it for long;
/// one that has changed it sees its own changes.
#[test]
fn a_transaction_ends_while_a_statement_reads_what_it_read() {
    let (store, _folder) = open(SqliteOptions { read_deadline_ms: 0, ..SqliteOptions::default() });
    let item = store.table("item").unwrap();
    let transaction = store.begin_run().unwrap();
    transaction.get_record(&item, 1).run().unwrap();
    let mut read = Box::pin(ints!(store, PAIRS));
    assert!(poll_once(read.as_mut()).is_pending());
    transaction.commit().run().unwrap();
    drop(read);
    let transaction = store.begin_run().unwrap();
    drive(transaction.delete_record(&item, 1), |_| {}).0.unwrap();
    let (counts, ..) = drive(ints!(transaction, "SELECT count(*) FROM item WHERE id>0"), |_| {});
    assert_eq!(counts.unwrap(), [ROWS - 1]);
    transaction.rollback().run().unwrap();
    assert_eq!(ints!(store, "SELECT count(*) FROM item").run().unwrap(), [ROWS]);
}
