//! mORMot's benchmark of engines, compared with `marmota bench orm`.

use super::build;
use anyhow::{Context, Result, bail, ensure};
use comfy_table::{Table, presets};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const ROUNDS: usize = 3;
/// The rows of mORMot's benchmark.
const ROWS: &str = "10000";

/// The engines of mORMot's tables, and the same ones of `marmota bench orm`.
const ENGINES: [(&str, &str); 6] = [
    ("Sqlite file full", "sqlite-full"),
    ("Sqlite file off", "sqlite-off"),
    ("Sqlite file off exc", "sqlite-off-exclusive"),
    ("Sqlite in memory", "sqlite-memory"),
    ("In memory static", "memory"),
    ("In memory virtual", "memory-sql"),
];

/// The columns of mORMot's two tables, which are those of `marmota bench orm`.
const COLUMNS: [&str; 7] =
    ["one", "batch", "transaction", "batch in tr.", "by id", "list", "list direct"];

/// Rows per second of each engine and column.
type Rates = [[f64; 7]; 6];

/// Builds both, runs them in turn, and prints the table of the medians.
pub(super) fn run(checkout: &Path) -> Result<()> {
    let theirs = build::mormot(checkout, &build::ENGINES)?;
    let ours = build::marmota()?;
    let mut rounds = Vec::new();
    for round in 1..=ROUNDS {
        eprintln!("  round {round} of {ROUNDS}");
        rounds.push((run_mormot(&theirs)?, run_marmota(&ours)?));
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["rows per second", ""].into_iter().chain(COLUMNS));
    let median = |of: &dyn Fn(&(Rates, Rates)) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[ROUNDS / 2]
    };
    for (at, (title, _)) in ENGINES.iter().enumerate() {
        let mut line = |name: &str, label: &str, of: &dyn Fn(usize) -> String| {
            let cells = (0..COLUMNS.len()).map(of);
            table.add_row([name.to_owned(), label.to_owned()].into_iter().chain(cells));
        };
        line(title, "mORMot 2", &|column| format!("{:.0}", median(&|round| round.0[at][column])));
        line("", "marmota", &|column| format!("{:.0}", median(&|round| round.1[at][column])));
        let ratio = |column: usize| median(&|round| round.1[at][column] / round.0[at][column]);
        line("", "ratio", &|column| format!("{:.2}", ratio(column)));
    }
    println!("{ROWS} rows, medians of {ROUNDS} rounds\n{table}");
    Ok(())
}

/// Runs mORMot's program, which writes its tables into a file next to it.
fn run_mormot(program: &Path) -> Result<Rates> {
    let folder = program.parent().context("the program has no folder")?;
    let report = program.with_extension("txt");
    if report.exists() {
        fs::remove_file(&report)?;
    }
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Its exit code is not 0 after a success, either.
    command.status().with_context(|| program.display().to_string())?;
    let text = fs::read_to_string(&report).with_context(|| report.display().to_string())?;
    rates_of_mormot(&text)
}

/// Reads mORMot's tables: one of inserts with four columns, one of reads with three.
fn rates_of_mormot(text: &str) -> Result<Rates> {
    let mut rates = Rates::default();
    for ((title, _), rates) in ENGINES.iter().zip(&mut rates) {
        let numbers = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(title)?;
            rest.split_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<f64>>>()
        });
        let numbers: Vec<f64> = numbers.flatten().collect();
        match <[f64; 7]>::try_from(numbers) {
            Ok(numbers) => *rates = numbers,
            Err(numbers) => bail!("{title}: {} figures in mORMot's report, not 7", numbers.len()),
        }
    }
    Ok(rates)
}

fn run_marmota(program: &Path) -> Result<Rates> {
    let names = ENGINES.map(|(_, name)| name).join(",");
    let output = Command::new(program)
        .args(["bench", "orm", "--part", "engines", "--rounds", "1", "--json", "--rows", ROWS])
        .args(["--engine", &names])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| program.display().to_string())?;
    ensure!(output.status.success(), "{} ended with {}", program.display(), output.status);
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let mut rates = Rates::default();
    for ((_, name), rates) in ENGINES.iter().zip(&mut rates) {
        let rows = report["engines"].as_array().context("no engines in the report")?;
        let row = rows.iter().find(|row| row["engine"] == *name);
        let figures = row.and_then(|row| row["marmota"].as_array());
        let figures = figures.with_context(|| format!("{name} is not in the report"))?;
        for (rate, figure) in rates.iter_mut().zip(figures) {
            *rate = figure["rows_per_second"].as_f64().unwrap_or(f64::NAN);
        }
    }
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_mormot_are_read() {
        let text = ENGINES.map(|(title, _)| format!("{title:<30}1 2 3 4")).join("\n")
            + "\nRead speed\n"
            + &ENGINES.map(|(title, _)| format!("{title:<30}5 6 7")).join("\n")
            + "\nSqlite file off exc aes       9 9 9 9\n";
        assert_eq!(rates_of_mormot(&text).unwrap(), [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]; 6]);
        assert!(rates_of_mormot("Sqlite file full 1 2 3 4").is_err());
    }
}
