//! Measures inserts over ODBC: row by row, and in batches. It starts its own servers.
//!
//! ```text
//! cargo run --release -p marmota-odbc --example batches [ROWS]
//! ```

#[path = "../tests/it/servers.rs"]
mod servers;

use std::time::Instant;

use marmota_derive::Model;
use marmota_model::{Result, Uuid};
use marmota_odbc::Odbc;
use marmota_store::Store;

#[derive(Clone, Model)]
struct Reading {
    id: Uuid,
    #[model(max = 40)]
    name: String,
    value: f64,
    count: i64,
}

#[derive(Clone, Model)]
struct Entry {
    id: i64,
    #[model(max = 40)]
    name: String,
    value: f64,
    count: i64,
}

fn readings(from: usize, count: usize) -> Vec<Reading> {
    let one = |at: usize| Reading {
        id: Uuid::from_u128(at as u128),
        name: format!("row {at}"),
        value: at as f64 / 8.0,
        count: at as i64,
    };
    (from..from + count).map(one).collect()
}

fn entries(count: usize) -> Vec<Entry> {
    let one = |at: usize| Entry {
        id: 0,
        name: format!("row {at}"),
        value: at as f64 / 8.0,
        count: at as i64,
    };
    (0..count).map(one).collect()
}

/// Prints the rate of an insert of this number of rows, and its ratio to another one.
fn measure(
    what: &str,
    rows: usize,
    base: Option<f64>,
    insert: impl FnOnce() -> Result<()>,
) -> Result<f64> {
    let begun = Instant::now();
    insert()?;
    let rate = rows as f64 / begun.elapsed().as_secs_f64();
    let ratio = base.map_or_else(|| "1".to_owned(), |base| format!("{:.1}", rate / base));
    println!("| {what} | {rate:.0} | {ratio} |");
    Ok(rate)
}

fn main() -> Result<()> {
    let rows = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let few = (rows / 20).max(1);
    for (name, url) in
        [("MariaDB", servers::mariadb_url()), ("PostgreSQL", servers::postgres_url())]
    {
        let builder = Store::builder(Odbc::from_url(&url)?);
        let store = builder.model::<Reading>().model::<Entry>().open()?;
        println!("\n| {name} over ODBC, {rows} rows | rows/s | ratio |\n|---|---|---|");
        let single = measure("row by row", few, None, || {
            readings(0, few).iter().try_for_each(|row| store.insert(row).run().map(drop))
        })?;
        measure("row by row in one transaction", few, Some(single), || {
            store.transaction(|transaction| {
                let rows = readings(few, few);
                rows.iter().try_for_each(|row| transaction.insert(row).run().map(drop))
            })
        })?;
        measure("batches of 1,000, given keys", rows, Some(single), || {
            let all = readings(2 * few, rows);
            all.chunks(1_000).try_for_each(|chunk| store.insert_many(chunk).run().map(drop))
        })?;
        measure("batches of 1,000, automatic keys", rows, Some(single), || {
            let all = entries(rows);
            all.chunks(1_000).try_for_each(|chunk| store.insert_many(chunk).run().map(drop))
        })?;
        let counted = store.count::<Reading>().run()? + store.count::<Entry>().run()?;
        assert_eq!(counted as usize, 2 * few + 2 * rows, "rows are missing");
        store.close()?;
    }
    Ok(())
}
