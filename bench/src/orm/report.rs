//! The tables, as text that is also Markdown.

use super::aims;
use super::measurement::{Measurement, Measurements};
use super::roster::{ContenderSpec, Role, workspace};
use anyhow::{Context, Result};
use bench_orm_workload::{Figure, Setting};
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The whole report.
pub(crate) fn text(
    measurements: &Measurements,
    built: &[(ContenderSpec, PathBuf)],
    rounds: u32,
    busy: bool,
    folder: &Path,
) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut text = format!(
        "Rows a second and, in brackets, the ratio to the floor of the same run; medians of \
         {rounds} rounds, {cores} cores, files in {}, {}.\n",
        folder.parent().unwrap_or(folder).display(),
        jiff::Zoned::now().strftime("%Y-%m-%d %H:%M"),
    );
    if busy {
        text.push_str(
            "The machine was in use: time in which other programs had the core is left out, which \
             a contender with threads of its own (sqlx, sea-orm) profits from only in part.\n",
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
    let verdict = aims::verdict(measurements);
    if !verdict.is_empty() {
        text.push('\n');
        text.push_str(&verdict);
    }
    text
}

/// Keeps the report with its date.
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

/// What a reader needs to trust the table: how batches were cut, and how quiet the machine was.
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
        let _ = write!(text, "Rows a statement in batches: {}. ", ways.join(", "));
    }
    let _ = writeln!(
        text,
        "Stolen by the host: {stolen} ms; the most any figure waited for a core: {:.1} %.",
        waited * 100.0
    );
    text
}

/// Three digits are what a noisy machine is good for.
pub(crate) fn rate(per_s: f64) -> String {
    let (number, unit) = match per_s {
        1e6.. => (per_s / 1e6, " M"),
        1e3.. => (per_s / 1e3, " k"),
        _ => (per_s, ""),
    };
    match number {
        100.0.. => format!("{number:.0}{unit}"),
        10.0.. => format!("{number:.1}{unit}"),
        _ => format!("{number:.2}{unit}"),
    }
}

fn thousands(rows: u32) -> String {
    let digits = rows.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_readable() {
        let rates = [4_912_345.0, 83_412.0, 512_000.0, 999.0, 12.34].map(rate);
        assert_eq!(rates, ["4.91 M", "83.4 k", "512 k", "999", "12.3"]);
        assert_eq!(
            [5, 5_000, 200_000, 1_000_000].map(thousands),
            ["5", "5,000", "200,000", "1,000,000"]
        );
    }
}
