//! How cost grows with a size: the rows of a table, the rows of a batch, tables, tenants, threads,
//! connections, bodies. Each operation is measured at sizes that grow tenfold, with the growth that is
//! expected of it, and the size from which it grows faster.

mod batches;
mod bodies;
mod connections;
mod growth;
mod plot;
mod point;
mod rows;
mod tables;
mod tenants;
mod threads;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;
use comfy_table::{Table as TextTable, presets};

use growth::bend;
use point::{Curve, Point};

/// Options of `bench scale`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What grows
    #[arg(long, value_enum, default_value_t = By::Rows)]
    by: By,
    /// The largest size. Default: the last of the suite's sizes
    #[arg(long)]
    max: Option<u64>,
    /// Measure only engines that begin with this name, such as sqlite
    #[arg(long, default_value = "")]
    engine: String,
    /// A folder for a plot of each engine, as SVG
    #[arg(long)]
    plots: Option<PathBuf>,
    /// Measures only this size, and prints the points as JSON. Each size has a process of its own, so
    /// that the memory of one is not that of another.
    #[arg(long, hide = true)]
    size: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    /// Rows of a table
    Rows,
    /// Rows of one call of `insert_many`
    Batches,
    /// Tables of a store
    Tables,
    /// Tenants with a database each
    Tenants,
    /// Threads that use one store
    Threads,
    /// Connections to a server
    Connections,
    /// Bytes of a body
    Bodies,
}

/// A size that grows, and what is measured at each.
struct Dimension {
    /// The unit of the sizes, in the plural.
    unit: &'static str,
    /// The smallest size, the factor between sizes, and the largest size.
    sizes: (u64, u64, u64),
    /// What is measured: engines of stores, or one name.
    engines: &'static [&'static str],
    /// Measures a size on an engine: the same points at each size, in the same order.
    measure: fn(&str, u64) -> Result<Vec<Point>>,
}

impl By {
    const fn dimension(self) -> &'static Dimension {
        match self {
            Self::Rows => &rows::DIMENSION,
            Self::Batches => &batches::DIMENSION,
            Self::Tables => &tables::DIMENSION,
            Self::Tenants => &tenants::DIMENSION,
            Self::Threads => &threads::DIMENSION,
            Self::Connections => &connections::DIMENSION,
            Self::Bodies => &bodies::DIMENSION,
        }
    }

    /// Returns the value of `--by`.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Measures a size in a process of its own.
    fn measured(self, engine: &str, size: u64) -> Result<Vec<Point>> {
        let program = std::env::current_exe()?;
        let size = size.to_string();
        let output = Command::new(program)
            .args(["scale", "--by", &self.name(), "--engine", engine, "--size", &size])
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "the process that measures has failed: {}", output.status);
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let dimension = args.by.dimension();
    if let Some(size) = args.size {
        let points = (dimension.measure)(&args.engine, size)?;
        println!("{}", serde_json::to_string(&points)?);
        return Ok(());
    }
    let (min, factor, max) = dimension.sizes;
    let max = args.max.unwrap_or(max);
    if max < min {
        bail!("--max is {max}: it must be at least {min}");
    }
    let sizes = sizes(min, factor, max);
    let names = dimension.engines;
    let engines = || names.iter().filter(|engine| engine.starts_with(&args.engine));
    if engines().next().is_none() {
        bail!("--engine is {}: it must be the beginning of one of {names:?}", args.engine);
    }
    if let Some(folder) = &args.plots {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    for engine in engines() {
        let mut curves = Vec::new();
        for &size in &sizes {
            eprintln!("{engine}: {size} {}", dimension.unit);
            let points = args.by.measured(engine, size);
            let place = || format!("{engine}, {size} {}", dimension.unit);
            point::add(&mut curves, points.with_context(place)?);
        }
        curves.retain(Curve::is_measured);
        println!("## {engine}\n\n{}\n", table_of(&curves, &sizes, dimension.unit));
        if let Some(folder) = &args.plots {
            let file = folder.join(format!("{}-{engine}.svg", args.by.name()));
            plot::draw(&file, engine, dimension.unit, &sizes, &curves)?;
        }
    }
    Ok(())
}

/// Returns the sizes from the smallest to the largest, which is always one of them.
fn sizes(min: u64, factor: u64, max: u64) -> Vec<u64> {
    let mut sizes: Vec<u64> = std::iter::successors(Some(min), |size| size.checked_mul(factor))
        .take_while(|&size| size <= max)
        .collect();
    if sizes.last() != Some(&max) {
        sizes.push(max);
    }
    sizes
}

fn table_of(curves: &[Curve], sizes: &[u64], unit: &str) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let header = ["operation".to_owned()]
        .into_iter()
        .chain(sizes.iter().map(|size| format!("{size} {unit}")))
        .chain(["expected".to_owned(), "grows faster from".to_owned()]);
    table.set_header(header);
    for curve in curves {
        let text = |amount: &Option<point::Amount>| amount.map_or("–".to_owned(), |it| it.text());
        let bend = bend(curve.growth, sizes, &curve.numbers());
        let cells =
            [curve.name.to_string()].into_iter().chain(curve.amounts.iter().map(text)).chain([
                curve.growth.name().to_owned(),
                bend.map_or("–".to_owned(), |size| size.to_string()),
            ]);
        table.add_row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_size_is_measured() {
        assert_eq!(sizes(10, 10, 1_000), [10, 100, 1_000]);
        assert_eq!(sizes(10, 10, 16_384), [10, 100, 1_000, 10_000, 16_384]);
    }
}
