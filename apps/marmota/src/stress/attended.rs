//! A client process of a large run: reads commands of its parent from standard input, one per line,
//! and prints the results as lines. [`super::child`] is the parent's side.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use marmota::command::Done;

use super::crew::{self, Came, Plan, Step};
use super::line::Count;
use super::stand::{Failed, Stand};

/// Steps between two progress lines.
pub(super) const EVERY: u64 = 250;
/// Ids per line.
const IDS_A_LINE: usize = 1_000;

/// The progress of the process, reported to the parent.
#[derive(Default)]
struct Told(AtomicU64);

impl Count for Told {
    fn step(&self) {
        if (self.0.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(EVERY) {
            // If the parent has stopped reading, the error is ignored.
            let _ = say("at");
        }
    }
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Executes the commands of the parent.
pub(super) fn run(stand: &Stand, plan: &Plan) -> Done {
    match obey(stand, plan) {
        Ok(came) => {
            tell(&came)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            say(&format!("error {}", in_a_line(&error.to_string())))?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn obey(stand: &Stand, plan: &Plan) -> Result<Came, Failed> {
    crew::run(stand, plan, &Told::default(), |lead| {
        for line in io::stdin().lock().lines() {
            let step = match &*line? {
                "connect" => Step::Connect,
                "insert" => Step::Insert,
                "read" => Step::Read,
                _ => return Ok(()),
            };
            lead.take(step)?;
            say("done")?;
        }
        Err("the leading process ended".into())
    })
}

fn tell(came: &Came) -> io::Result<()> {
    for ids in came.ids.chunks(IDS_A_LINE) {
        let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
        say(&format!("ids {}", ids.join(" ")))?;
    }
    for fault in &came.tally.faults {
        say(&format!("fault {}", in_a_line(fault)))?;
    }
    say(&format!("tally {} {}", came.tally.passed, came.tally.failed))?;
    say("done")
}

fn in_a_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
