//! The report of the measurements, as text and as JSON.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::durable::{DurableRow, ThreadsRow};
use super::engine::{FIGURES, MORMOT_SOURCE};
use super::json::JsonList;
use super::measure::{EngineRow, Figure, MissingEngine};

/// The results of all measurements, with the versions and the machine.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: &'static str,
    sqlite: &'static str,
    cores: usize,
    folder: String,
    rows: u32,
    rounds: u32,
    figures: [&'static str; 7],
    mormot_source: &'static str,
    pub(super) engines: Vec<EngineRow>,
    /// Engines that were to be measured and are not available.
    pub(super) missing: Vec<MissingEngine>,
    pub(super) durable: Vec<DurableRow>,
    pub(super) threads: Vec<ThreadsRow>,
    pub(super) json: Option<JsonList>,
}

impl Report {
    pub(super) fn new(rows: u32, rounds: u32, folder: &Path) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            sqlite: marmota::sqlite::Sqlite::sqlite_version(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            folder: folder.display().to_string(),
            rows,
            rounds,
            figures: FIGURES,
            mormot_source: MORMOT_SOURCE,
            engines: Vec::new(),
            missing: Vec::new(),
            durable: Vec::new(),
            threads: Vec::new(),
            json: None,
        }
    }

    fn write_engines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nRows per second, {} rows", self.rows)?;
        let titles = self.engines.iter().map(|row| &row.title);
        let titles = titles.chain(self.missing.iter().map(|missing| &missing.title));
        let width = titles.map(|title| title.chars().count() + 1).max().unwrap_or(0).max(30);
        write!(f, "{:<width$}", "")?;
        for figure in FIGURES {
            write!(f, "{figure:>13}")?;
        }
        for row in &self.engines {
            write!(f, "\n{:<width$}", row.title)?;
            for figure in &row.marmota {
                write!(f, "{:>13}", short(figure.rows_per_second))?;
            }
            let write_line = |f: &mut fmt::Formatter<'_>, name: &str, cells: Vec<String>| {
                write!(f, "\n  {name:<0$}", width - 2)?;
                cells.into_iter().try_for_each(|cell| write!(f, "{cell:>13}"))
            };
            let all_syncs = |row: &[Figure]| row[..4].iter().copied().map(syncs).collect();
            // Those of servers are not counted.
            if row.by_hand.is_some() || row.marmota.iter().any(|figure| figure.syncs > 0) {
                write_line(f, "fsyncs", all_syncs(&row.marmota))?;
            }
            if let Some(by_hand) = &row.by_hand {
                let ratios = row.marmota.iter().zip(by_hand);
                let ratio = |(own, hand): (&Figure, &Figure)| {
                    format!("{:.2}", own.rows_per_second / hand.rows_per_second)
                };
                write_line(f, "÷ by hand", ratios.map(ratio).collect())?;
                write_line(f, "fsyncs by hand", all_syncs(by_hand))?;
            }
            let plain = |name| self.engines.iter().find(|other| other.engine == name);
            if let Some(plain) = row.plain.and_then(plain) {
                let ratios = row.marmota.iter().zip(&plain.marmota);
                let ratio = |(own, its): (&Figure, &Figure)| {
                    format!("{:.2}", own.rows_per_second / its.rows_per_second)
                };
                write_line(f, "÷ not encrypted", ratios.map(ratio).collect())?;
            }
            if let Some(mormot) = &row.mormot {
                let ratios = row.marmota.iter().zip(mormot);
                let ratio =
                    |(own, its): (&Figure, &f64)| format!("{:.1}", own.rows_per_second / its);
                write_line(f, "÷ mORMot 2 *", ratios.map(ratio).collect())?;
            }
        }
        for missing in &self.missing {
            write!(f, "\n{:<width$} not measured: {}", missing.title, missing.reason)?;
        }
        writeln!(
            f,
            "\n* {MORMOT_SOURCE}.\n\
             By hand: the same statements on the same build of SQLite, without models.\n\
             Servers are on this machine; those that were started do not wait for the disk."
        )
    }

    fn write_durable(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<30}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
            "Durable inserts, SQLite file",
            "rows/s",
            "÷ by hand",
            "÷ no sync",
            "fsyncs/row",
            "p50 µs",
            "p99 µs",
            "p99 ÷ row"
        )?;
        for row in &self.durable {
            writeln!(
                f,
                "{:<30}{:>12}{:>12.2}{:>12.2}{:>12.4}{:>12.0}{:>12.0}{:>12.1}",
                row.clients,
                short(row.rows_per_second),
                row.times_by_hand,
                row.share_of_none,
                row.syncs_per_row,
                row.p50_micros,
                row.p99_micros,
                row.p99_by_hand
            )?;
        }
        writeln!(
            f,
            "By hand: one durable row after another. `p99 ÷ row`: p99 in units of such a row's time."
        )
    }

    fn write_threads(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<30}{:>12}{:>12}{:>12}",
            "Threads, SQLite file, full", "inserts/s", "reads/s", "fsyncs/row"
        )?;
        for row in &self.threads {
            let (inserts, reads) = (short(row.inserts_per_second), short(row.reads_per_second));
            writeln!(f, "{:<30}{inserts:>12}{reads:>12}{:>12.4}", row.threads, row.syncs_per_row)?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Marmota {}, SQLite {}, {} cores, files in {}, medians of {} rounds",
            self.version, self.sqlite, self.cores, self.folder, self.rounds
        )?;
        if !self.engines.is_empty() || !self.missing.is_empty() {
            self.write_engines(f)?;
        }
        if !self.durable.is_empty() {
            self.write_durable(f)?;
        }
        if !self.threads.is_empty() {
            self.write_threads(f)?;
        }
        if let Some(list) = &self.json {
            writeln!(
                f,
                "\nA list of {} rows from SQLite to JSON ({} bytes): {:.0} µs; through structs and \
                 serde_json: {:.0} µs ({:.2} times as long)",
                list.rows,
                list.bytes,
                list.direct_micros,
                list.structs_micros,
                list.structs_micros / list.direct_micros
            )?;
        }
        Ok(())
    }
}

/// Formats a number with about three digits.
fn short(number: f64) -> String {
    match number {
        number if number >= 1e6 => format!("{:.2} M", number / 1e6),
        number if number >= 1e5 => format!("{:.0} k", number / 1e3),
        number if number >= 1e3 => format!("{:.1} k", number / 1e3),
        number => format!("{number:.0}"),
    }
}

/// Formats the number of disk syncs, in relation to the rows.
fn syncs(figure: Figure) -> String {
    match figure.syncs {
        0 => "0".to_owned(),
        syncs => format!("{syncs}/{}", short(figure.rows as f64)),
    }
}
