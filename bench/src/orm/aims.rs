//! What Marmota's store has to reach, as data, and whether it did in this run.

use super::measurement::Measurements;
use super::report;
use bench_orm_workload::{Figure, Setting};

const OURS: &str = "marmota";

/// One aim: a ratio to another contender, or a rate.
struct Aim {
    settings: &'static [Setting],
    figures: &'static [Figure],
    /// The contender it is a ratio to; without one, `at_least` is rows a second.
    than: Option<&'static str>,
    at_least: f64,
}

const SQLITE: &[Setting] = &[Setting::FileFull, Setting::FileOff, Setting::Memory];

const AIMS: [Aim; 8] = [
    Aim {
        settings: SQLITE,
        figures: &[Figure::InsertBatch, Figure::InsertBatchTransaction, Figure::ListObjects],
        than: Some("floor"),
        at_least: 0.9,
    },
    Aim { settings: SQLITE, figures: &[Figure::ReadById], than: Some("floor"), at_least: 0.8 },
    Aim { settings: SQLITE, figures: &Figure::ALL, than: Some("rusqlite"), at_least: 1.0 },
    // Where an fsync a row sets the pace, or SQLite itself does, no layer can be three times another.
    Aim {
        settings: &[Setting::Memory],
        figures: &[Figure::InsertBatch, Figure::InsertTransaction, Figure::InsertBatchTransaction],
        than: Some("diesel"),
        at_least: 3.0,
    },
    Aim {
        settings: &[Setting::Memory],
        figures: &[Figure::ReadById],
        than: Some("diesel first()"),
        at_least: 6.0,
    },
    // What mORMot 2 reaches on such a machine, twice.
    Aim {
        settings: &[Setting::Postgres],
        figures: &[Figure::InsertBatch],
        than: None,
        at_least: 450e3,
    },
    Aim {
        settings: &[Setting::Postgres],
        figures: &[Figure::InsertBatch],
        than: Some("tokio-postgres COPY"),
        at_least: 0.8,
    },
    Aim {
        settings: &[Setting::Engine],
        figures: &[Figure::InsertBatch, Figure::ReadById],
        than: None,
        at_least: 5e6,
    },
];

/// A line for each aim that was missed and one that counts the others; nothing without Marmota.
pub(crate) fn verdict(measurements: &Measurements) -> String {
    let (mut met, mut missed) = (0, Vec::new());
    for table in measurements.tables() {
        for aim in AIMS.iter().filter(|aim| aim.settings.contains(&table.0)) {
            for &figure in aim.figures {
                let reached = match aim.than {
                    Some(other) => measurements.ratio(table, OURS, other, figure),
                    None => measurements.rate(table, OURS, figure),
                };
                match reached {
                    None => {}
                    Some(reached) if reached >= aim.at_least => met += 1,
                    Some(reached) => missed.push(aim.line(table, figure, reached)),
                }
            }
        }
    }
    if met + missed.len() == 0 {
        return String::new();
    }
    let mut text = format!("Aims: {met} met, {} missed.\n", missed.len());
    for line in missed {
        text.push_str(&line);
    }
    text
}

impl Aim {
    fn line(&self, (setting, rows): (Setting, u32), figure: Figure, reached: f64) -> String {
        let what = match self.than {
            Some(other) => format!("{reached:.2} of {other}, not {:.2}", self.at_least),
            None => {
                format!("{} a second, not {}", report::rate(reached), report::rate(self.at_least))
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
    fn what_is_missed_is_said_and_what_is_met_is_counted() {
        let mut all = Measurements::default();
        for (contender, seconds) in [("floor", 1.0), ("rusqlite", 1.1), (OURS, 1.5)] {
            let line = format!(
                r#"{{"contender":"{contender}","setting":"file-off","rows":10,"figure":"list objects","done":10,"seconds":{seconds},"statement_rows":500,"waited_ms":0,"stolen_ms":0}}"#
            );
            all.add(0, vec![Measurement::parse(&line).unwrap()]);
        }
        let text = verdict(&all);
        assert!(text.starts_with("Aims: 0 met, 2 missed."), "{text}");
        assert!(text.contains("list objects: 0.67 of floor, not 0.90"), "{text}");
        assert!(verdict(&Measurements::default()).is_empty());
    }
}
