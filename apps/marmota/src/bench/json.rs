//! A list of 10,000 rows from SQLite to JSON: rows that are written as they are read, compared with
//! structs that serde_json serialises.

use std::path::Path;
use std::time::{Duration, Instant};

use marmota::model::json::JsonRows;
use marmota::prelude::*;
use marmota::store::operation::Operation;
use serde::Serialize;

use super::record::{Person, people};

const ROWS: usize = 10_000;
const REPEATS: usize = 15;

/// The time of one list for each method.
#[derive(Clone, Debug, Serialize)]
pub(super) struct JsonList {
    pub(super) rows: usize,
    pub(super) bytes: usize,
    pub(super) direct_micros: f64,
    /// Rows read into structs, which serde_json serialises.
    pub(super) structs_micros: f64,
}

/// Measures both in turns; the best of several repeats.
///
/// # Errors
/// Those of the store; [`ErrorKind::Bug`] if the two results differ.
pub(super) fn list_of_rows(folder: &Path) -> Result<JsonList> {
    let url = format!("sqlite:{}", folder.join("json.db").display());
    let store = marmota::open(&url)?.model::<Person>().open()?;
    store.insert_many(&people(ROWS)).run()?;
    let (mut own, mut serde) = (Vec::new(), Vec::new());
    let (mut direct_micros, mut structs_micros) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..REPEATS {
        let started = Instant::now();
        direct(&store, &mut own)?;
        direct_micros = direct_micros.min(micros(started.elapsed()));
        let started = Instant::now();
        serde.clear();
        let people = store.list::<Person>().run()?;
        let written = serde_json::to_writer(&mut serde, &people);
        written.map_err(|error| Error::new(ErrorKind::Bug, error.to_string()))?;
        structs_micros = structs_micros.min(micros(started.elapsed()));
    }
    let same = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok();
    if same(&own).is_none() || same(&own) != same(&serde) {
        return Err(Error::new(ErrorKind::Bug, "the list is not the JSON of its rows"));
    }
    store.close()?;
    Ok(JsonList { rows: ROWS, bytes: own.len(), direct_micros, structs_micros })
}

fn direct(store: &Store, out: &mut Vec<u8>) -> Result<()> {
    let table = store.table("person")?;
    out.clear();
    out.push(b'[');
    let mut rows = JsonRows::new(out, &table, table.all());
    store.run(&mut Operation::List { table: &table, query: &RowQuery::new() }, &mut rows)?;
    out.push(b']');
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
