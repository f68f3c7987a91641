//! Long runs: `cargo xtask soak` executes all of them and prints a summary; `cargo xtask soak NAME`
//! executes those whose name starts with NAME.
//!
//! Most runs are programs of `xtask/soak` that start the service and the clients they need. Their
//! exit code is 0, [`NOT_RUN`], or another one for a failure, and their last line is the reason.

pub(crate) mod moves;
pub(crate) mod patroni;
mod scan;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::ferretdb;
use crate::fuzz;
use crate::outsiders;
use crate::step::{Failure, cargo, root, run};
use crate::summary::{self, Outcome, Summary};

/// The exit code of a run that needs something this machine does not have.
const NOT_RUN: i32 = 77;

/// A long run: a program in Python, `scan` (`soak/scan.rs`), `fuzz` or a cargo command, and its
/// arguments. `{folder}` stands for a temporary folder.
struct Soak {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

/// All long runs. Those on MongoDB have few operations, because FerretDB reads a whole collection for
/// most of them.
#[rustfmt::skip]
const RUNS: &[Soak] = &[
    Soak { name: "differential-sqlite", program: "differential", arguments: &["--url", "sqlite:{folder}/a.db"] },
    Soak { name: "differential-sqlite-cache", program: "differential", arguments: &["--url", "sqlite:{folder}/a.db", "--cache"] },
    Soak { name: "differential-memory", program: "differential", arguments: &["--url", "memory:"] },
    Soak { name: "differential-memory-cache", program: "differential", arguments: &["--url", "memory:", "--cache"] },
    Soak { name: "differential-postgres", program: "differential", arguments: &["--url", "postgres:"] },
    Soak { name: "differential-postgres-cache", program: "differential", arguments: &["--url", "postgres:", "--cache"] },
    Soak { name: "differential-mongodb", program: "differential", arguments: &["--url", "mongodb:", "--plain", "--operations", "5000"] },
    Soak { name: "differential-mongodb-cache", program: "differential", arguments: &["--url", "mongodb:", "--plain", "--operations", "5000", "--cache"] },
    Soak { name: "differential-replica", program: "differential", arguments: &["--url", "replica:", "--operations", "5000"] },
    Soak { name: "differential-engines", program: "cargo", arguments: &["test", "-p", "marmota-testkit", "--test", "it", "--locked", "random_operations_agree", "--", "--nocapture", "--test-threads", "2"] },
    Soak { name: "disk-full-sqlite", program: "disk_full", arguments: &["--engine", "sqlite"] },
    Soak { name: "disk-full-memory", program: "disk_full", arguments: &["--engine", "memory"] },
    Soak { name: "signals-sqlite", program: "signals", arguments: &["--engine", "sqlite"] },
    Soak { name: "signals-memory", program: "signals", arguments: &["--engine", "memory"] },
    Soak { name: "outputs", program: "outputs", arguments: &[] },
    Soak { name: "abuses", program: "abuses", arguments: &[] },
    Soak { name: "hostile", program: "hostile", arguments: &[] },
    Soak { name: "scan-sqlite", program: "scan", arguments: &["sqlite:{folder}/a.db"] },
    Soak { name: "scan-memory", program: "scan", arguments: &["memory:"] },
    Soak { name: "scan-postgres", program: "scan", arguments: &["postgres:"] },
    Soak { name: "scan-mongodb", program: "scan", arguments: &["mongodb:", "200000"] },
    Soak { name: "killed-jobs", program: "cargo", arguments: &["test", "--package", "marmota-jobs", "--test", "it", "--locked", "killed"] },
    Soak { name: "webhook-kills", program: "cargo", arguments: &["test", "-p", "marmota-webhooks", "--test", "it", "--locked", "killed"] },
    Soak { name: "cluster", program: "cargo", arguments: &["test", "-p", "marmota-cli", "--test", "cluster", "--locked", "100_failures", "--", "--ignored", "--nocapture"] },
    Soak { name: "moves", program: "cargo", arguments: &["test", "-p", "marmota-cli", "--test", "cluster", "--locked", "moves::a_server_moves_to_each_engine", "--", "--ignored", "--nocapture"] },
    Soak { name: "file-kills", program: "cargo", arguments: &["test", "-p", "marmota-files", "--test", "it", "--locked", "killed"] },
    Soak { name: "file-memory", program: "cargo", arguments: &["test", "-p", "marmota-rest", "--features", "files", "--test", "file_memory", "--locked"] },
    Soak { name: "feed-postgres", program: "cargo", arguments: &["run", "--release", "-p", "marmota-postgres", "--features", "temporary-server", "--example", "feed_race"] },
    Soak { name: "replication-kills", program: "cargo", arguments: &["test", "-p", "marmota-replication", "--test", "it", "kill"] },
    Soak { name: "prove", program: "cargo", arguments: &["run", "--release", "--locked", "-p", "marmota-cli", "--", "prove", "--seeds", "200", "--cuts", "50"] },
    Soak { name: "leaks", program: "cargo", arguments: &["test", "-p", "marmota-testkit", "--test", "it", "--locked", "no_answer_of_many", "--", "--ignored"] },
    Soak { name: "live-documents", program: "cargo", arguments: &["test", "-p", "marmota-testkit", "--test", "it", "--locked", "each_document_is", "--", "--nocapture", "--test-threads", "1"] },
    Soak { name: "live-tables", program: "cargo", arguments: &["test", "-p", "marmota-cli", "--test", "it", "--locked", "1000_times", "--", "--ignored", "--nocapture"] },
    Soak { name: "fuzz", program: "fuzz", arguments: &["600"] },
    Soak { name: "schemathesis", program: "schemathesis", arguments: &[] },
    Soak { name: "packages", program: "cargo", arguments: &["package", "--workspace", "--allow-dirty"] },
];

/// Executes the runs that the arguments select: the start of a name, `--allow-not-run NAME`.
pub(crate) fn start(arguments: &[&str]) -> Result<(), Failure> {
    let (allowed, rest) = summary::allowed(arguments)?;
    let names: Vec<&str> = RUNS.iter().map(|soak| soak.name).collect();
    summary::check_names(&allowed, &names)?;
    let name = match rest.as_slice() {
        [] => "",
        [name] if !name.starts_with('-') => name,
        words => return Err(Failure(format!("soak: unknown arguments {}", words.join(" ")))),
    };
    let mut chosen = RUNS.iter().filter(|soak| soak.name.starts_with(name)).peekable();
    if chosen.peek().is_none() {
        let names = names.join(", ");
        return Err(Failure(format!("no run starts with {name}; the runs are {names}")));
    }
    let mut summary = Summary::new("soak", &allowed);
    chosen.for_each(|soak| summary.run(soak.name, || soak.run()));
    summary.finish()
}

impl Soak {
    fn run(&self) -> Result<Outcome, Failure> {
        if (self.name.contains("mongodb") || self.name.ends_with("-replica"))
            && let Err(error) = ferretdb::make()
        {
            return Ok(Outcome::NotRun(format!("FerretDB cannot be built: {error}")));
        }
        if self.program == "scan" {
            return scan::waits(self.arguments);
        }
        if self.program == "schemathesis" {
            return outsiders::schemathesis().map(|()| Outcome::Passed);
        }
        if self.program == "cargo" {
            // More kills than in the daily tests.
            let is_long = matches!(self.name, "killed-jobs" | "file-kills" | "webhook-kills");
            let mut program = cargo();
            program.args(self.arguments).env("MARMOTA_KILLS", if is_long { "200" } else { "50" });
            // Longer than the 20 s of the daily tests.
            program.env("MARMOTA_SECONDS", "300");
            program.env("LIVE_DOCUMENTS_WRITES", "30000");
            return run(program.env("MARMOTA_FILE_BYTES", (5_u64 << 30).to_string()))
                .map(|()| Outcome::Passed);
        }
        if self.program == "fuzz" {
            return fuzz::search(self.arguments[0]).map(|()| Outcome::Passed);
        }
        let (flag, package, example) = match self.program {
            "hostile" => ("--program", "marmota-http", "hostile"),
            _ => ("--server", "marmota-cli", "soak_server"),
        };
        let build = ["build", "--release", "--locked", "-p", package, "--example", example];
        run(cargo().args(build))?;
        let folder = std::env::temp_dir().join(format!("marmota-soak-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let shown = folder.display().to_string();
        let script = root().join("xtask/soak").join(self.program).with_extension("py");
        let mut command = Command::new("python3");
        // Unbuffered output, and no compiled files next to the sources.
        command.args(["-u", "-B"]).arg(script);
        command.arg(flag).arg(target().join("release/examples").join(example));
        command.args(self.arguments.iter().map(|word| word.replace("{folder}", &shown)));
        let ended = run_and_print(&mut command);
        std::fs::remove_dir_all(&folder)?;
        let (code, last) = ended?;
        Ok(match code {
            Some(0) => Outcome::Passed,
            Some(NOT_RUN) => Outcome::NotRun(last),
            _ => Outcome::Failed(last),
        })
    }
}

/// Runs a command and prints its output; returns its exit code and its last line.
fn run_and_print(command: &mut Command) -> Result<(Option<i32>, String), Failure> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut last = String::new();
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).lines() {
            let line = line?;
            println!("{line}");
            if !line.trim().is_empty() {
                last = line;
            }
        }
    }
    Ok((child.wait()?.code(), last))
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
