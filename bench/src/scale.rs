//! How cost grows with the number of rows: each operation on tables of 10,000 rows and more, with the
//! growth that is expected of it, and the size at which it grows faster.

mod growth;
mod measures;
mod plot;
mod subject;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use comfy_table::{Table as TextTable, presets};

use growth::bend;
use measures::MEASURES;
use plot::Curve;
use subject::{ENGINES, Subject};

/// The smallest table.
const ROWS_MIN: u64 = 10_000;

/// Options of `bench scale`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rows of the largest table. The tables have 10,000 rows, and ten times as many each.
    #[arg(long, default_value_t = 1_000_000)]
    rows_max: u64,
    /// Measure only engines that begin with this name: sqlite, memory, postgres.
    #[arg(long, default_value = "")]
    engine: String,
    /// A folder for a plot of each engine, as SVG.
    #[arg(long)]
    plots: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.rows_max < ROWS_MIN {
        bail!("--rows-max is {}: it must be at least {ROWS_MIN}", args.rows_max);
    }
    let sizes: Vec<u64> = std::iter::successors(Some(ROWS_MIN), |rows| rows.checked_mul(10))
        .take_while(|&rows| rows <= args.rows_max)
        .collect();
    let engines = || ENGINES.into_iter().filter(|engine| engine.starts_with(&args.engine));
    if engines().next().is_none() {
        bail!("--engine is {}: it must be the beginning of one of {ENGINES:?}", args.engine);
    }
    if let Some(folder) = &args.plots {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    for engine in engines() {
        let curves = measured(engine, &sizes)?;
        println!("## {engine}\n\n{}\n", table_of(&curves, &sizes));
        if let Some(folder) = &args.plots {
            plot::draw(&folder.join(format!("{engine}.svg")), engine, &sizes, &curves)?;
        }
    }
    Ok(())
}

/// Measures each operation of an engine on tables of all sizes.
fn measured(engine: &str, sizes: &[u64]) -> Result<Vec<Curve>> {
    let mut curves: Vec<Curve> = MEASURES
        .iter()
        .map(|measure| Curve {
            name: measure.name,
            growth: measure.growth(engine),
            times: Vec::new(),
        })
        .collect();
    for &rows in sizes {
        eprintln!("{engine}: {rows} rows");
        let mut subject = Subject::with_rows(engine, rows)?;
        for (measure, curve) in MEASURES.iter().zip(&mut curves) {
            let time = (measure.run)(&mut subject)
                .with_context(|| format!("{engine}, {rows} rows, {}", measure.name))?;
            curve.times.push(time);
        }
    }
    curves.retain(|curve| curve.times.iter().any(Option::is_some));
    Ok(curves)
}

fn table_of(curves: &[Curve], sizes: &[u64]) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let header = ["operation".to_owned()]
        .into_iter()
        .chain(sizes.iter().map(|rows| format!("{rows} rows")))
        .chain(["expected".to_owned(), "grows faster from".to_owned()]);
    table.set_header(header);
    for curve in curves {
        let cells = [curve.name.to_owned()]
            .into_iter()
            .chain(curve.times.iter().map(|time| time.map_or("–".to_owned(), text)))
            .chain([
                curve.growth.name().to_owned(),
                bend(curve.growth, sizes, &curve.times)
                    .map_or("–".to_owned(), |rows| rows.to_string()),
            ]);
        table.add_row(cells);
    }
    table
}

/// Formats a time with three digits.
fn text(time: Duration) -> String {
    let (number, unit) = match time.as_secs_f64() {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    match number {
        100.0.. => format!("{number:.0} {unit}"),
        10.0.. => format!("{number:.1} {unit}"),
        _ => format!("{number:.2} {unit}"),
    }
}
