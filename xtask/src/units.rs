//! Runs all tests of the workspace. A test that hangs is ended and named. If only a few tests fail,
//! they are run again alone: a test that passes then depends on the load of the machine. Such a test
//! counts as passed, and is reported as unsteady.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, PipeReader, pipe};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::step::{Failure, WORKSPACE, cargo, run};

/// A test hangs if nothing is printed for this long. The longest tests take two minutes.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// If more tests fail, they are not run again.
const AGAIN_MAX: usize = 5;

/// The results of tests, parsed from the output of `cargo test`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Results {
    /// The failed tests of the running test program.
    failed: BTreeSet<String>,
    /// Its tests that have been running for over a minute.
    slow: BTreeSet<String>,
    /// The test programs with failures, by cargo's arguments (`-p marmota-http --test it`), each
    /// with its failed tests.
    targets: Vec<(String, Vec<String>)>,
}

impl Results {
    fn parse(&mut self, line: &str) {
        if line.trim_start().starts_with("Running ") {
            // The program before it has ended.
            self.slow.clear();
        } else if let Some((head, _)) = line.split_once(" has been running for over ") {
            // The line may start with the output of another test.
            if let Some((_, name)) = head.rsplit_once("test ") {
                self.slow.insert(name.to_owned());
            }
        } else if let Some(test) = line.strip_prefix("test ") {
            if let Some(name) = test.strip_suffix(" ... FAILED") {
                self.failed.insert(name.to_owned());
            }
            if let Some((name, _)) = test.rsplit_once(" ... ") {
                self.slow.remove(name);
            }
        } else if let Some((_, target)) = line.split_once("to rerun pass `") {
            // Tests that had not ended when their program did have failed as well.
            let failed = self.failed.iter().chain(&self.slow).cloned().collect();
            self.targets.push((target.trim_end_matches('`').to_owned(), failed));
            self.failed.clear();
            self.slow.clear();
        }
    }
}

/// Runs all tests.
pub(crate) fn check() -> Result<(), Failure> {
    let mut command = cargo();
    command.arg("test").args(WORKSPACE).arg("--no-fail-fast");
    let (passed, results) = watch(&mut command)?;
    if passed {
        return Ok(());
    }
    let failed: usize = results.targets.iter().map(|(_, names)| names.len()).sum();
    let all_known = results.targets.iter().all(|(_, names)| !names.is_empty());
    if failed == 0 || failed > AGAIN_MAX || !all_known {
        return Err(Failure("`cargo test --workspace` failed".to_owned()));
    }
    for (target, names) in &results.targets {
        eprintln!("failed in {target}, run again alone: {}", names.join(", "));
        // With the whole workspace selected: one package alone may have fewer features.
        let kind = target.split_whitespace().skip_while(|word| !word.starts_with("--"));
        let mut again = cargo();
        again.arg("test").args(WORKSPACE).args(kind);
        run(again.args(["--", "--exact"]).args(names))?;
    }
    for (target, names) in &results.targets {
        eprintln!("UNSTEADY, passes alone (to be fixed): {target}: {}", names.join(", "));
    }
    Ok(())
}

/// Runs the command, prints and parses its output, and ends tests that hang.
fn watch(command: &mut Command) -> Result<(bool, Results), Failure> {
    let (reader, writer) = pipe()?;
    eprintln!("==> cargo test {} --no-fail-fast", WORKSPACE.join(" "));
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // `command` holds the pipe's other end, and would keep it open.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let lines = lines_of(reader);
    let mut results = Results::default();
    let mut last_line = Instant::now();
    loop {
        // Checked before the lines: when the process has ended, the pipe has all of its output.
        let ended = child.try_wait()?;
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => {
                println!("{line}");
                results.parse(&line);
                last_line = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => return Ok((child.wait()?.success(), results)),
            Err(RecvTimeoutError::Timeout) => {
                // A process that a test has started may still hold the pipe.
                if let Some(status) = ended {
                    return Ok((status.success(), results));
                }
                if last_line.elapsed() > SILENCE_MAX {
                    end_tests_of(&child);
                    last_line = Instant::now();
                }
            }
        }
    }
}

fn lines_of(reader: PipeReader) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Ends the test programs that cargo runs, after printing their threads: the name of a test's thread
/// is the end of the test's name.
fn end_tests_of(cargo: &Child) {
    for process in children(cargo.id()) {
        eprintln!(
            "nothing was printed for {SILENCE_MAX:?}: process {process} is ended, of threads"
        );
        let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let place = fs::read_to_string(task.path().join("wchan")).unwrap_or_default();
            eprintln!("    {} in {place}", name.trim());
        }
        let _ = Command::new("kill").args(["-KILL", &process.to_string()]).status();
    }
}

/// The processes that this one has started.
fn children(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_parsed() {
        let mut results = Results::default();
        for line in [
            "test a.rs [should pass] ... test b::other has been running for over 60 seconds",
            "ok",
            "     Running tests/it/main.rs (target/debug/deps/it-1)",
            "test a::passes ... ok",
            "test a::slow has been running for over 60 seconds",
            "test a::slow ... ok",
            "test a::breaks ... FAILED",
            "test a::hangs has been running for over 60 seconds",
            "error: test failed, to rerun pass `-p some --test it`",
            "test src/lib.rs - it (line 3) ... FAILED",
            "error: doctest failed, to rerun pass `-p some --doc`",
        ] {
            results.parse(line);
        }
        let of = |target: &str, names: &[&str]| {
            (target.to_owned(), names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
        };
        let targets = vec![
            of("-p some --test it", &["a::breaks", "a::hangs"]),
            of("-p some --doc", &["src/lib.rs - it (line 3)"]),
        ];
        assert_eq!(results, Results { targets, ..Results::default() });
    }

    #[test]
    fn children_are_found() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(children(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
