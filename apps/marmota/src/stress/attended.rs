//! A client process of a large run: reads commands of its parent from standard input, one per line,
//! and prints the results as lines. [`super::child`] is the parent's side.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use marmota::command::Done;

use super::crew::{self, Plan, RunResults, Step};
use super::line::Count;
use super::stand::{Failed, Stand};

/// Steps between two progress lines.
pub(super) const EVERY: u64 = 250;
/// Ids per line.
const IDS_A_LINE: usize = 1_000;

/// The progress of the process, reported to the parent.
#[derive(Default)]
struct ReportedProgress(AtomicU64);

impl Count for ReportedProgress {
    fn step(&self) {
        if (self.0.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(EVERY) {
            // If the parent has stopped reading, the error is ignored.
            let _ = print_line("at");
        }
    }
}

fn print_line(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Executes the commands of the parent.
pub(super) fn run(stand: &Stand, plan: &Plan) -> Done {
    match execute_commands(stand, plan) {
        Ok(results) => {
            print_results(&results)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            print_line(&format!("error {}", on_one_line(&error.to_string())))?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn execute_commands(stand: &Stand, plan: &Plan) -> Result<RunResults, Failed> {
    crew::run(stand, plan, &ReportedProgress::default(), |lead| {
        for line in io::stdin().lock().lines() {
            let step = match &*line? {
                "connect" => Step::Connect,
                "insert" => Step::Insert,
                "read" => Step::Read,
                _ => return Ok(()),
            };
            lead.take(step)?;
            print_line("done")?;
        }
        Err("the leading process ended".into())
    })
}

fn print_results(results: &RunResults) -> io::Result<()> {
    for ids in results.ids.chunks(IDS_A_LINE) {
        let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
        print_line(&format!("ids {}", ids.join(" ")))?;
    }
    for fault in &results.tally.faults {
        print_line(&format!("fault {}", on_one_line(fault)))?;
    }
    print_line(&format!("tally {} {}", results.tally.passed, results.tally.failed))?;
    print_line("done")
}

fn on_one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
