//! How long loading takes, beside the `csv` crate and beside reading the file
//! alone: `cargo run --release -p marmota-columns --example column_rates -- stop_times.txt`
//! (any file with the columns of `StopTime`). In CPU time of the main thread
//! and in time, the best of some rounds.

use std::fs;
use std::hint::black_box;

use marmota_columns::csv::Loader;
use marmota_derive::Model;

const ROUNDS: usize = 5;

#[derive(Model)]
struct StopTime {
    id: i64,
    trip_id: String,
    stop_id: String,
    arrival_time: String,
    departure_time: String,
}

/// CPU time of this thread so far, ms.
fn cpu_ms() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|time| time.parse::<f64>().ok()).unwrap_or_default() / 1e6
}

fn measure(name: &str, mut run: impl FnMut() -> usize) {
    let (mut cpu, mut wall) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        let (start, before) = (std::time::Instant::now(), cpu_ms());
        black_box(run());
        cpu = cpu.min(cpu_ms() - before);
        wall = wall.min(start.elapsed().as_secs_f64() * 1e3);
    }
    println!("{name:<30} {cpu:7.1} ms CPU of this thread, {wall:7.1} ms");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which file?")?;
    let rows = |threads| Loader::new().threads(threads).load::<StopTime>(&path).map(|t| t.len());
    let loaded = Loader::new().load::<StopTime>(&path)?;
    println!("{loaded:?}");
    let by_trip = loaded.index(StopTime::TRIP_ID);
    println!("{by_trip:?}, {} bytes", by_trip.bytes());
    measure("the file's bytes", || fs::read(&path).map_or(0, |bytes| bytes.len()));
    measure("csv, records only", || {
        let Ok(mut reader) = csv::Reader::from_path(&path) else { return 0 };
        let mut record = csv::ByteRecord::new();
        let mut fields = 0;
        while let Ok(true) = reader.read_byte_record(&mut record) {
            fields += record.len();
        }
        fields
    });
    measure("loaded by one thread", || rows(1).unwrap_or_default());
    measure("loaded by two threads", || rows(2).unwrap_or_default());
    measure("index", || loaded.index(StopTime::TRIP_ID).len());
    measure("fingerprint", || loaded.fingerprint() as usize);
    let json = loaded.json(&["stop_id", "arrival_time", "departure_time"])?;
    let mut out = Vec::new();
    measure("all as JSON, 64 kB at a time", || {
        (0..loaded.len() as u32).fold(0, |bytes, row| {
            json.object(&mut out, row);
            if out.len() < 64 << 10 {
                return bytes;
            }
            let bytes = bytes + out.len();
            out.clear();
            bytes
        })
    });
    Ok(())
}
