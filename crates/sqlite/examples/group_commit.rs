//! Single-row inserts that survive a loss of power, by many clients at once,
//! beside one wait for the disk a row:
//! `cargo run --release -p marmota-sqlite --features simulated-disk --example
//! group_commit [folder] [seconds] [micros,micros…]`.
//!
//! The last argument is how much longer the disk takes at each wait, for one
//! table each (0 and 2000). In a folder in memory, 1 makes a disk of some 60 µs
//! that no other program disturbs.
//!
//! The floor is the same statement on the same build of SQLite, run again and
//! again by one thread, each in a transaction of its own with
//! `synchronous=FULL`. Everything is measured in one run, in turns with the
//! floor; the machine should have nothing else to do. Waits for the disk are
//! counted by a file system of SQLite's (`disk.rs`).
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use marmota_model::{Error, Field, Kind, NoRows, Role, Schema, Table, ValueRef};
use marmota_sqlite::disk::Disk;
use marmota_sqlite::{Durability, Location, Options, Sqlite};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::{Progress, Store};

/// Who inserts.
#[derive(Clone, Copy)]
enum Clients {
    /// So many threads, each one row after the other.
    Threads(usize),
    /// So many threads, each with so many tasks, each one row after the other.
    Tasks(usize, usize),
}

struct Measured {
    rows_per_second: f64,
    syncs_per_row: f64,
    p50: Duration,
    p99: Duration,
}

fn schema() -> Schema {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("name", Kind::TEXT),
        Field::new("number", Kind::I64),
    ];
    Schema::new("note", fields)
}

fn fresh(folder: &Path) -> PathBuf {
    let path = folder.join("group.db");
    for end in ["db", "db-wal", "db-shm"] {
        let _ = std::fs::remove_file(path.with_extension(end));
    }
    path
}

fn open(folder: &Path, durability: Durability) -> Store {
    let options = Options { durability, ..Options::default() };
    let engine = Sqlite::open(Location::File(fresh(folder)), options).unwrap();
    Store::builder(engine).schema(schema()).open().unwrap()
}

fn row(number: i64) -> [ValueRef<'static>; 3] {
    [ValueRef::Absent, ValueRef::Text("Bartholomew van den Broek"), ValueRef::Int(number)]
}

/// The floor: one statement by hand, one wait for the disk each.
fn floor(folder: &Path, time: Duration) -> f64 {
    let path = fresh(folder);
    drop(open(folder, Durability::Full));
    let mut by_hand = marmota_sqlite::floor::Inserts::open(
        &path,
        "INSERT INTO note(name,number) VALUES('Bartholomew van den Broek',?)",
    )
    .unwrap();
    let (started, mut rows) = (Instant::now(), 0);
    while started.elapsed() < time {
        rows += 1;
        by_hand.insert(rows).unwrap();
    }
    rows as f64 / started.elapsed().as_secs_f64()
}

/// An insert that is awaited.
struct Insert<'s> {
    store: &'s Store,
    table: &'s Table,
    number: i64,
    pending: Option<marmota_store::Pending>,
    is_over: bool,
}

impl Future for Insert<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // Woken once more than it had to be.
        if this.is_over {
            return Poll::Pending;
        }
        let mut outcome = Outcome::default();
        let row = row(this.number);
        let mut operation = Operation::insert(this.table, &row);
        if this.pending.is_none() {
            match this.store.submit(None, &mut operation, &mut NoRows, &mut outcome)? {
                Progress::Done => return Poll::Ready(Ok(())),
                Progress::Pending(pending) => this.pending = Some(pending),
            }
        }
        let Some(pending) = &mut this.pending else { return Poll::Pending };
        let polled = this.store.poll(pending, &mut operation, &mut NoRows, &mut outcome, context);
        if polled.is_ready() {
            this.pending = None;
        }
        polled
    }
}

/// The tasks of one thread: the numbers of those that are ready, and a way to
/// wake the thread.
struct Loop {
    ready: Mutex<Vec<usize>>,
    sleeps: AtomicBool,
    thread: Thread,
}

struct Task {
    number: usize,
    of: Arc<Loop>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.of.ready.lock().unwrap().push(self.number);
        if self.of.sleeps.swap(false, Ordering::SeqCst) {
            self.of.thread.unpark();
        }
    }
}

/// Runs tasks that insert until it is over; gives how long each insert took.
fn run_tasks(store: &Store, tasks: usize, until: Instant) -> Vec<u32> {
    let table = store.table("note").unwrap();
    let of = Arc::new(Loop {
        ready: Mutex::new((0..tasks).collect()),
        sleeps: AtomicBool::new(false),
        thread: std::thread::current(),
    });
    let wakers: Vec<Waker> =
        (0..tasks).map(|number| Waker::from(Arc::new(Task { number, of: of.clone() }))).collect();
    let insert = |number| Insert { store, table: &table, number, pending: None, is_over: false };
    let mut running: Vec<_> =
        (0..tasks).map(|number| (insert(number as i64), Instant::now())).collect();
    let (mut took, mut left, mut batch) = (Vec::new(), tasks, Vec::new());
    while left > 0 {
        of.sleeps.store(true, Ordering::SeqCst);
        std::mem::swap(&mut batch, &mut of.ready.lock().unwrap());
        if batch.is_empty() {
            std::thread::park();
            continue;
        }
        of.sleeps.store(false, Ordering::SeqCst);
        for number in batch.drain(..) {
            let mut context = Context::from_waker(&wakers[number]);
            let (insert_now, started) = &mut running[number];
            let Poll::Ready(done) = Pin::new(insert_now).poll(&mut context) else { continue };
            done.unwrap();
            let now = Instant::now();
            took.push((now - *started).as_nanos().min(u128::from(u32::MAX)) as u32);
            if now >= until {
                left -= 1;
                running[number].0.is_over = true;
                continue;
            }
            running[number] = (insert(number as i64), now);
            wakers[number].wake_by_ref();
        }
    }
    took
}

fn run_thread(store: &Store, until: Instant) -> Vec<u32> {
    let table = store.table("note").unwrap();
    let mut took = Vec::new();
    loop {
        let started = Instant::now();
        let row = row(1);
        store.run(&mut Operation::insert(&table, &row), &mut NoRows).unwrap();
        let now = Instant::now();
        took.push((now - started).as_nanos().min(u128::from(u32::MAX)) as u32);
        if now >= until {
            return took;
        }
    }
}

fn measure(
    folder: &Path,
    disk: &Disk,
    durability: Durability,
    clients: Clients,
    time: Duration,
) -> Measured {
    let store = open(folder, durability);
    let table = store.table("note").unwrap();
    let first = row(0);
    store.run(&mut Operation::insert(&table, &first), &mut NoRows).unwrap();
    let (syncs, started) = (disk.syncs(), Instant::now());
    let until = started + time;
    let threads = match clients {
        Clients::Threads(threads) | Clients::Tasks(threads, _) => threads,
    };
    let mut took: Vec<u32> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| match clients {
                    Clients::Threads(_) => run_thread(&store, until),
                    Clients::Tasks(_, tasks) => run_tasks(&store, tasks, until),
                })
            })
            .collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let elapsed = started.elapsed();
    let syncs = disk.syncs() - syncs;
    let mut rows = 0;
    let mut count = Operation::Count { table: &table, filter: None };
    rows += store.run(&mut count, &mut NoRows).unwrap().rows;
    assert_eq!(rows as usize, took.len() + 1, "rows acknowledged, and rows there");
    store.close().unwrap();
    took.sort_unstable();
    let at =
        |share: f64| Duration::from_nanos(took[((took.len() - 1) as f64 * share) as usize].into());
    Measured {
        rows_per_second: took.len() as f64 / elapsed.as_secs_f64(),
        syncs_per_row: syncs as f64 / took.len() as f64,
        p50: at(0.5),
        p99: at(0.99),
    }
}

fn name(clients: Clients) -> String {
    match clients {
        Clients::Threads(1) => "1 thread".to_owned(),
        Clients::Threads(threads) => format!("{threads} threads"),
        Clients::Tasks(1, tasks) => format!("1 thread of {tasks} tasks"),
        Clients::Tasks(threads, tasks) => format!("{threads} threads of {tasks} tasks"),
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds = arguments.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(2.0);
    let folder = folder.join(format!("marmota-group-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let disk = Disk::at(&folder).unwrap();
    let time = Duration::from_secs_f64(seconds);
    println!("SQLite {}, single-row inserts, WAL, durable", Sqlite::sqlite_version());
    let slower = arguments.next().unwrap_or_else(|| "0,2000".to_owned());
    for slower in slower.split(',').map(|micros| Duration::from_micros(micros.parse().unwrap())) {
        disk.slow_down(slower);
        println!(
            "\n{}: rows a second, by the floor, by the same with durability none; \
             waits for the disk a row",
            if slower.is_zero() {
                "this disk".to_owned()
            } else {
                format!("{slower:?} more a wait")
            }
        );
        for clients in [
            Clients::Threads(1),
            Clients::Threads(2),
            Clients::Threads(50),
            Clients::Tasks(1, 64),
            Clients::Tasks(2, 32),
            Clients::Tasks(2, 64),
            Clients::Tasks(2, 1024),
        ] {
            let before = floor(&folder, time / 4);
            let full = measure(&folder, &disk, Durability::Full, clients, time);
            let floor = f64::midpoint(before, floor(&folder, time / 4));
            let none = measure(&folder, &disk, Durability::None, clients, time / 2);
            let wait = Duration::from_secs_f64(1.0 / floor);
            println!(
                "  {:<26}{:>9.1} k {:>7.2} x {:>6.2} of none {:>8.4} syncs  p50 {:>9.1?} p99 \
                 {:>9.1?} = {:.1} floor rows",
                name(clients),
                full.rows_per_second / 1e3,
                full.rows_per_second / floor,
                full.rows_per_second / none.rows_per_second,
                full.syncs_per_row,
                full.p50,
                full.p99,
                full.p99.as_secs_f64() / wait.as_secs_f64(),
            );
        }
    }
    let _ = std::fs::remove_dir_all(folder);
}
