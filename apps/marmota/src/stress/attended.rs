//! A client process of a proof: it does what its parent tells it in lines on
//! standard input, and says in lines what came of it. See [`super::child`] for
//! the other side.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use marmota::command::Done;

use super::crew::{self, Came, Plan, Step};
use super::line::Count;
use super::stand::{Failed, Stand};

/// Steps between two lines on how far it is.
pub(super) const EVERY: u64 = 250;
/// Ids in a line.
const IDS_A_LINE: usize = 1_000;

/// Tells the parent how far it is.
#[derive(Default)]
struct Told(AtomicU64);

impl Count for Told {
    fn step(&self) {
        if (self.0.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(EVERY) {
            // Whoever does not listen any more will not be waited for either.
            let _ = say("at");
        }
    }
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Does what it is told.
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
        Err("the process that led has gone".into())
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
