//! `migrate`: makes the database what the program's models need, and serves
//! nothing.

use std::process::ExitCode;

use clap::Args;

use super::{Command, Database, Done};

/// Makes what the models need: tables, columns and indexes that are missing
#[derive(Args)]
pub(super) struct Migrate {
    #[command(flatten)]
    database: Database,
}

impl Migrate {
    pub(super) fn run(&self, command: &Command) -> Done {
        let url = command.url(&self.database);
        command.builder(url)?.open()?.close()?;
        println!("The database fits the models.");
        Ok(ExitCode::SUCCESS)
    }
}
