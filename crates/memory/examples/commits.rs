//! Commits a second of the memory engine with a log, by how many threads
//! commit at once: `cargo run --release -p marmota-memory --example
//! commits [folder]`; with `--features encryption` also with an encrypted log.
//!
//! The floor is a file that is written to and waited for once a commit, by one
//! thread: what the disk does without sharing.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use marmota_memory::Memory;
use marmota_model::{Field, Kind, NoRows, Result, Role, Schema, Table, ValueRef};
use marmota_store::engine::{self, Engine};
use marmota_store::operation::Operation;

const TIME: Duration = Duration::from_secs(3);

fn table() -> Result<Arc<Table>> {
    let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("body", Kind::TEXT)];
    Ok(Arc::new(Table::new(Schema::new("note", fields))?))
}

/// Single inserts by so many threads, for a while.
fn commits(engine: &Memory, threads: usize) -> Result<f64> {
    let table = table()?;
    engine.prepare(std::slice::from_ref(&table), 1)?;
    let (count, start) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        let write = || -> Result<()> {
            let mut session = engine.session()?;
            let row = [ValueRef::Absent, ValueRef::Text("some forty characters of text in a row.")];
            while start.elapsed() < TIME {
                let operation = &mut Operation::insert(&table, &row);
                engine::run(&mut *session, operation, &mut NoRows)?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let writers: Vec<_> = (0..threads).map(|_| scope.spawn(write)).collect();
        writers.into_iter().try_for_each(|writer| match writer.join() {
            Ok(written) => written,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    let rate = count.into_inner() as f64 / start.elapsed().as_secs_f64();
    engine.close()?;
    Ok(rate)
}

fn floor(path: &Path) -> std::io::Result<f64> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    let (mut count, start) = (0_u32, Instant::now());
    while start.elapsed() < TIME {
        file.write_all(&[7; 70])?;
        file.sync_data()?;
        count += 1;
    }
    std::fs::remove_file(path)?;
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let folder = Path::new(&folder).join(format!("commits.{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    println!("{:>9.0} a second: a file, waited for each time", floor(&folder.join("floor"))?);
    for durability in ["full", "relaxed", "none"] {
        for threads in [1, 2, 50] {
            let open = |name: &str| {
                let path = folder.join(format!("{durability}.{threads}{name}"));
                Memory::from_url(&format!("memory:{}?durability={durability}", path.display()))
            };
            let rate = commits(&open("")?, threads)?;
            print!("{rate:>9.0} a second: {durability}, {threads} threads");
            #[cfg(feature = "encryption")]
            {
                let key = || Ok(marmota_store::key::EncryptionKey::raw([7; 32]));
                let sealed = commits(&open(".sealed")?.key(key)?, threads)?;
                print!("; encrypted {sealed:.0}, {:.2} of it", sealed / rate);
            }
            println!();
        }
    }
    println!("{:>9.0} a second: no log, 1 thread", commits(&Memory::from_url("memory:")?, 1)?);
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
