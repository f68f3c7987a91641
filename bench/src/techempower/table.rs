//! The figures of all rounds, and the table of their medians.

use comfy_table::{CellAlignment, Table, presets};
use std::collections::BTreeMap;

/// The figures of one run.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) requests_per_s: f64,
    /// Per second of CPU time that the server's process used.
    pub(crate) requests_per_cpu_s: f64,
    /// Per second of CPU time that the server and the database used.
    pub(crate) requests_per_all_cpu_s: f64,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) errors: u64,
}

/// The figures of each test and server, in the order in which they were first added.
#[derive(Default)]
pub(crate) struct Figures {
    lines: Vec<Line>,
}

struct Line {
    test: &'static str,
    connections: u32,
    server: String,
    is_peer: bool,
    rounds: Vec<Figure>,
}

impl Figures {
    pub(crate) fn add(
        &mut self,
        test: &'static str,
        connections: u32,
        server: &str,
        is_peer: bool,
        figure: Figure,
    ) {
        let same =
            |l: &&mut Line| (l.test, l.connections, &*l.server) == (test, connections, server);
        match self.lines.iter_mut().find(same) {
            Some(line) => line.rounds.push(figure),
            None => {
                let (server, rounds) = (server.to_owned(), vec![figure]);
                self.lines.push(Line { test, connections, server, is_peer, rounds });
            }
        }
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header([
            "test",
            "server",
            "requests/s",
            "÷ best peer",
            "per CPU s",
            "÷ best peer",
            "with the database's",
            "÷ best peer",
            "p99 ms",
            "errors",
        ]);
        let mut seen = BTreeMap::new();
        for line in &self.lines {
            let group = (line.test, line.connections);
            let label = match seen.insert(group, ()) {
                None => format!("{}, {}", line.test, line.connections),
                Some(()) => String::new(),
            };
            let peers =
                || self.lines.iter().filter(|l| l.is_peer && (l.test, l.connections) == group);
            let ratio = |of: fn(&Figure) -> f64| match peers()
                .map(|peer| peer.median(of))
                .max_by(f64::total_cmp)
            {
                Some(best) => format!("{:.2}", line.median(of) / best),
                None => String::new(),
            };
            let errors: u64 = line.rounds.iter().map(|figure| figure.errors).sum();
            let p99 = line.rounds.iter().filter_map(|figure| figure.p99_ms);
            table.add_row([
                label,
                line.server.clone(),
                format!("{:.0}", line.median(|f| f.requests_per_s)),
                ratio(|f| f.requests_per_s),
                format!("{:.0}", line.median(|f| f.requests_per_cpu_s)),
                ratio(|f| f.requests_per_cpu_s),
                format!("{:.0}", line.median(|f| f.requests_per_all_cpu_s)),
                ratio(|f| f.requests_per_all_cpu_s),
                median(p99).map_or_else(String::new, |ms| format!("{ms:.1}")),
                if errors == 0 { String::new() } else { errors.to_string() },
            ]);
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

impl Line {
    fn median(&self, of: fn(&Figure) -> f64) -> f64 {
        median(self.rounds.iter().map(of)).unwrap_or(f64::NAN)
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (low, high) =
        (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_medians_and_ratios_to_the_best_peer_of_the_same_test() {
        let mut figures = Figures::default();
        let figure = |requests_per_s| Figure {
            requests_per_s,
            requests_per_cpu_s: requests_per_s * 2.0,
            requests_per_all_cpu_s: requests_per_s,
            p99_ms: None,
            errors: 0,
        };
        for rate in [300.0, 100.0, 200.0] {
            figures.add("db", 64, "ours", false, figure(rate));
            figures.add("db", 64, "theirs", true, figure(50.0));
            figures.add("db", 64, "others'", true, figure(100.0));
            figures.add("db", 512, "ours", false, figure(rate));
        }
        let table = figures.table().to_string();
        let lines: Vec<&str> = table.lines().skip(2).collect();
        assert!(lines[0].contains("200") && lines[0].contains("2.00"), "{table}");
        assert!(!lines[3].contains("2.00"), "{table}");
    }
}
