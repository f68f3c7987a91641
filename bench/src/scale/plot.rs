//! The curves of an engine as a plot with two logarithmic axes.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::growth::Growth;

/// The times of an operation by the number of rows; `None` where it could not be measured.
pub(crate) struct Curve {
    pub(crate) name: &'static str,
    pub(crate) growth: Growth,
    pub(crate) times: Vec<Option<Duration>>,
}

/// Draws the curves to a file, in microseconds.
pub(crate) fn draw(file: &Path, engine: &str, sizes: &[u64], curves: &[Curve]) -> Result<()> {
    let area = SVGBackend::new(file, (960, 540)).into_drawing_area();
    let failed = |error: &dyn std::fmt::Display| anyhow!("{}: {error}", file.display());
    area.fill(&WHITE).map_err(|error| failed(&error))?;
    let rows = sizes[0] as f64..sizes[sizes.len() - 1] as f64 * 1.01;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{engine}: time by the number of rows"), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(rows.log_scale(), range_of(curves).log_scale())
        .map_err(|error| failed(&error))?;
    chart.configure_mesh().x_desc("rows").y_desc("µs").draw().map_err(|error| failed(&error))?;
    for (number, curve) in curves.iter().enumerate() {
        let color = Palette99::pick(number).to_rgba();
        let points = sizes
            .iter()
            .zip(&curve.times)
            .filter_map(|(&rows, time)| time.map(|time| (rows as f64, micros(time))));
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))
            .map_err(|error| failed(&error))?
            .label(curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.4))
        .position(SeriesLabelPosition::UpperLeft)
        .draw()
        .map_err(|error| failed(&error))?;
    area.present().map_err(|error| failed(&error))
}

fn range_of(curves: &[Curve]) -> Range<f64> {
    let times =
        || curves.iter().flat_map(|curve| curve.times.iter().flatten().copied().map(micros));
    let least = times().fold(f64::INFINITY, f64::min).max(0.1);
    least / 2.0..times().fold(least, f64::max) * 2.0
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
