//! The program `marmota` while it serves.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

pub(crate) struct Program {
    process: Child,
    /// What it has printed, up to the addresses of the pages.
    pub(crate) printed: String,
    pub(crate) url: String,
    pub(crate) folder: tempfile::TempDir,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Program {
    pub(crate) fn start(options: &[&str]) -> Self {
        Self::start_with(options, &[])
    }

    /// Starts the program with variables of the environment.
    pub(crate) fn start_with(options: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), options, variables)
    }

    /// Starts the program with the files of a new application.
    pub(crate) fn start_application() -> Self {
        Self::start_application_with(&[])
    }

    /// Does so with options.
    pub(crate) fn start_application_with(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_marmota"));
        let made = program.args(["new", "."]).current_dir(folder.path()).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        Self::start_in(folder, options, &[])
    }

    /// Starts the program in a folder.
    pub(crate) fn start_in(
        folder: tempfile::TempDir,
        options: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut program = Command::new(env!("CARGO_BIN_EXE_marmota"));
        program.args(["serve", "--listen", "127.0.0.1:0"]).args(options).current_dir(folder.path());
        program.envs(variables.iter().copied());
        let mut process = program.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut printed = String::new();
        // The address of the API is the last line.
        while !printed.lines().last().is_some_and(|line| line.trim().starts_with("API ")) {
            assert!(said.read_line(&mut printed).unwrap() > 0, "it has ended: {printed}");
        }
        let line = printed.lines().last().unwrap();
        let url = line.split_whitespace().last().unwrap().trim_end_matches("/api").to_owned();
        Self { process, printed, url, folder }
    }

    /// Returns the printed address that has this part.
    pub(crate) fn address_with(&self, part: &str) -> String {
        let mut words = self.printed.split_whitespace();
        words.find(|word| word.starts_with("http") && word.contains(part)).unwrap().to_owned()
    }
}
