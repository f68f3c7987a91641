//! The figures of all rounds as a table of medians. A ratio is the median of those within the
//! rounds.

use super::workload::Workload;
use crate::http::sample::{median, megabytes};
use comfy_table::{CellAlignment, Table as Grid, presets};
use std::fmt;

/// The figures of one run.
#[derive(Clone, Copy)]
pub(super) struct Figure {
    pub(super) per_s: f64,
    /// Per second of CPU time that the server's processes used.
    pub(super) per_cpu_s: f64,
    pub(super) peak_kib: u64,
    pub(super) failed: u64,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}/s, {:.0} per CPU second", self.per_s, self.per_cpu_s)?;
        if self.failed > 0 {
            write!(f, ", {} failed", self.failed)?;
        }
        Ok(())
    }
}

struct Row {
    workload: &'static str,
    target: Option<f64>,
    server: String,
    is_peer: bool,
    rounds: Vec<Figure>,
}

/// The figures of each workload and server, in the order in which they were first added.
#[derive(Default)]
pub(super) struct Table {
    rows: Vec<Row>,
}

impl Table {
    pub(super) fn add(&mut self, workload: &Workload, server: &str, is_peer: bool, figure: Figure) {
        let same = |row: &&mut Row| row.workload == workload.name && row.server == server;
        match self.rows.iter_mut().find(same) {
            Some(row) => row.rounds.push(figure),
            None => self.rows.push(Row {
                workload: workload.name,
                target: workload.target,
                server: server.to_owned(),
                is_peer,
                rounds: vec![figure],
            }),
        }
    }

    fn best_peer(&self, workload: &str) -> Option<&Row> {
        let peers = self.rows.iter().filter(|row| row.workload == workload && row.is_peer);
        peers.max_by(|a, b| median_of(a, |f| f.per_cpu_s).total_cmp(&median_of(b, |f| f.per_cpu_s)))
    }

    pub(super) fn text(&self) -> String {
        let mut grid = Grid::new();
        grid.load_style(presets::ASCII_MARKDOWN).set_header([
            "workload",
            "server",
            "per s",
            "÷ best peer",
            "per CPU s",
            "÷ best peer (target)",
            "peak MB",
            "failed",
        ]);
        for column in grid.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let mut last = "";
        for row in &self.rows {
            let best = self.best_peer(row.workload);
            let ratio = |of: fn(&Figure) -> f64| {
                let best = best.map(|best| best.rounds.as_slice()).unwrap_or_default();
                median(row.rounds.iter().zip(best).map(|(own, peer)| of(own) / of(peer)))
            };
            let target = match row.target {
                Some(target) if !row.is_peer => format!(" ({target})"),
                _ => String::new(),
            };
            grid.add_row([
                if row.workload == last { "" } else { row.workload }.to_owned(),
                row.server.clone(),
                format!("{:.0}", median_of(row, |f| f.per_s)),
                format!("{:.2}", ratio(|f| f.per_s)),
                format!("{:.0}", median_of(row, |f| f.per_cpu_s)),
                format!("{:.2}{target}", ratio(|f| f.per_cpu_s)),
                format!("{:.0}", megabytes(median_of(row, |f| f.peak_kib as f64))),
                row.rounds.iter().map(|figure| figure.failed).sum::<u64>().to_string(),
            ]);
            last = row.workload;
        }
        grid.to_string()
    }
}

fn median_of(row: &Row, of: fn(&Figure) -> f64) -> f64 {
    median(row.rounds.iter().map(of))
}

#[cfg(test)]
mod tests {
    use super::super::workload::WORKLOADS;
    use super::*;

    #[test]
    fn ratios_are_to_the_best_peer_within_the_round() {
        let mut table = Table::default();
        let figure = |per_cpu_s| Figure { per_s: 1.0, per_cpu_s, peak_kib: 1000, failed: 0 };
        for (ours, good, bad) in [(300.0, 200.0, 100.0), (150.0, 100.0, 50.0), (9.0, 9.0, 9.0)] {
            table.add(&WORKLOADS[0], "marmota", false, figure(ours));
            table.add(&WORKLOADS[0], "good", true, figure(good));
            table.add(&WORKLOADS[0], "bad", true, figure(bad));
        }
        let text = table.text();
        let line = text.lines().find(|line| line.contains("marmota")).unwrap();
        assert!(line.contains("1.50 (1.1)"), "{text}");
    }
}
