//! `completions`: a script that completes the program's subcommands and options in a shell.

use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use super::{Command, Done, own_name, report};

/// Prints a script that completes subcommands and options in a shell
#[derive(Args)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self, command: &Command) -> Done {
        let name = own_name();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command.parser(&name), name.clone(), &mut script);
        report(String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}
