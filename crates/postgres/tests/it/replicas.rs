//! Reads by the standby of a cluster: it is used only for reads that prefer it, it is waited for
//! after a position, and the primary reads if it cannot.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use marmota_model::NoRows;
use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_store::Store;
use marmota_store::change::ChangeRetention;
use marmota_store::operation::Operation;

use crate::{Tally, label};

/// The longest wait for something that happens in the end.
const LONG: Duration = Duration::from_secs(60);

struct Cluster {
    primary: TemporaryPostgres,
    standby: TemporaryPostgres,
    store: Store,
}

impl Cluster {
    /// Starts a primary and a standby, and waits until the standby executes reads.
    fn start() -> Self {
        let primary = TemporaryPostgres::start(&[]).unwrap();
        let standby = primary.start_standby().unwrap();
        let engine = Postgres::from_url(&primary.url_with(&standby, "postgres")).unwrap();
        let builder = Store::builder(engine).model::<Tally>().cache(1 << 20);
        let store = builder.changes(ChangeRetention::default()).open().unwrap();
        let cluster = Self { primary, standby, store };
        cluster.insert(0);
        cluster.wait_until(|count| count == (1, true));
        cluster
    }

    fn on_standby(&self, sql: &str) {
        Postgres::from_url(&self.standby.url("postgres")).unwrap().execute(sql).unwrap();
    }

    fn insert(&self, number: usize) -> i64 {
        self.store.insert(&label(number)).run().unwrap()
    }

    /// Waits until a read that prefers the standby has this result.
    fn wait_until(&self, is_wanted: impl Fn((u64, bool)) -> bool) {
        let until = Instant::now() + LONG;
        loop {
            let counted = count(&self.store.prefer_replica());
            if is_wanted(counted) {
                return;
            }
            assert!(Instant::now() < until, "{counted:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns a store that reads after all that was written.
    fn after(&self, wait_max: Duration) -> Store {
        let position = self.store.position().unwrap();
        self.store.prefer_replica_after(position, wait_max).unwrap()
    }
}

/// Counts the rows. Returns their number, and whether a replica has counted them.
fn count(store: &Store) -> (u64, bool) {
    let table = store.table("tally").unwrap();
    let mut operation = Operation::Count { table: &table, filter: None };
    let outcome = store.run(&mut operation, &mut NoRows).unwrap();
    (outcome.rows, outcome.from_replica)
}

#[test]
fn only_reads_that_prefer_a_replica_are_old() {
    let cluster = Cluster::start();
    let (store, replica) = (&cluster.store, cluster.store.prefer_replica());
    cluster.on_standby("SELECT pg_wal_replay_pause()");
    let key = cluster.insert(1);
    assert_eq!(count(&replica), (1, true));
    assert_eq!(count(store), (2, false));
    // A row of the primary is cached, and the missing one of the standby is not.
    for _ in 0..3 {
        assert!(replica.get::<Tally>(key).run().is_err());
        assert!(store.get::<Tally>(key).run().is_ok());
    }
    // Its writes, and its transactions, are those of the primary.
    replica.patch::<Tally>(key).set(Tally::COUNT, 5).run().unwrap();
    let inside = replica.transaction(|tx| tx.get::<Tally>(key).run()).unwrap();
    assert_eq!((inside.count, store.get::<Tally>(key).run().unwrap().count), (5, 5));
    let statistics = store.statistics().engine;
    assert!(statistics.replica_reads >= 4, "{statistics:?}");
}

#[test]
fn a_read_after_a_position_waits_for_the_standby() {
    let cluster = Cluster::start();
    cluster.on_standby("SELECT pg_wal_replay_pause()");
    cluster.insert(1);
    let after = cluster.after(LONG);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            cluster.on_standby("SELECT pg_wal_replay_resume()");
        });
        // The standby has both rows only after that.
        assert_eq!(count(&after), (2, true));
    });
}

#[test]
fn the_primary_reads_if_the_standby_is_too_late() {
    let cluster = Cluster::start();
    cluster.on_standby("SELECT pg_wal_replay_pause()");
    cluster.insert(1);
    assert_eq!(count(&cluster.after(Duration::from_millis(100))), (2, false));
    // The standby is left alone for a while, and used again afterwards.
    cluster.on_standby("SELECT pg_wal_replay_resume()");
    cluster.wait_until(|count| count == (2, true));
}

#[test]
fn each_row_is_there_after_its_position() {
    let cluster = Cluster::start();
    for number in 1..40 {
        let key = cluster.insert(number);
        let after = cluster.after(LONG);
        assert!(after.get::<Tally>(key).run().is_ok(), "{number}");
        assert_eq!(count(&after).0, number as u64 + 1);
    }
    assert!(cluster.store.statistics().engine.replica_reads > 0);
}

#[test]
fn reads_continue_without_the_standby() {
    let cluster = Cluster::start();
    // Otherwise a commit would wait for a standby.
    cluster.primary.stop_waiting_for_standbys().unwrap();
    cluster.standby.crash();
    for number in 1..10 {
        cluster.insert(number);
        assert_eq!(count(&cluster.store.prefer_replica()), (number as u64 + 1, false));
        assert_eq!(count(&cluster.after(LONG)), (number as u64 + 1, false));
    }
    cluster.standby.resume().unwrap();
    cluster.wait_until(|count| count == (10, true));
}

/// A server whose processes do not run, until this value is dropped.
struct Stopped(Vec<String>);

impl Stopped {
    fn stop(server: &TemporaryPostgres) -> Self {
        let file = std::fs::read_to_string(server.data().join("postmaster.pid")).unwrap();
        let main = file.lines().next().unwrap().to_owned();
        let children = Command::new("pgrep").args(["-P", &main]).output().unwrap().stdout;
        let children = String::from_utf8(children).unwrap();
        let processes = std::iter::once(&*main).chain(children.lines()).map(str::to_owned);
        let stopped = Self(processes.collect());
        stopped.signal("-STOP");
        stopped
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").arg(name).args(&self.0).status().unwrap().success());
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}

#[test]
fn the_primary_reads_if_the_standby_does_not_run() {
    let cluster = Cluster::start();
    let stopped = Stopped::stop(&cluster.standby);
    assert_eq!(count(&cluster.store.prefer_replica()), (1, false));
    drop(stopped);
    cluster.wait_until(|count| count == (1, true));
}

#[test]
fn a_standby_that_takes_long_is_waited_for() {
    let cluster = Cluster::start();
    let primary = cluster.primary.url("postgres");
    thread::scope(|scope| {
        // The standby repeats the lock, once it is in a file of the log. The standby is checked
        // several times before the end.
        let lock = "BEGIN; LOCK TABLE tally IN ACCESS EXCLUSIVE MODE; SELECT pg_switch_wal(); \
                    SELECT pg_sleep(4); COMMIT";
        scope.spawn(|| Postgres::from_url(&primary).unwrap().execute(lock).unwrap());
        cluster.on_standby(
            "DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE relation='tally'::regclass \
             AND mode='AccessExclusiveLock') LOOP PERFORM pg_sleep(0.01); END LOOP; END $$",
        );
        assert_eq!(count(&cluster.store.prefer_replica()), (1, true));
    });
}

#[test]
fn a_promoted_standby_is_no_replica() {
    let cluster = Cluster::start();
    cluster.primary.crash();
    cluster.standby.promote().unwrap();
    let store = &cluster.store;
    let until = Instant::now() + LONG;
    while store.insert(&label("after")).run().is_err() {
        assert!(Instant::now() < until);
    }
    for _ in 0..20 {
        assert_eq!(count(&store.prefer_replica()), (2, false));
        assert_eq!(count(&cluster.after(LONG)), (2, false));
    }
}
