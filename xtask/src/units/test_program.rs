//! Test programs: cargo builds them and determines how they are run, this file runs them.
//!
//! Cargo runs test programs one after another. It is started with this program as its runner, which
//! records each command, with its folder and environment, instead of executing it.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, PipeReader, pipe};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::results::Results;
use crate::fuzz::host;
use crate::step::{Failure, WORKSPACE, cargo, root, run};

/// A program hangs if it prints nothing for this long. The longest tests take two minutes.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// The subcommand of this program that records a command.
const RECORD: &str = "record-command";
/// The variable with the folder for the records.
const RECORDS: &str = "MARMOTA_XTASK_RECORDS";

/// A test program, as cargo runs it.
#[derive(Debug)]
pub(crate) struct TestProgram {
    program: PathBuf,
    arguments: Vec<OsString>,
    folder: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

/// A test program that has ended.
pub(crate) struct Ended {
    pub(crate) passed: bool,
    pub(crate) results: Results,
    /// The output, after a line with the program's name.
    pub(crate) output: String,
}

/// Returns the test programs of the workspace.
pub(crate) fn recorded() -> Result<Vec<TestProgram>, Failure> {
    let records = root().join("target/xtask/test-programs");
    if records.exists() {
        fs::remove_dir_all(&records)?;
    }
    fs::create_dir_all(&records)?;
    let triple = host()?.replace('-', "_").to_uppercase();
    let this = std::env::current_exe()?;
    run(cargo()
        .arg("test")
        .args(WORKSPACE)
        .args(["--lib", "--bins", "--tests"])
        .env(format!("CARGO_TARGET_{triple}_RUNNER"), format!("{} {RECORD}", this.display()))
        .env(RECORDS, &records))?;
    let mut programs = Vec::new();
    for entry in fs::read_dir(&records)? {
        programs.push(TestProgram::parse(&fs::read(entry?.path())?)?);
    }
    Ok(programs)
}

/// Records the command in this process' arguments, if it was started for that. Returns true if it was.
///
/// # Errors
/// The record cannot be written.
pub(crate) fn record() -> Result<bool, Failure> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(RECORD), Some(records)) =
        (arguments.next().as_deref().and_then(|word| word.to_str()), std::env::var_os(RECORDS))
    else {
        return Ok(false);
    };
    // Fields end with a zero byte, which no argument or variable contains.
    let mut record = Vec::new();
    let mut field = |bytes: &[u8]| {
        record.extend_from_slice(bytes);
        record.push(0);
    };
    field(std::env::current_dir()?.as_os_str().as_bytes());
    let arguments: Vec<OsString> = arguments.collect();
    field(arguments.len().to_string().as_bytes());
    arguments.iter().for_each(|argument| field(argument.as_bytes()));
    // A test may call cargo itself, which must not record its commands.
    let is_ours = |name: &OsString| {
        let name = name.as_bytes();
        name == RECORDS.as_bytes()
            || name.starts_with(b"CARGO_TARGET_") && name.ends_with(b"_RUNNER")
    };
    for (name, value) in std::env::vars_os().filter(|(name, _)| !is_ours(name)) {
        field(name.as_bytes());
        field(value.as_bytes());
    }
    fs::write(Path::new(&records).join(std::process::id().to_string()), record)?;
    Ok(true)
}

impl TestProgram {
    fn parse(record: &[u8]) -> Result<Self, Failure> {
        let record = record.strip_suffix(&[0]).unwrap_or(record);
        let mut fields =
            record.split(|&byte| byte == 0).map(|field| OsString::from_vec(field.to_vec()));
        let cut_off = || Failure("the record of a test program is incomplete".to_owned());
        let folder = PathBuf::from(fields.next().ok_or_else(cut_off)?);
        let count = fields.next().and_then(|count| count.to_str()?.parse().ok());
        let mut arguments: Vec<OsString> =
            fields.by_ref().take(count.ok_or_else(cut_off)?).collect();
        if arguments.is_empty() {
            return Err(cut_off());
        }
        let program = PathBuf::from(arguments.remove(0));
        let mut environment = Vec::new();
        while let Some(name) = fields.next() {
            environment.push((name, fields.next().unwrap_or_default()));
        }
        Ok(Self { program, arguments, folder, environment })
    }

    /// Returns the package and the name of the program: `marmota-http it`.
    pub(crate) fn name(&self) -> String {
        let file = self.program.file_stem().unwrap_or_default().to_string_lossy();
        let program = file.rsplit_once('-').map_or(&*file, |(name, _)| name);
        format!("{} {program}", self.package())
    }

    /// Returns the package of the program.
    pub(crate) fn package(&self) -> Cow<'_, str> {
        let of_package = |(name, _): &&(OsString, OsString)| name == "CARGO_PKG_NAME";
        let package = self.environment.iter().find(of_package);
        package.map(|(_, value)| value.to_string_lossy()).unwrap_or_default()
    }

    /// Returns the size of the program's file.
    pub(crate) fn bytes(&self) -> u64 {
        fs::metadata(&self.program).map_or(0, |file| file.len())
    }

    /// Runs the program with further arguments, and ends it if it hangs.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Ended, Failure> {
        let (reader, writer) = pipe()?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args(arguments).current_dir(&self.folder);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        let begun = Instant::now();
        let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
        // The command holds the pipe's other end, and would keep it open.
        drop(command);
        let (mut results, mut output) = (Results::default(), String::new());
        let passed = watch(&mut child, &lines_of(reader), |line| {
            results.parse(line);
            output.push_str(line);
            output.push('\n');
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let output = format!("==> {} ({seconds:.1} s)\n{output}", self.name());
        Ok(Ended { passed, results, output })
    }
}

/// Passes on the lines of a process until it has ended; returns true if it succeeded.
fn watch(
    child: &mut Child,
    lines: &Receiver<String>,
    mut line: impl FnMut(&str),
) -> Result<bool, Failure> {
    let mut last_line = Instant::now();
    loop {
        // Checked before the lines: when the process has ended, the pipe has all of its output.
        let ended = child.try_wait()?;
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(text) => {
                line(&text);
                last_line = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(child.wait()?.success()),
            Err(RecvTimeoutError::Timeout) => {
                // A process that a test has started may still hold the pipe.
                if let Some(status) = ended {
                    return Ok(status.success());
                }
                if last_line.elapsed() > SILENCE_MAX {
                    line(&format!(
                        "nothing was printed for {SILENCE_MAX:?}; {}",
                        threads_of(child)
                    ));
                    child.kill()?;
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

/// Lists the threads of a process, each with the kernel function that it waits in. The name of a
/// test's thread is the end of the test's name.
fn threads_of(child: &Child) -> String {
    let mut listed = "the process is ended, with the threads".to_owned();
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
    for task in tasks {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let place = fs::read_to_string(task.path().join("wchan")).unwrap_or_default();
        let _ = write!(listed, " {} ({})", name.trim_end(), place.trim_end());
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> TestProgram {
        let record =
            [&b"/\x003\x00sh\x00-c\x00"[..], script.as_bytes(), b"\x00CARGO_PKG_NAME\x00some\x00"];
        TestProgram::parse(&record.concat()).unwrap()
    }

    #[test]
    fn a_record_is_run_in_its_folder_with_its_environment() {
        let program = shell("pwd; echo $CARGO_PKG_NAME; echo \"test a ... FAILED\"; exit 1");
        assert_eq!(program.name(), "some sh");
        let Ended { passed, results, output } = program.run(&[]).unwrap();
        assert!(!passed);
        assert_eq!(results.failed(), ["a"]);
        assert!(output.ends_with("/\nsome\ntest a ... FAILED\n"), "{output}");
        assert!(shell("exit 0").run(&[]).unwrap().passed);
    }

    #[test]
    fn a_record_that_is_cut_off_is_an_error() {
        assert!(TestProgram::parse(b"/").is_err());
        assert!(TestProgram::parse(b"/\x001\x00").is_err());
    }

    #[test]
    fn threads_are_listed() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        // The kernel resumes the parent before it sets the name of the new program.
        let limit = Instant::now() + Duration::from_secs(10);
        let mut listed = threads_of(&child);
        while !listed.contains("sleep") && Instant::now() < limit {
            std::thread::yield_now();
            listed = threads_of(&child);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(listed.contains("sleep"), "{listed}");
    }
}
