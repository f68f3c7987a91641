//! The nearest of 100,000 vectors with 384 dimensions, on SQLite and in memory, next to a bare loop
//! over one list of floats: `cargo run --release -p marmota-sqlite --example vector_rates [rows]`.
//!
//! SQLite is measured with its default cache, and with one that holds the file.
//!
//! Each figure is the best of some rounds. The results are compared with those of the bare loop. On
//! an event loop means that a read continues in turns, or on a helper thread, as in a server.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::slice::ChunksExact;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use marmota_memory::Memory;
use marmota_model::{
    Error, ErrorKind, Field, FieldSet, Kind, Metric, NoRows, RankedQuery, Ranking, Result, Role,
    RowSource, Schema, ValueRef,
};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::{Progress, Store};

const DIMENSIONS: usize = 384;
const ROUNDS: usize = 9;
const NEAREST: usize = 10;

fn document() -> Schema {
    let embedding = Kind::Vector { dimensions: DIMENSIONS as u32 };
    let id = Field::new("id", Kind::I64).role(Role::Key);
    Schema::new("document", vec![id, Field::new("embedding", embedding)])
}

/// Rows to insert.
struct Vectors<'a>(ChunksExact<'a, u8>);

impl<'a> RowSource<'a> for Vectors<'a> {
    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        let Some(bytes) = self.0.next() else { return Ok(false) };
        row[1] = ValueRef::Blob(bytes);
        Ok(true)
    }

    fn remaining(&self) -> usize {
        self.0.len()
    }
}

/// Wakes a thread that waits for a read.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns the keys of the nearest rows: on this thread, or as an event loop reads them.
fn nearest(store: &Store, to: &[f32], on_event_loop: bool) -> Result<Vec<i64>> {
    let table = store.table("document")?;
    let by = Ranking::nearest(&table, 1, to, Metric::Cosine)?;
    let fields = Some(FieldSet::EMPTY.with(0));
    let query = RankedQuery { limit: NEAREST as u64, fields, ..RankedQuery::new(by) };
    let mut ids = Vec::new();
    let mut sink = |row: &[ValueRef<'_>]| {
        ids.extend(row[0].as_int());
        ControlFlow::Continue(())
    };
    let mut list = Operation::ListRanked { table: &table, query: &query };
    if !on_event_loop {
        store.run(&mut list, &mut sink)?;
        return Ok(ids);
    }
    let mut outcome = Outcome::default();
    if let Progress::Pending(mut pending) =
        store.submit(None, &mut list, &mut sink, &mut outcome)?
    {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match store.poll(&mut pending, &mut list, &mut sink, &mut outcome, &mut context) {
                Poll::Ready(done) => break done?,
                Poll::Pending => std::thread::park(),
            }
        }
    }
    Ok(ids)
}

/// A generator of numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }

    fn vector(&mut self) -> [f32; DIMENSIONS] {
        std::array::from_fn(|_| self.next())
    }
}

/// Returns the shortest time of some rounds.
fn best(mut run: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        run()?;
        best = best.min(started.elapsed());
    }
    Ok(best)
}

/// The distances of a list of floats to a vector, by a plain loop in lanes; the nearest are found by
/// a partial sort.
fn bare_loop(all: &[f32], to: &[f32; DIMENSIONS]) -> Vec<i64> {
    let length = to.iter().map(|x| x * x).sum::<f32>().sqrt();
    let mut found: Vec<(f32, i64)> = (1..)
        .zip(all.chunks_exact(DIMENSIONS))
        .map(|(id, vector)| {
            let (mut product, mut square) = ([0.0_f32; 16], [0.0_f32; 16]);
            for (a, b) in vector.chunks_exact(16).zip(to.chunks_exact(16)) {
                for lane in 0..16 {
                    product[lane] += a[lane] * b[lane];
                    square[lane] += a[lane] * a[lane];
                }
            }
            let (product, square) = (product.iter().sum::<f32>(), square.iter().sum::<f32>());
            (1.0 - product / (square.sqrt() * length), id)
        })
        .collect();
    found.select_nth_unstable_by(NEAREST, |a, b| a.0.total_cmp(&b.0));
    found.truncate(NEAREST);
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.into_iter().map(|(_, id)| id).collect()
}

fn main() -> Result<()> {
    let rows = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let mut random = Random(7);
    let mut all = Vec::with_capacity(rows * DIMENSIONS);
    let folder =
        tempfile::tempdir().map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
    let file = Location::File(folder.path().join("vectors.db"));
    let sqlite = Sqlite::open(file, SqliteOptions::default())?;
    let file = Location::File(folder.path().join("cached.db"));
    let options = SqliteOptions { cache_bytes_max: 1 << 30, ..SqliteOptions::default() };
    let cached = Sqlite::open(file, options)?;
    let stores = [
        ("sqlite", Store::builder(sqlite).schema(document()).open()?),
        ("sqlite, cached", Store::builder(cached).schema(document()).open()?),
        ("memory", Store::builder(Memory::new()).schema(document()).open()?),
    ];
    while all.len() < rows * DIMENSIONS {
        let count = 5_000.min(rows - all.len() / DIMENSIONS);
        let vectors: Vec<_> = (0..count).map(|_| random.vector()).collect();
        all.extend(vectors.iter().flatten());
        for (_, store) in &stores {
            let table = store.table("document")?;
            let bytes: Vec<u8> = vectors.iter().flatten().flat_map(|it| it.to_le_bytes()).collect();
            let mut rows = Vectors(bytes.chunks_exact(DIMENSIONS * size_of::<f32>()));
            store.run(&mut Operation::insert_many(&table, &mut rows), &mut NoRows)?;
        }
    }
    let to = random.vector();
    let wanted = bare_loop(&all, &to);
    let floor = best(|| {
        black_box(bare_loop(black_box(&all), &to));
        Ok(())
    })?;
    // SQLite copies its log into the file meanwhile.
    std::thread::sleep(Duration::from_secs(3));
    println!("{rows} vectors of {DIMENSIONS}, the nearest {NEAREST}, cosine");
    println!("{:<34}{floor:>10.1?}", "bare loop");
    for (name, store) in &stores {
        for (on_event_loop, how) in [(false, "blocking"), (true, "on an event loop")] {
            assert_eq!(nearest(store, &to, on_event_loop)?, wanted, "{name}");
            let took = best(|| nearest(store, &to, on_event_loop).map(drop))?;
            println!("{:<34}{took:>10.1?}", format!("{name}, {how}"));
        }
    }
    Ok(())
}
