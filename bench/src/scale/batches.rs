//! The rows of one call.

use anyhow::{Result, ensure};

use super::Dimension;
use super::growth::Growth;
use super::point::{Point, repeated};
use super::rows::subject::{ENGINES, Item, Subject, item};

pub(super) const DIMENSION: Dimension =
    Dimension { unit: "rows", sizes: (1, 10, 100_000), engines: &ENGINES, measure };

/// The rows of the table before the first call.
const ROWS: u64 = 10_000;
/// The rows that all calls of a size write together, about.
const ROWS_WRITTEN: u64 = 300_000;

fn measure(engine: &str, rows: u64) -> Result<Vec<Point>> {
    let subject = Subject::with_rows(engine, ROWS)?;
    let store = subject.store()?;
    let turns = (ROWS_WRITTEN / rows).clamp(3, 300);
    let insert = repeated(turns, |turn| {
        let first = ROWS + rows * turn;
        let items: Vec<Item> = (first..first + rows).map(item).collect();
        Ok(store.insert_many(&items).run().map(drop)?)
    })?;
    let list = repeated(turns, |_| {
        ensure!(store.list::<Item>().limit(rows).run()?.len() as u64 == rows);
        Ok(())
    })?;
    Ok(vec![
        Point::time("insert the rows in one call", Growth::Linear, insert),
        Point::time("list as many rows", Growth::Linear, list),
    ])
}
