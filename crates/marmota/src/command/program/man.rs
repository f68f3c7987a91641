//! `man`: the manual pages of the program, made from the parser of its arguments.
//!
//! ```text
//! $ people man --out /usr/local/share/man/man1
//! $ man people-serve
//! ```

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::command::{Command, Done, own_name, report};

/// Prints the manual page of the program, or writes those of all subcommands
#[derive(Args)]
pub(in crate::command) struct Man {
    /// Writes a page for the program and for each subcommand to this folder; it is made if it is
    /// missing
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

impl Man {
    /// Prints or writes the pages.
    pub(in crate::command) fn run(&self, command: &Command) -> Done {
        let parser = command.parser(&own_name());
        #[cfg(feature = "app")]
        let parser = command.files.with_variables(parser);
        match &self.out {
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(parser).render(&mut page)?;
                report(String::from_utf8_lossy(&page).trim_end())?;
            }
            Some(folder) => {
                let name = folder.display();
                std::fs::create_dir_all(folder)
                    .map_err(|error| format!("cannot make {name}: {error}"))?;
                clap_mangen::generate_to(parser, folder)
                    .map_err(|error| format!("cannot write the pages to {name}: {error}"))?;
                report(format_args!("The manual pages are in {name}."))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
