//! The `marmota` program in a separate folder.

use std::process::{Command, Output};

use tempfile::TempDir;

/// The folder in which the program is started.
pub(crate) struct Folder(pub(crate) TempDir);

/// The result of a run of the program.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Moves to a folder within it, which exists; the rest of it is removed at the end of the test.
    pub(crate) fn within(self, name: &str) -> Self {
        let outer = self.0.keep();
        let inner = tempfile::tempdir().unwrap();
        std::fs::remove_dir(inner.path()).unwrap();
        std::fs::rename(outer.join(name), inner.path()).unwrap();
        std::fs::remove_dir_all(outer).unwrap();
        Self(inner)
    }

    /// Returns the program with these arguments, not yet started.
    pub(crate) fn program(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_marmota"));
        command.args(words).current_dir(self.0.path());
        command.env_remove("MARMOTA_DB").env_remove("MARMOTA_KEY");
        command.env_remove("MARMOTA_DIAGNOSTICS_TOKEN");
        command.env_remove("MARMOTA_APP").env_remove("MARMOTA_CONFIG");
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Ended {
        let Output { status, stdout, stderr } = self.program(words).output().unwrap();
        Ended {
            code: status.code().unwrap(),
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
        }
    }
}

impl Ended {
    /// Returns the output, after checking the exit code.
    #[track_caller]
    pub(crate) fn with(self, code: i32) -> String {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.out, self.err);
        self.out + &self.err
    }
}
