//! The processes of a large run: this program again, as servers and as clients. They receive
//! commands as lines on standard input and exit when it is closed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::attended::EVERY;
use super::line::Line;
use super::stand::Failed;
use super::tally::Tally;

/// A process that is killed on drop.
struct Process {
    child: Child,
    /// `None` after standard input was closed, which ends the process.
    stdin: Option<ChildStdin>,
}

impl Process {
    fn start(words: &[String]) -> Result<(Self, ChildStdout), Failed> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("stress")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or("a process has no output")?;
        Ok((Self { child, stdin }, stdout))
    }

    /// Closes standard input and waits for the process to end.
    fn end(&mut self) -> Result<(), Failed> {
        self.stdin = None;
        let status = self.child.wait()?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("a process of the run ended with {status}").into()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if the process has ended already, which is ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server process.
pub(super) struct Serving {
    process: Process,
    _stdout: BufReader<ChildStdout>,
    /// Where clients reach it.
    pub(super) url: String,
}

impl Serving {
    /// Starts a server at an address that it shares with others. Returns when it accepts
    /// connections.
    pub(super) fn start(address: &str, db: &str) -> Result<Self, Failed> {
        let words = ["--serve", address, "--reuse-port", "--attended", "--db", db];
        let (process, stdout) = Process::start(&words.map(str::to_owned))?;
        let (mut output, mut line) = (BufReader::new(stdout), String::new());
        output.read_line(&mut line)?;
        // Empty if the start failed: the process has printed the reason to standard error.
        let url = line.split_whitespace().next_back().ok_or("a server did not start")?.to_owned();
        Ok(Self { process, _stdout: output, url })
    }

    pub(super) fn number(&self) -> u32 {
        self.process.child.id()
    }

    pub(super) fn end(mut self) -> Result<(), Failed> {
        self.process.end()
    }
}

/// The output of a client process.
enum ChildOutput {
    Line(String),
    /// The process has closed its output.
    Ended,
}

/// The client processes.
pub(super) struct Drivers {
    processes: Vec<Process>,
    output: Receiver<(usize, ChildOutput)>,
    sender: Sender<(usize, ChildOutput)>,
}

/// The results of all client processes.
#[derive(Default)]
pub(super) struct Found {
    pub(super) tally: Tally,
    pub(super) ids: Vec<i64>,
}

impl Drivers {
    pub(super) fn new() -> Self {
        let (sender, output) = channel();
        Self { processes: Vec::new(), output, sender }
    }

    /// Starts another process.
    pub(super) fn start(&mut self, words: &[String]) -> Result<(), Failed> {
        let (process, stdout) = Process::start(words)?;
        let (number, sender) = (self.processes.len(), self.sender.clone());
        self.processes.push(process);
        // The thread ends with the process whose output it reads.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send((number, ChildOutput::Line(line))).is_err() {
                    return;
                }
            }
            let _ = sender.send((number, ChildOutput::Ended));
        });
        Ok(())
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.processes.iter().map(|process| process.child.id())
    }

    /// Sends a command to all processes, and waits until all have executed it.
    pub(super) fn lead(&mut self, what: &str, line: &Line) -> Result<Found, Failed> {
        for process in &mut self.processes {
            if let Some(stdin) = &mut process.stdin {
                writeln!(stdin, "{what}")?;
                stdin.flush()?;
            }
        }
        let mut found = Found::default();
        let mut done = vec![false; self.processes.len()];
        while done.contains(&false) {
            let (number, output) = self.output.recv()?;
            let text = match output {
                ChildOutput::Line(text) => text,
                // The process has finished this command, so it may end.
                ChildOutput::Ended if done[number] => continue,
                ChildOutput::Ended => {
                    let text = format!("client process {number} ended when it should {what}");
                    return Err(text.into());
                }
            };
            match text.split_once(' ').unwrap_or((&text, "")) {
                ("at", _) => line.add(EVERY),
                ("done", _) => done[number] = true,
                ("error", fault) => return Err(format!("client process {number}: {fault}").into()),
                ("fault", fault) => found.tally.add_text(fault.to_owned()),
                ("tally", counts) => {
                    let (passed, failed) = counts.split_once(' ').unwrap_or_default();
                    found.tally.passed += passed.parse::<u64>()?;
                    found.tally.failed += failed.parse::<u64>()?;
                }
                ("ids", ids) => {
                    for id in ids.split(' ') {
                        found.ids.push(id.parse()?);
                    }
                }
                _ => return Err(format!("client process {number} printed {text:?}").into()),
            }
        }
        Ok(found)
    }

    /// Waits until all processes have ended.
    pub(super) fn end(mut self) -> Result<(), Failed> {
        self.processes.iter_mut().try_for_each(Process::end)
    }
}
