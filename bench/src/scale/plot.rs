//! The curves of an engine as a plot with two logarithmic axes.

use std::ops::Range;
use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::point::Curve;

/// Draws the curves to a file: times in microseconds, memory in bytes.
pub(crate) fn draw(
    file: &Path,
    engine: &str,
    unit: &str,
    sizes: &[u64],
    curves: &[Curve],
) -> Result<()> {
    let area = SVGBackend::new(file, (960, 540)).into_drawing_area();
    let failed = |error: &dyn std::fmt::Display| anyhow!("{}: {error}", file.display());
    area.fill(&WHITE).map_err(|error| failed(&error))?;
    let range = sizes[0] as f64..sizes[sizes.len() - 1] as f64 * 1.01;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{engine}: cost by the number of {unit}"), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(range.log_scale(), range_of(curves).log_scale())
        .map_err(|error| failed(&error))?;
    chart
        .configure_mesh()
        .x_desc(unit)
        .y_desc("µs, or bytes")
        .draw()
        .map_err(|error| failed(&error))?;
    for (number, curve) in curves.iter().enumerate() {
        let color = Palette99::pick(number).to_rgba();
        let numbers = curve.numbers();
        let points = sizes.iter().zip(&numbers);
        let points = points.filter_map(|(&size, number)| number.map(|it| (size as f64, it)));
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))
            .map_err(|error| failed(&error))?
            .label(curve.name.as_ref())
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
    let numbers = || curves.iter().flat_map(Curve::numbers).flatten();
    let least = numbers().fold(f64::INFINITY, f64::min).max(0.1);
    least / 2.0..numbers().fold(least, f64::max) * 2.0
}
