//! Several stores that write to one database at random, and readers of its change feed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use marmota_model::{ErrorKind, Result, Value};
use marmota_postgres::Postgres;
use marmota_store::Store;
use marmota_store::action::block_on;
use marmota_store::change::{
    Change, ChangeKind, ChangeRetention, ChangeStream, FeedEvent, Position,
};

use crate::Tally;

/// The label of the row that is inserted last.
pub(crate) const END: &str = "end";

pub(crate) fn recording(url: &str) -> Store {
    let engine = Postgres::from_url(url).unwrap();
    let builder = Store::builder(engine).model::<Tally>();
    builder.changes(ChangeRetention::default()).open().unwrap()
}

pub(crate) fn label_of(row: &[Value]) -> Option<&str> {
    match &row[2] {
        Value::Text(label) => Some(label),
        _ => None,
    }
}

/// What a reader of the feed has received.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) positions: Vec<Position>,
    pub(crate) kinds: Vec<Vec<ChangeKind>>,
    /// The rows to which the changes lead.
    pub(crate) rows: BTreeMap<i64, Vec<Value>>,
}

impl Received {
    fn apply(&mut self, change: &Change) {
        let Value::Int(key) = *change.key() else { panic!("no key: {change:?}") };
        let before = match &change.after {
            Some(after) => self.rows.insert(key, after.clone()),
            None => self.rows.remove(&key),
        };
        assert_eq!(before, change.before, "the row before {change:?}");
    }

    /// Reads until the row with the label [`END`] was inserted.
    pub(crate) fn read(mut stream: ChangeStream) -> Self {
        let mut received = Self::default();
        loop {
            let commit = match block_on(stream.next()).unwrap() {
                Some(FeedEvent::Commit(commit)) => commit,
                other => panic!("no commit: {other:?}"),
            };
            let last = received.positions.last();
            assert!(last.is_none_or(|last| *last < commit.position), "positions do not ascend");
            received.positions.push(commit.position);
            received.kinds.push(commit.changes.iter().map(|change| change.kind).collect());
            commit.changes.iter().for_each(|change| received.apply(change));
            let is_end = |change: &Change| {
                change.after.as_ref().is_some_and(|row| label_of(row) == Some(END))
            };
            if commit.changes.iter().any(is_end) {
                return received;
            }
        }
    }

    /// Asserts that the changes lead to the rows of the table.
    pub(crate) fn assert_is(&self, store: &Store) {
        let rows = store.list::<Tally>().run().unwrap();
        let rows = rows.into_iter().map(|row| {
            let label = row.label.map_or(Value::Null, Value::Text);
            (row.id, vec![Value::Int(row.id), Value::Int(row.count), label])
        });
        assert_eq!(self.rows, rows.collect());
    }
}

/// Returns a number below `end` that looks random.
fn pick(seed: &mut u64, end: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % end
}

/// Executes one random write.
fn write(store: &Store, seed: &mut u64, keys: &[i64]) -> Result<()> {
    let (one, other) = (keys[pick(seed, 4) as usize], keys[pick(seed, 4) as usize]);
    match pick(seed, 8) {
        0 | 1 => store.increment(Tally::COUNT, one, 1).run().map(drop),
        2 => {
            let id = store.insert(&Tally { count: one, ..Tally::default() }).run()?;
            store.delete::<Tally>(id).run().map(drop)
        }
        3 => store.insert_many(&vec![Tally::default(); 5]).run().map(drop),
        4 => {
            let mut batch = store.batch();
            batch.increment(Tally::COUNT, one, 1);
            batch.insert(&Tally::default());
            batch.increment(Tally::COUNT, other, 1);
            batch.all_or_nothing().run().map(drop)
        }
        5 => store.delete_where(Tally::COUNT.eq(0)).run().map(drop),
        is_committed => {
            let mut transaction = store.begin_run()?;
            transaction.increment(Tally::COUNT, one, 1).run()?;
            let savepoint = transaction.savepoint_run()?;
            transaction.insert(&Tally { count: 7, ..Tally::default() }).run()?;
            transaction.rollback_to(&savepoint).run()?;
            // Two transactions that take two rows in another order meet a deadlock.
            transaction.increment(Tally::COUNT, other, 1).run()?;
            match is_committed {
                6 => transaction.commit().run(),
                _ => transaction.rollback().run(),
            }
        }
    }
}

/// Inserts the last row, once that is possible again.
pub(crate) fn end(store: &Store) {
    let until = Instant::now() + Duration::from_secs(60);
    let last = Tally { label: Some(END.to_owned()), ..Tally::default() };
    while let Err(error) = store.insert(&last).run() {
        if error.kind() == ErrorKind::Conflict {
            return;
        }
        assert!(Instant::now() < until, "{error}");
        thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn may_happen(error: &marmota_model::Error) -> bool {
    error.is_retryable()
        || matches!(
            error.kind(),
            ErrorKind::Lost | ErrorKind::Refused | ErrorKind::Busy | ErrorKind::NotFound
        )
}

/// Writes at random with several stores on a database, while connections are killed, and asserts
/// that all stores read the same commits. Returns the number of commits.
pub(crate) fn race(url: &str, writers: u64, writes: usize) -> usize {
    let (one, other, reading) = (recording(url), recording(url), recording(url));
    let streams = [&one, &other, &reading].map(|store| store.changes().unwrap());
    let by_hand = Postgres::from_url(url).unwrap();
    // Writes by a program without a feed, in a transaction that stays open.
    let plain = Store::builder(Postgres::from_url(url).unwrap()).model::<Tally>().open().unwrap();
    let keys = one.insert_many(&vec![Tally { count: 1, ..Tally::default() }; 4]).run().unwrap();
    let stop = AtomicBool::new(false);
    let received: Vec<Received> = thread::scope(|scope| {
        let readers = streams.map(|stream| scope.spawn(|| Received::read(stream)));
        let long = plain.begin_run().unwrap();
        long.insert(&Tally { count: 3, ..Tally::default() }).run().unwrap();
        let writers: Vec<_> = (0..writers)
            .map(|number| {
                let (store, keys) = (if number % 2 == 0 { &one } else { &other }, &keys);
                scope.spawn(move || {
                    let mut seed = number;
                    for _ in 0..writes {
                        if let Err(error) = write(store, &mut seed, keys) {
                            assert!(may_happen(&error), "{error:?}");
                        }
                    }
                })
            })
            .collect();
        let killer = scope.spawn(|| {
            let mut seed = 99;
            while !stop.load(Ordering::Relaxed) {
                let sql = format!(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                     WHERE datname=current_database() AND pid<>pg_backend_pid() AND pid%7={} \
                     AND state<>'idle in transaction'",
                    pick(&mut seed, 7)
                );
                by_hand.execute(&sql).unwrap();
                by_hand.execute("UPDATE tally SET count=count+1 WHERE count>5").unwrap_or(());
                thread::sleep(Duration::from_millis(30));
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        killer.join().unwrap();
        // It was open all the time, and has not delayed the others.
        if let Err(error) = long.commit().run() {
            assert!(may_happen(&error), "{error:?}");
        }
        end(&one);
        readers.map(|reader| reader.join().unwrap()).into()
    });
    for each in &received {
        assert_eq!(each.positions, received[0].positions);
        assert_eq!(each.kinds, received[0].kinds);
        each.assert_is(&reading);
    }
    received[0].positions.len()
}
