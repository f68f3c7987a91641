//! `restore`: a database from a backup.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{Command, Database, Done};

/// Makes the database what a backup has, after checking that
#[derive(Args)]
pub(super) struct Restore {
    /// The backup; its manifest is beside it
    from: PathBuf,
    #[command(flatten)]
    database: Database,
    /// Replace the database that is there
    #[arg(long)]
    replace: bool,
}

impl Restore {
    pub(super) fn run(&self, command: &Command) -> Done {
        let url = command.url(&self.database);
        let manifest = crate::restore(&self.from, url, self.replace)?;
        let rows: u64 = manifest.tables.values().sum();
        println!(
            "{url} is as it was at {}: {} tables, {rows} rows",
            manifest.taken,
            manifest.tables.len()
        );
        Ok(ExitCode::SUCCESS)
    }
}
