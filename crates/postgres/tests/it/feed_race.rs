//! Several stores that write to one database at random, and readers of its change feed.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use marmota_model::{ErrorKind, Result, Value};
use marmota_store::Store;
use marmota_store::action::block_on;
use marmota_store::change::{
    Change, ChangeKind, ChangeRetention, ChangeStream, FeedEvent, Position,
};

use crate::{Tally, engine};

/// The label of the row that is inserted last.
pub(crate) const END: &str = "end";

pub(crate) fn recording(url: &str) -> Store {
    let builder = Store::builder(engine(url)).model::<Tally>();
    builder.changes(ChangeRetention::default()).open().unwrap()
}

fn label_row(number: impl std::fmt::Display) -> Tally {
    Tally { label: Some(format!("label {number}")), ..Tally::default() }
}

fn label_of(row: &[Value]) -> Option<&str> {
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

fn may_happen(error: &marmota_model::Error) -> bool {
    error.is_retryable()
        || matches!(
            error.kind(),
            ErrorKind::Lost | ErrorKind::Refused | ErrorKind::Busy | ErrorKind::NotFound
        )
}

/// Returns the times from the answer to a write until a reader of another store has the commit, in
/// ascending order.
pub(crate) fn delays(url: &str, writes: usize) -> Vec<Duration> {
    let (one, other) = (recording(url), recording(url));
    let mut stream = other.changes().unwrap();
    let mut delay = || {
        one.insert(&Tally::default()).run().unwrap();
        let committed = Instant::now();
        assert!(matches!(block_on(stream.next()).unwrap(), Some(FeedEvent::Commit(_))));
        committed.elapsed()
    };
    let mut delays: Vec<Duration> = (0..writes).map(|_| delay()).collect();
    delays.sort_unstable();
    delays
}

/// Writes at random with several stores on a database, while connections are killed, and asserts
/// that all stores read the same commits. `kill` returns a statement that kills connections, by a
/// number below 7. Returns the number of commits.
pub(crate) fn race(url: &str, writers: u64, writes: usize, kill: fn(u64) -> String) -> usize {
    let (one, other, reading) = (recording(url), recording(url), recording(url));
    let streams = [&one, &other, &reading].map(|store| store.changes().unwrap());
    let by_hand = engine(url);
    // Writes by a program without a feed, in a transaction that stays open.
    let plain = Store::builder(engine(url)).model::<Tally>().open().unwrap();
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
                by_hand.execute(&kill(pick(&mut seed, 7))).unwrap();
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

/// Asserts that an open transaction does not delay the commits of others.
pub(crate) fn open_transactions(url: &str) {
    let (one, other) = (recording(url), recording(url));
    let open = one.begin_run().unwrap();
    open.insert(&label_row("open")).run().unwrap();
    let mut stream = other.changes().unwrap();
    one.insert(&label_row("next")).run().unwrap();
    let Some(FeedEvent::Commit(commit)) = block_on(stream.next()).unwrap() else { panic!() };
    assert_eq!(label_of(commit.changes[0].after.as_ref().unwrap()), Some("label next"));
    open.commit().run().unwrap();
    let Some(FeedEvent::Commit(commit)) = block_on(stream.next()).unwrap() else { panic!() };
    assert_eq!(label_of(commit.changes[0].after.as_ref().unwrap()), Some("label open"));
    // A position of one process is known to the other.
    block_on(one.reached(commit.position, Duration::from_secs(20))).unwrap();
    assert_eq!(one.position().unwrap(), commit.position);
}

/// Asserts that a server that crashes, and starts again, loses no acknowledged commit.
pub(crate) fn crashes(url: &str, crash: impl Fn()) {
    let (one, other) = (recording(url), recording(url));
    let (start, stop) = (one.position().unwrap(), AtomicBool::new(false));
    let acknowledged = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for (number, store) in [&one, &other].into_iter().enumerate() {
            let (stop, acknowledged) = (&stop, &acknowledged);
            scope.spawn(move || {
                for round in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let row = label_row(format_args!("{number} {round}"));
                    let done = match round % 3 {
                        0 => store.transaction(|transaction| transaction.insert(&row).run()),
                        _ => store.insert(&row).run(),
                    };
                    match done {
                        Ok(id) => acknowledged.lock().unwrap().push(id),
                        Err(error) => {
                            assert!(may_happen(&error), "{error:?}");
                            thread::sleep(Duration::from_millis(5));
                        }
                    }
                }
            });
        }
        for _ in 0..2 {
            thread::sleep(Duration::from_millis(300));
            crash();
        }
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
    });
    end(&other);
    let received = Received::read(one.changes().unwrap().from(start).unwrap());
    received.assert_is(&other);
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(!acknowledged.is_empty());
    assert!(acknowledged.iter().all(|id| received.rows.contains_key(id)));
}

/// Two processes remove commits that exceed the retention; their readers get a gap.
pub(crate) fn removed_commits(url: &str) {
    let retention = ChangeRetention::default().bytes_max(1);
    let open = || Store::builder(engine(url)).model::<Tally>().changes(retention).open().unwrap();
    let stores = [open(), open()];
    let start = stores[0].position().unwrap();
    for round in 0..1_300 {
        stores[round % 2].insert(&Tally::default()).run().unwrap();
    }
    let until = Instant::now() + Duration::from_secs(60);
    for store in &stores {
        let gap = loop {
            assert!(Instant::now() < until, "no commit was removed");
            let mut stream = store.changes().unwrap().from(start).unwrap();
            match block_on(stream.next()).unwrap() {
                Some(FeedEvent::Gap(position)) => break position,
                Some(FeedEvent::Commit(_)) => thread::sleep(Duration::from_millis(100)),
                None => panic!("the store is open"),
            }
        };
        let end = store.position().unwrap();
        assert!(start < gap && gap < end);
        let mut stream = store.changes().unwrap().from(gap).unwrap();
        let mut commits = 0;
        while stream.position() < end {
            let event = block_on(stream.next()).unwrap();
            assert!(matches!(event, Some(FeedEvent::Commit(_))), "{event:?}");
            commits += 1;
        }
        // A process counts commits that the other one has removed, so it may keep fewer than a block.
        assert!(commits > 0, "the newest commit is kept");
    }
}
