//! Long runs, by name: `cargo xtask soak` runs all of them and says of each
//! whether it passed, failed or was not run, and why; `cargo xtask soak NAME`
//! runs those whose name begins so.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::step::{Failure, cargo, root, run};

/// Operations of a differential run.
const OPERATIONS: &str = "100000";

/// How a long run ended.
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    NotRun(String),
}

struct Soak {
    name: &'static str,
    run: fn(&str) -> Result<Outcome, Failure>,
}

/// All long runs. Add one by its name and function; the function is given the
/// name.
const RUNS: &[Soak] = &[
    Soak { name: "differential-sqlite", run: differential },
    Soak { name: "differential-sqlite-cache", run: differential },
    Soak { name: "differential-memory", run: differential },
    Soak { name: "differential-memory-cache", run: differential },
    Soak { name: "differential-postgres", run: differential },
    Soak { name: "differential-postgres-cache", run: differential },
    Soak { name: "differential-mongodb", run: differential },
];

/// Runs those whose name begins with `name`.
pub(crate) fn all(name: &str) -> Result<(), Failure> {
    let mut failed = Vec::new();
    let chosen: Vec<&Soak> = RUNS.iter().filter(|soak| soak.name.starts_with(name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = RUNS.iter().map(|soak| soak.name).collect();
        let message = format!("no long run is called {name}; they are {}", names.join(", "));
        return Err(Failure(message));
    }
    for soak in chosen {
        let started = Instant::now();
        let outcome =
            (soak.run)(soak.name).unwrap_or_else(|error| Outcome::Failed(error.to_string()));
        let seconds = started.elapsed().as_secs();
        match outcome {
            Outcome::Passed => println!("{}: passed ({seconds} s)", soak.name),
            Outcome::NotRun(why) => println!("{}: not run: {why}", soak.name),
            Outcome::Failed(why) => {
                println!("{}: failed ({seconds} s): {why}", soak.name);
                failed.push(soak.name);
            }
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure(format!("failed: {}", failed.join(", ")))),
    }
}

/// Random REST operations against a model in Python, on the engine in the name.
fn differential(name: &str) -> Result<Outcome, Failure> {
    if name.contains("mongodb") {
        let why = "the server of this test has no FerretDB yet; `conformance` compares the engine";
        return Ok(Outcome::NotRun(why.to_owned()));
    }
    let folder = tempdir()?;
    let url = match name.split('-').nth(1) {
        Some("sqlite") => format!("sqlite:{}", folder.join("a.db").display()),
        Some("postgres") => "postgres:".to_owned(),
        _ => "memory:".to_owned(),
    };
    run(cargo().args(["build", "--release", "-p", "marmota", "--example", "soak_server"]))?;
    let mut server = Command::new(root().join("target/release/examples/soak_server"));
    server.arg(url).stdin(Stdio::piped()).stdout(Stdio::piped());
    if name.ends_with("-cache") {
        server.arg("--cache");
    }
    let mut server = server.spawn()?;
    let mut address = String::new();
    if let Some(out) = server.stdout.take() {
        BufReader::new(out).read_line(&mut address)?;
    }
    let compared = Command::new("python3")
        .arg(root().join("xtask/soak/differential.py"))
        .args(["--address", address.trim(), "--operations", OPERATIONS])
        .status();
    drop(server.stdin.take());
    let ended = server.wait()?;
    std::fs::remove_dir_all(&folder)?;
    Ok(match (compared?.success(), ended.success()) {
        (true, true) => Outcome::Passed,
        (false, _) => Outcome::Failed("the service answers otherwise than the model".to_owned()),
        (true, false) => Outcome::Failed(format!("the service ended with {ended}")),
    })
}

fn tempdir() -> Result<std::path::PathBuf, Failure> {
    let name = format!("marmota-soak-{}", std::process::id());
    let folder = Path::new(&std::env::temp_dir()).join(name);
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
