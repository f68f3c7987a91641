//! The change feed of several stores on one database, each with connections of its own, as
//! processes have them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use marmota_model::{ErrorKind, Result, Value};
use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_store::Store;
use marmota_store::action::block_on;
use marmota_store::change::{Change, ChangeKind, ChangeRetention, ChangeStream, FeedEvent, Position};

use crate::{Tally, label, server};

/// The label of the row that is inserted last.
const END: &str = "end";

fn recording(url: &str) -> Store {
    let engine = Postgres::from_url(url).unwrap();
    let builder = Store::builder(engine).model::<Tally>();
    builder.changes(ChangeRetention::default()).open().unwrap()
}

fn label_of(row: &[Value]) -> Option<&str> {
    match &row[2] {
        Value::Text(label) => Some(label),
        _ => None,
    }
}

/// What a reader of the feed has received.
#[derive(Debug, Default)]
struct Received {
    positions: Vec<Position>,
    kinds: Vec<Vec<ChangeKind>>,
    /// The rows to which the changes lead.
    rows: BTreeMap<i64, Vec<Value>>,
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
    fn read(mut stream: ChangeStream) -> Self {
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
    fn assert_is(&self, store: &Store) {
        let rows = store.list::<Tally>().run().unwrap();
        let rows = rows.into_iter().map(|row| {
            let label = row.label.map_or(Value::Null, |label| Value::Text(label.into()));
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
fn end(store: &Store) {
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

#[test]
fn all_processes_read_the_same_commits_in_the_same_order() {
    const WRITERS: u64 = 4;
    let url = server().make_database().unwrap();
    let (one, other, reading) = (recording(&url), recording(&url), recording(&url));
    let streams = [&one, &other, &reading].map(|store| store.changes().unwrap());
    let by_hand = Postgres::from_url(&url).unwrap();
    // Writes by a program without a feed, in a transaction that stays open.
    let plain = Store::builder(Postgres::from_url(&url).unwrap()).model::<Tally>().open().unwrap();
    let keys = one.insert_many(&vec![Tally { count: 1, ..Tally::default() }; 4]).run().unwrap();
    let stop = AtomicBool::new(false);
    let received: Vec<Received> = thread::scope(|scope| {
        let readers = streams.map(|stream| scope.spawn(|| Received::read(stream)));
        let long = plain.begin_run().unwrap();
        long.insert(&Tally { count: 3, ..Tally::default() }).run().unwrap();
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (store, keys) = (if number % 2 == 0 { &one } else { &other }, &keys);
                scope.spawn(move || {
                    let mut seed = number;
                    for _ in 0..60 {
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
    assert!(received[0].positions.len() > 100, "{}", received[0].positions.len());
}

#[test]
fn an_open_transaction_does_not_delay_the_commits_of_others() {
    let url = server().make_database().unwrap();
    let (one, other) = (recording(&url), recording(&url));
    let open = one.begin_run().unwrap();
    open.insert(&label("open")).run().unwrap();
    let mut stream = other.changes().unwrap();
    one.insert(&label("next")).run().unwrap();
    let Some(FeedEvent::Commit(commit)) = block_on(stream.next()).unwrap() else { panic!() };
    assert_eq!(label_of(commit.changes[0].after.as_ref().unwrap()), Some("label next"));
    open.commit().run().unwrap();
    let Some(FeedEvent::Commit(commit)) = block_on(stream.next()).unwrap() else { panic!() };
    assert_eq!(label_of(commit.changes[0].after.as_ref().unwrap()), Some("label open"));
    // A position of one process is known to the other.
    block_on(one.reached(commit.position, Duration::from_secs(20))).unwrap();
    assert_eq!(one.position().unwrap(), commit.position);
}

#[test]
fn a_server_that_crashes_loses_no_acknowledged_commit_of_the_feed() {
    let own = TemporaryPostgres::start(&[]).unwrap();
    let url = own.make_database().unwrap();
    let (one, other) = (recording(&url), recording(&url));
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
                    let row = label(format_args!("{number} {round}"));
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
            own.crash();
            own.resume().unwrap();
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

#[test]
fn changes_by_other_programs_are_recorded() {
    use ChangeKind::{Delete, Insert, Update};
    let url = server().make_database().unwrap();
    let store = recording(&url);
    let stream = store.changes().unwrap();
    let by_hand = Postgres::from_url(&url).unwrap();
    let run = |sql: &str| by_hand.execute(sql).unwrap();
    run("INSERT INTO tally(count) VALUES (0)");
    run("UPDATE tally SET count=count");
    // A client with another encoding.
    run("SET client_encoding='LATIN1'; UPDATE tally SET label=U&'\\00e9'; RESET client_encoding");
    run("UPDATE tally SET id=1000");
    run("BEGIN; INSERT INTO tally(count) VALUES (1); SAVEPOINT a; \
         INSERT INTO tally(count) VALUES (2); ROLLBACK TO a; DELETE FROM tally WHERE id=1000; COMMIT");
    run("BEGIN; INSERT INTO tally(count) VALUES (3); ROLLBACK");
    // More than a setting holds, in several statements.
    run("DO $$BEGIN FOR number IN 1..50 LOOP INSERT INTO tally(count,label) \
         SELECT number, number||' '||n||repeat('x',100) FROM generate_series(1,20) n; \
         END LOOP; END$$");
    run("WITH gone AS (DELETE FROM tally WHERE count>10 RETURNING 1) \
         INSERT INTO tally(count) SELECT count(*) FROM gone");
    run("TRUNCATE tally");
    end(&store);
    let received = Received::read(stream);
    received.assert_is(&store);
    let counts = |kinds: &[ChangeKind]| {
        [Insert, Update, Delete].map(|kind| kinds.iter().filter(|one| **one == kind).count())
    };
    let counts: Vec<_> = received.kinds.iter().map(|kinds| counts(kinds)).collect();
    let expected = [
        [1, 0, 0],
        [0, 1, 0],
        [1, 0, 1],
        [1, 0, 1],
        [1000, 0, 0],
        [1, 0, 800],
        [0, 0, 202],
        [1, 0, 0],
    ];
    assert_eq!(counts, expected);
}

#[test]
fn a_user_that_does_not_own_the_tables_gets_an_error_that_says_so() {
    let url = server().make_database().unwrap();
    drop(recording(&url));
    let owner = Postgres::from_url(&url).unwrap();
    owner.remove_change_triggers().unwrap();
    // Users belong to the server, which other tests share.
    let user = format!("feed_{}", std::process::id());
    owner
        .execute(&format!(
            "CREATE USER {user} PASSWORD 'guest'; \
             GRANT ALL ON ALL TABLES IN SCHEMA public TO {user}; \
             GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {user}"
        ))
        .unwrap();
    let (_, place) = url.split_once('@').unwrap();
    let engine = Postgres::from_url(&format!("postgres://{user}:guest@{place}")).unwrap();
    let builder = Store::builder(engine).model::<Tally>().changes(ChangeRetention::default());
    let error = builder.open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    assert!(error.message().contains("must own the tables"), "{error}");
    // Once the owner has created the triggers, other users write with them.
    let store = recording(&url);
    let start = store.position().unwrap();
    let guest = Postgres::from_url(&format!("postgres://{user}:guest@{place}")).unwrap();
    owner.execute(&format!("REVOKE ALL ON marmota_commit FROM {user}")).unwrap();
    guest.execute("INSERT INTO tally(count) VALUES (1)").unwrap();
    end(&store);
    let received = Received::read(store.changes().unwrap().from(start).unwrap());
    assert_eq!(received.kinds.len(), 2);
}

#[test]
fn triggers_are_removed_on_request() {
    let url = server().make_database().unwrap();
    let store = recording(&url);
    let start = store.position().unwrap();
    let engine = Postgres::from_url(&url).unwrap();
    store.insert(&label(1)).run().unwrap();
    store.close().unwrap();
    engine.remove_change_triggers().unwrap();
    engine.execute("INSERT INTO tally(count) VALUES (5)").unwrap();
    let store = recording(&url);
    end(&store);
    let received = Received::read(store.changes().unwrap().from(start).unwrap());
    assert_eq!(received.kinds, [[ChangeKind::Insert], [ChangeKind::Insert]]);
}

#[test]
fn two_processes_remove_old_commits() {
    let url = server().make_database().unwrap();
    let retention = ChangeRetention::default().bytes_max(1);
    let open = || {
        let engine = Postgres::from_url(&url).unwrap();
        Store::builder(engine).model::<Tally>().changes(retention).open().unwrap()
    };
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
        assert!(commits >= 250, "the newest commits are kept: {commits}");
    }
}
