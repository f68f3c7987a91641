//! The rows of a table.

mod measures;
pub(super) mod subject;

use anyhow::{Context as _, Result};

use super::Dimension;
use super::point::Point;
use measures::MEASURES;
use subject::{ENGINES, Subject};

pub(super) const DIMENSION: Dimension =
    Dimension { unit: "rows", sizes: (10_000, 10, 1_000_000), engines: &ENGINES, measure };

fn measure(engine: &str, rows: u64) -> Result<Vec<Point>> {
    let mut subject = Subject::with_rows(engine, rows)?;
    let points = MEASURES.iter().map(|measure| {
        let growth = measure.growth(engine);
        if measure.of_files && !subject.has_backups() {
            return Ok(Point::none(measure.name, growth));
        }
        let time = (measure.run)(&mut subject).with_context(|| measure.name)?;
        Ok(Point::time(measure.name, growth, time))
    });
    points.collect()
}
