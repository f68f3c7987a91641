//! All tests of the workspace: a test that hangs is ended and named, and the few that fail beside
//! thousands of others are run once more by themselves, which tells a broken promise from a test
//! that does not stand a busy machine. The latter passes, but is named as unsteady: it is to be
//! mended as well.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, PipeReader, pipe};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::step::{Failure, cargo, run};

/// So long nothing is printed only when a test hangs: the longest take two minutes.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// More failures than this are no bad luck.
const AGAIN_MAX: usize = 5;

const ALL: [&str; 3] = ["test", "--workspace", "--locked"];

/// What cargo and the tests have printed, as far as it matters here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    /// Tests of the program that runs which have failed or run long.
    failed: BTreeSet<String>,
    slow: BTreeSet<String>,
    /// The programs with failures, as cargo names them (`-p marmota-http --test it`), each with
    /// its failed tests.
    targets: Vec<(String, Vec<String>)>,
}

impl Said {
    fn hear(&mut self, line: &str) {
        if line.trim_start().starts_with("Running ") {
            // The program before this one has ended.
            self.slow.clear();
        } else if let Some((head, _)) = line.split_once(" has been running for over ") {
            // A test that prints without the harness may have begun the line.
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
            // Those that had not ended when their program did have failed as well.
            let failed = self.failed.iter().chain(&self.slow).cloned().collect();
            self.targets.push((target.trim_end_matches('`').to_owned(), failed));
            self.failed.clear();
            self.slow.clear();
        }
    }
}

/// Runs all tests.
pub(crate) fn check() -> Result<(), Failure> {
    // All that fails is told at once, not one package a run.
    let mut command = cargo();
    command.args(ALL).arg("--no-fail-fast");
    let (passed, said) = watch(&mut command)?;
    if passed {
        return Ok(());
    }
    let failed: usize = said.targets.iter().map(|(_, names)| names.len()).sum();
    let all_known = said.targets.iter().all(|(_, names)| !names.is_empty());
    if failed == 0 || failed > AGAIN_MAX || !all_known {
        return Err(Failure("`cargo test --workspace` failed".to_owned()));
    }
    for (target, names) in &said.targets {
        eprintln!("failed in {target}, so once more alone: {}", names.join(", "));
        // In the whole workspace again, as one package may be built with fewer features.
        let kind = target.split_whitespace().skip_while(|word| !word.starts_with("--"));
        run(cargo().args(ALL).args(kind).arg("--").arg("--exact").args(names))?;
    }
    for (target, names) in &said.targets {
        eprintln!("UNSTEADY, passes alone (to be mended): {target}: {}", names.join(", "));
    }
    Ok(())
}

/// Runs the command with its output shown, heard, and its hanging tests ended.
fn watch(command: &mut Command) -> Result<(bool, Said), Failure> {
    let (reader, writer) = pipe()?;
    eprintln!("==> cargo {} --no-fail-fast", ALL.join(" "));
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // It holds the pipe's other end, and would keep it open.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let lines = lines_of(reader);
    let mut said = Said::default();
    let mut heard = Instant::now();
    loop {
        // Looked at before the lines: what it printed is in the pipe when it has ended.
        let ended = child.try_wait()?;
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => {
                println!("{line}");
                said.hear(&line);
                heard = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => return Ok((child.wait()?.success(), said)),
            Err(RecvTimeoutError::Timeout) => {
                // A process that a test has left behind may hold the pipe.
                if let Some(status) = ended {
                    return Ok((status.success(), said));
                }
                if heard.elapsed() > SILENCE_MAX {
                    end_tests_of(&child);
                    heard = Instant::now();
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

/// Ends the programs that cargo runs, after saying what they were at: a test's thread has the end
/// of its test's name.
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
    fn what_failed_is_heard() {
        let mut said = Said::default();
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
            said.hear(line);
        }
        let of = |target: &str, names: &[&str]| {
            (target.to_owned(), names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
        };
        let targets = vec![
            of("-p some --test it", &["a::breaks", "a::hangs"]),
            of("-p some --doc", &["src/lib.rs - it (line 3)"]),
        ];
        assert_eq!(said, Said { targets, ..Said::default() });
    }

    #[test]
    fn children_are_found() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(children(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
