//! The performance targets of Marmota's stores, as data, and a check of a run against them.

use super::measurement::Measurements;
use super::number::rate;
use bench_orm_workload::{Figure, Setting};

const OURS: &str = "marmota";

/// A target: a ratio to another contender, or a rate.
struct Target {
    settings: &'static [Setting],
    figures: &'static [Figure],
    /// The contender to compare with; without one, `at_least` is in rows per second.
    than: Option<&'static str>,
    at_least: f64,
}

const SQLITE: &[Setting] = &[Setting::FileFull, Setting::FileOff, Setting::Memory];

const TARGETS: [Target; 10] = [
    Target {
        settings: SQLITE,
        figures: &[Figure::InsertBatch, Figure::InsertBatchTransaction, Figure::ListObjects],
        than: Some("floor"),
        at_least: 0.9,
    },
    Target { settings: SQLITE, figures: &[Figure::ReadById], than: Some("floor"), at_least: 0.8 },
    Target { settings: SQLITE, figures: &Figure::ALL, than: Some("rusqlite"), at_least: 1.0 },
    // Only in memory: elsewhere the fsync per row, or SQLite itself, limits every contender.
    Target {
        settings: &[Setting::Memory],
        figures: &[Figure::InsertBatch, Figure::InsertTransaction, Figure::InsertBatchTransaction],
        than: Some("diesel"),
        at_least: 3.0,
    },
    Target {
        settings: &[Setting::Memory],
        figures: &[Figure::ReadById],
        than: Some("diesel first()"),
        at_least: 6.0,
    },
    // Twice the rate of mORMot 2 on comparable hardware.
    Target {
        settings: &[Setting::Postgres],
        figures: &[Figure::InsertBatch],
        than: None,
        at_least: 450e3,
    },
    Target {
        settings: &[Setting::Postgres],
        figures: &[Figure::InsertBatch],
        than: Some("tokio-postgres COPY"),
        at_least: 0.8,
    },
    Target {
        settings: &[Setting::Mariadb],
        figures: &Figure::ALL,
        than: Some("mysql_async"),
        at_least: 1.0,
    },
    Target {
        settings: &[Setting::Mariadb],
        figures: &[Figure::InsertBatch],
        than: Some("LOAD DATA LOCAL"),
        at_least: 0.85,
    },
    Target {
        settings: &[Setting::Engine],
        figures: &[Figure::InsertBatch, Figure::ReadById],
        than: None,
        at_least: 5e6,
    },
];

/// Returns the number of targets that were met, and a line for each that was missed. Without
/// figures of Marmota, the text is empty.
pub(crate) fn verdict(measurements: &Measurements) -> String {
    let (mut met, mut missed) = (0, Vec::new());
    for table in measurements.tables() {
        for target in TARGETS.iter().filter(|target| target.settings.contains(&table.0)) {
            for &figure in target.figures {
                let reached = match target.than {
                    Some(other) => measurements.ratio(table, OURS, other, figure),
                    None => measurements.rate(table, OURS, figure),
                };
                match reached {
                    None => {}
                    Some(reached) if reached >= target.at_least => met += 1,
                    Some(reached) => missed.push(target.line(table, figure, reached)),
                }
            }
        }
    }
    if met + missed.len() == 0 {
        return String::new();
    }
    let mut text = format!("Targets: {met} met, {} missed.\n", missed.len());
    for line in missed {
        text.push_str(&line);
    }
    text
}

impl Target {
    fn line(&self, (setting, rows): (Setting, u32), figure: Figure, reached: f64) -> String {
        let what = match self.than {
            Some(other) => format!("{reached:.2} of {other}, not {:.2}", self.at_least),
            None => {
                format!("{} a second, not {}", rate(reached), rate(self.at_least))
            }
        };
        format!("- missed: {}, {rows} rows, {}: {what}\n", setting.name(), figure.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orm::measurement::Measurement;

    #[test]
    fn missed_targets_are_listed_and_met_ones_are_counted() {
        let mut all = Measurements::default();
        for (contender, seconds) in [("floor", 1.0), ("rusqlite", 1.1), (OURS, 1.5)] {
            let line = format!(
                r#"{{"contender":"{contender}","setting":"file-off","rows":10,"figure":"list objects","done":10,"seconds":{seconds},"statement_rows":500,"waited_ms":0,"stolen_ms":0}}"#
            );
            all.add(0, vec![Measurement::parse(&line).unwrap()]);
        }
        let text = verdict(&all);
        assert!(text.starts_with("Targets: 0 met, 2 missed."), "{text}");
        assert!(text.contains("list objects: 0.67 of floor, not 0.90"), "{text}");
        assert!(verdict(&Measurements::default()).is_empty());
    }
}
