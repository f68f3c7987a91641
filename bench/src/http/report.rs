//! The tables of the HTTP suite. They show medians over the rounds. A ratio is the median of the
//! ratios within each round, so that a temporary slowdown of the machine affects both sides of it.

use super::roster::{Role, ServerSpec, workspace};
use super::sample::{Sample, median, megabytes};
use super::workload::Workload;
use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

const HEADINGS: [&str; 13] = [
    "workload",
    "server",
    "requests/s",
    "÷ best peer",
    "÷ floor",
    "per CPU s",
    "÷ best peer",
    "÷ floor",
    "cores",
    "p99 ms",
    "peak MB",
    "stolen, others %",
    "errors",
];

/// Share of the machine's CPU that other processes may use before the tables carry a warning.
const DISTURBANCE_MAX: f64 = 0.05;

/// The name and role of a server.
struct Row {
    name: String,
    role: Role,
}

/// The rounds of one server in one workload; `None` for a round that failed.
type Rounds = Vec<Option<Sample>>;

/// One workload, with the rounds of each row.
struct Group {
    workload: Workload,
    rows: Vec<Rounds>,
}

impl Group {
    fn label(&self) -> String {
        let seconds = median(self.rows.iter().flatten().flatten().map(|s| s.seconds));
        format!("{}, {seconds:.0} s", self.workload)
    }
}

/// All samples of a run.
pub(crate) struct Report {
    rows: Vec<Row>,
    groups: Vec<Group>,
    preamble: String,
}

impl Report {
    pub(crate) fn new(servers: &[(ServerSpec, PathBuf)], rounds: u32, native: bool) -> Report {
        let rows = servers
            .iter()
            .map(|(spec, _)| Row { name: spec.name.clone(), role: spec.role })
            .collect();
        let tuned = if native { "this processor" } else { "any processor of its kind" };
        let preamble = format!("{}: medians of {rounds} round(s), built for {tuned}.", machine());
        Report { rows, groups: Vec::new(), preamble }
    }

    /// Adds a round of the server with the index `place` in the list that was passed to `new`.
    pub(crate) fn add(&mut self, workload: Workload, place: usize, sample: Sample) {
        self.rounds(workload, place).push(Some(sample));
    }

    /// Adds a round in which the server failed.
    pub(crate) fn add_failure(&mut self, workload: Workload, place: usize) {
        self.rounds(workload, place).push(None);
    }

    pub(crate) fn has_failures(&self) -> bool {
        let mut rounds = self.groups.iter().flat_map(|group| group.rows.iter().flatten());
        rounds.any(Option::is_none)
    }

    fn rounds(&mut self, workload: Workload, place: usize) -> &mut Rounds {
        let known = self.groups.iter().position(|group| group.workload == workload);
        let at = known.unwrap_or_else(|| {
            let rows = vec![Rounds::new(); self.rows.len()];
            self.groups.push(Group { workload, rows });
            self.groups.len() - 1
        });
        &mut self.groups[at].rows[place]
    }

    /// The largest share of the machine's CPU that other processes used in a run, 0 to 1.
    fn disturbance(&self) -> f64 {
        let samples = self.groups.iter().flat_map(|group| group.rows.iter().flatten().flatten());
        samples.map(|s| s.others + s.stolen).fold(0.0, f64::max)
    }

    /// Returns the tables as Markdown.
    pub(crate) fn tables(&self) -> String {
        let disturbance = self.disturbance();
        let warning = if disturbance > DISTURBANCE_MAX {
            format!(
                "\n\n**Others took up to {:.0} % of the machine: measure again before \
                 quoting any of this.**",
                disturbance * 100.0
            )
        } else {
            String::new()
        };
        format!(
            "{}{warning}\n\n{}\n\nResident memory, MB (most of all rounds; idle: started and \
             asked a few times)\n\n{}\n",
            self.preamble,
            self.figures(),
            self.memory()
        )
    }

    fn figures(&self) -> Table {
        let mut table = new_table(&HEADINGS, 2);
        for group in &self.groups {
            let throughput = Measure::new(self, &group.rows, |s| s.requests_per_s);
            let economy = Measure::new(self, &group.rows, |s| s.requests_per_cpu_s);
            for (place, rounds) in group.rows.iter().enumerate() {
                let label = if place == 0 { group.label() } else { String::new() };
                let name = self.rows[place].name.clone();
                let failed = rounds.iter().filter(|round| round.is_none()).count();
                let samples: Vec<Sample> = rounds.iter().flatten().copied().collect();
                if samples.is_empty() {
                    table.add_row(failed_row(label, name));
                    continue;
                }
                let middle = |value: fn(&Sample) -> f64| median(samples.iter().map(value));
                let stolen = middle(|s| s.stolen) * 100.0;
                let others = middle(|s| s.others) * 100.0;
                table.add_row([
                    label,
                    name,
                    thousands(middle(|s| s.requests_per_s)),
                    throughput.ratio(place, throughput.best_peer),
                    throughput.ratio(place, throughput.floor),
                    thousands(middle(|s| s.requests_per_cpu_s)),
                    economy.ratio(place, economy.best_peer),
                    economy.ratio(place, economy.floor),
                    format!("{:.2}", middle(|s| s.server_cores)),
                    wait(&samples),
                    format!("{:.0}", megabytes(most(&samples, |s| s.peak_kib))),
                    format!("{stolen:.1}, {others:.1}"),
                    errors(&samples, failed),
                ]);
            }
        }
        table
    }

    fn memory(&self) -> Table {
        let mut connections: Vec<u32> =
            self.groups.iter().map(|group| group.workload.connections).collect();
        connections.sort_unstable();
        connections.dedup();
        let mut headings = vec!["server".to_owned(), "idle".to_owned()];
        headings.extend(connections.iter().map(|n| format!("{n} connections")));
        let mut table = new_table(&headings, 1);
        for (place, row) in self.rows.iter().enumerate() {
            let most_of = |chosen: &dyn Fn(&Workload) -> bool, value: fn(&Sample) -> u64| {
                let groups = self.groups.iter().filter(|group| chosen(&group.workload));
                let kib = groups.map(|group| most(group.rows[place].iter().flatten(), value));
                format!("{:.1}", megabytes(kib.fold(0.0, f64::max)))
            };
            let mut cells = vec![row.name.clone(), most_of(&|_| true, |s| s.idle_kib)];
            for n in &connections {
                cells.push(most_of(&|w| w.connections == *n, |s| s.peak_kib));
            }
            table.add_row(cells);
        }
        table
    }
}

/// One metric of all servers in one workload, and the best peer.
struct Measure {
    /// For each server, the value of each round; NaN if the round failed.
    values: Vec<Vec<f64>>,
    best_peer: Option<usize>,
    floor: Option<usize>,
}

impl Measure {
    fn new(report: &Report, rows: &[Rounds], value: fn(&Sample) -> f64) -> Measure {
        let figure = |round: &Option<Sample>| round.as_ref().map_or(f64::NAN, value);
        let values: Vec<Vec<f64>> =
            rows.iter().map(|rounds| rounds.iter().map(figure).collect()).collect();
        let of_role = |role| (0..values.len()).filter(move |&p| report.rows[p].role == role);
        let middle = |place: usize| median_of_numbers(values[place].iter().copied());
        Measure {
            best_peer: of_role(Role::Peer).max_by(|&a, &b| middle(a).total_cmp(&middle(b))),
            floor: of_role(Role::Floor).next(),
            values,
        }
    }

    fn ratio(&self, place: usize, to: Option<usize>) -> String {
        let Some(to) = to else { return "–".to_owned() };
        let rounds = self.values[place].iter().zip(&self.values[to]);
        format!("{:.2}", median_of_numbers(rounds.map(|(own, other)| own / other)))
    }
}

fn median_of_numbers(values: impl Iterator<Item = f64>) -> f64 {
    median(values.filter(|value| !value.is_nan()))
}

fn most<'a>(samples: impl IntoIterator<Item = &'a Sample>, value: fn(&Sample) -> u64) -> f64 {
    samples.into_iter().map(value).max().unwrap_or(0) as f64
}

fn failed_row(label: String, name: String) -> Vec<String> {
    let mut cells = vec!["–".to_owned(); HEADINGS.len()];
    cells[0] = label;
    cells[1] = name;
    cells[HEADINGS.len() - 1] = "every round failed".to_owned();
    cells
}

/// The median of the rounds' 99th percentiles, in ms.
fn wait(samples: &[Sample]) -> String {
    let known: Vec<f64> = samples.iter().filter_map(|s| s.p99_us).collect();
    if known.is_empty() {
        return "–".to_owned();
    }
    format!("{:.1}", median(known) / 1000.0)
}

/// The errors summed over the rounds; an empty string if there were none.
fn errors(samples: &[Sample], failed: usize) -> String {
    let socket: u64 = samples.iter().map(|s| s.socket_errors).sum();
    let statuses: u64 = samples.iter().map(|s| s.bad_statuses).sum();
    let kinds = [(socket, "socket"), (statuses, "not 2xx"), (failed as u64, "failed rounds")];
    let told = kinds.iter().filter(|(count, _)| *count > 0);
    told.map(|(count, kind)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
}

fn thousands(value: f64) -> String {
    if value >= 1e6 { format!("{:.2} M", value / 1e6) } else { format!("{:.0} k", value / 1e3) }
}

/// A Markdown table; the first `texts` columns are text, the others are numbers.
fn new_table<T: AsRef<str>>(headings: &[T], texts: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(headings.iter().map(AsRef::as_ref));
    for column in table.column_iter_mut().skip(texts) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Date, commit, CPU model, cores and kernel, for comparisons with other runs.
fn machine() -> String {
    let output = |program: &str, arguments: &[&str]| {
        Command::new(program)
            .args(arguments)
            .current_dir(workspace())
            .output()
            .ok()
            .filter(|output| output.status.success())
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
            .unwrap_or_else(|| "unknown".to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "{}, commit {}, {cores} cores ({}), Linux {}",
        today(),
        output("git", &["rev-parse", "--short", "HEAD"]),
        processor(),
        output("uname", &["-r"]),
    );
    text
}

fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':'));
    name.map_or("unknown", |(_, name)| name.trim()).to_owned()
}

fn today() -> String {
    jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date().to_string()
}

/// Saves the tables in `bench/results`. A file of the same day and number of connections is
/// overwritten.
pub(crate) fn save(tables: &str, workloads: &[Workload]) -> Result<PathBuf> {
    let most = workloads.iter().map(|w| w.connections).max().unwrap_or(0);
    let name = format!("{}-http-{most}.md", today());
    let path = workspace().join("bench/results").join(name);
    let folder = path.parent().context("the folder of the results")?;
    std::fs::create_dir_all(folder)?;
    let text = format!("# HTTP, up to {most} connections\n\n{tables}");
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::super::workload::Kind;
    use super::*;

    fn report(samples: &[(Role, [f64; 3])]) -> Report {
        let rows = samples
            .iter()
            .enumerate()
            .map(|(place, (role, _))| Row { name: format!("server{place}"), role: *role })
            .collect();
        let mut report = Report { rows, groups: Vec::new(), preamble: String::new() };
        let workload = Workload { kind: Kind::Json, connections: 64 };
        for round in 0..3 {
            for (place, (_, figures)) in samples.iter().enumerate() {
                let requests_per_cpu_s = figures[round];
                let sample = Sample { requests_per_cpu_s, ..Sample::default() };
                report.add(workload, place, sample);
            }
        }
        report
    }

    #[test]
    fn ratios_are_taken_within_rounds_against_the_best_peer() {
        let report = report(&[
            (Role::Ours, [30.0, 3.0, 24.0]),
            (Role::Peer, [5.0, 1.0, 10.0]),
            (Role::Peer, [20.0, 2.0, 20.0]),
            (Role::Floor, [60.0, 6.0, 40.0]),
        ]);
        let rows = &report.groups[0].rows;
        let measure = Measure::new(&report, rows, |s| s.requests_per_cpu_s);
        assert_eq!(measure.best_peer, Some(2));
        assert_eq!(measure.ratio(0, measure.best_peer), "1.50");
        assert_eq!(measure.ratio(0, measure.floor), "0.50");
        assert_eq!(measure.ratio(2, measure.best_peer), "1.00");
    }

    #[test]
    fn without_peers_the_table_has_no_ratios() {
        let report = report(&[(Role::Guest, [1.0; 3])]);
        let tables = report.tables();
        assert!(tables.contains("json, 64 connections"), "{tables}");
        assert!(tables.contains('–'), "{tables}");
    }

    #[test]
    fn a_failed_round_does_not_discard_the_others() {
        let mut report = report(&[(Role::Ours, [2.0; 3]), (Role::Peer, [4.0; 3])]);
        let workload = report.groups[0].workload;
        assert!(!report.has_failures());
        report.add_failure(workload, 0);
        report.add(workload, 1, Sample { requests_per_cpu_s: 100.0, ..Sample::default() });
        let measure = Measure::new(&report, &report.groups[0].rows, |s| s.requests_per_cpu_s);
        assert_eq!(measure.ratio(0, measure.best_peer), "0.50");
        assert!(report.has_failures());
        assert!(report.tables().contains("1 failed rounds"));
        report.groups[0].rows[0] = vec![None];
        assert!(report.tables().contains("every round failed"));
    }

    #[test]
    fn tables_of_a_disturbed_machine_say_so() {
        let mut report = report(&[(Role::Ours, [1.0; 3])]);
        assert!(!report.tables().contains("measure again"));
        let workload = report.groups[0].workload;
        report.add(workload, 0, Sample { others: 0.3, ..Sample::default() });
        assert!(report.tables().contains("up to 30 % of the machine"));
    }

    #[test]
    fn large_figures_are_shown_in_millions() {
        assert_eq!(thousands(2_345_678.0), "2.35 M");
        assert_eq!(thousands(265_400.0), "265 k");
    }
}
