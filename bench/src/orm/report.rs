//! The tables as Markdown.

use super::measurement::{Measurement, Measurements};
use super::number::{rate, thousands};
use super::roster::{ContenderSpec, Role, workspace};
use super::targets;
use anyhow::{Context, Result};
use bench_orm_workload::{Figure, Setting};
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Returns the whole report.
pub(crate) fn text(
    measurements: &Measurements,
    built: &[(ContenderSpec, PathBuf)],
    rounds: u32,
    busy: bool,
    folder: &Path,
) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut text = format!(
        "Rows per second and, in parentheses, the ratio to the floor of the same run; medians of \
         {rounds} rounds, {cores} cores, files in {}, {}.\n",
        folder.parent().unwrap_or(folder).display(),
        jiff::Zoned::now().strftime("%Y-%m-%d %H:%M"),
    );
    if busy {
        text.push_str(
            "The machine was in use: time in which other programs had the core is subtracted. For \
             contenders with several threads (sqlx, sea-orm), it is subtracted only in part.\n",
        );
    }
    for (setting, rows) in measurements.tables() {
        let _ = write!(text, "\n## {}, {} rows\n\n", setting.title(), thousands(rows));
        text.push_str(&table(measurements, built, (setting, rows)));
        text.push_str(&footnote(measurements, built, (setting, rows)));
    }
    for failure in measurements.failures() {
        let _ = write!(text, "\nFailed: {failure}\n");
    }
    let verdict = targets::verdict(measurements);
    if !verdict.is_empty() {
        text.push('\n');
        text.push_str(&verdict);
    }
    text
}

/// Saves the report under today's date.
pub(crate) fn save(text: &str) -> Result<PathBuf> {
    let folder = workspace().join("bench/results");
    std::fs::create_dir_all(&folder).context("making bench/results")?;
    let path = folder.join(format!("{}-orm.md", jiff::Zoned::now().strftime("%Y-%m-%d")));
    std::fs::write(&path, format!("# Stores: `bench orm`\n\n{text}"))
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

fn table(
    measurements: &Measurements,
    built: &[(ContenderSpec, PathBuf)],
    at: (Setting, u32),
) -> String {
    let here = || built.iter().map(|(spec, _)| spec).filter(|spec| spec.settings.contains(&at.0));
    let floor = here().find(|spec| spec.role == Role::Floor).map(|spec| spec.name);
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(std::iter::once("").chain(Figure::ALL.map(Figure::name)));
    for spec in here() {
        let cells = Figure::ALL.map(|figure| {
            let Some(rows_per_s) = measurements.rate(at, spec.name, figure) else {
                return String::new();
            };
            let ratio = floor.and_then(|floor| measurements.ratio(at, spec.name, floor, figure));
            match ratio {
                Some(ratio) => format!("{} ({ratio:.2})", rate(rows_per_s)),
                None => rate(rows_per_s),
            }
        });
        table.add_row(std::iter::once(spec.name.to_owned()).chain(cells));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n\n")
}

/// The statement sizes of the batches, and how much the machine was disturbed.
fn footnote(
    measurements: &Measurements,
    built: &[(ContenderSpec, PathBuf)],
    (setting, rows): (Setting, u32),
) -> String {
    let mut ways = Vec::new();
    for (spec, _) in built {
        let of_spec = measurements.of(setting, rows).filter(|one| {
            one.contender == spec.name && one.figure == Figure::InsertBatchTransaction
        });
        let mut found: Vec<_> = of_spec.map(|one| one.statement_rows).collect();
        found.sort_unstable();
        found.dedup();
        if !found.is_empty() && setting != Setting::Engine {
            let found: Vec<_> = found.iter().map(u64::to_string).collect();
            ways.push(format!("{} {}", spec.name, found.join(" or ")));
        }
    }
    let all = || measurements.of(setting, rows);
    let waited = all().map(|one| one.waited).fold(0.0, f64::max);
    let stolen: u64 = all().map(|one: &Measurement| one.stolen_ms).sum();
    let mut text = String::new();
    if !ways.is_empty() {
        let _ = write!(text, "Rows per statement in batches: {}. ", ways.join(", "));
    }
    let _ = writeln!(
        text,
        "Stolen by the host: {stolen} ms; longest wait of a figure for a core: {:.1} %.",
        waited * 100.0
    );
    text
}
