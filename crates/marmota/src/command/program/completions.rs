//! `completions`: a script that completes the program's subcommands and options in a shell.
//!
//! ```text
//! $ people completions bash > /etc/bash_completion.d/people
//! $ people mi<TAB>
//! $ people migrate
//! ```
//!
//! The script has the custom subcommands of the program too. It is made by the crate `clap_complete`
//! from the same parser that reads the arguments.

use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::command::{Command, Done, own_name, report};

/// Prints a script that completes subcommands and options in a shell
///
/// bash: `source <(PROGRAM completions bash)`. zsh and fish: save the script in a folder from which
/// the shell loads completions.
#[derive(Args)]
pub(in crate::command) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Prints the script, which is made from the parser: all options are in it.
    pub(in crate::command) fn run(&self, command: &Command) -> Done {
        let name = own_name();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command.parser(&name), name.clone(), &mut script);
        report(String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}
