//! `restore`: restores a database from a backup, through [`crate::restore_all`].
//!
//! ```text
//! $ people restore backups/backup-20260704T091500.123456Z --replace
//! sqlite:data/people.db is as it was at 2026-07-04T09:15:00.123456Z: 2 tables, 31 rows
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{Command, Database, Done, notice};

/// Restores the database from a backup, after checking the backup
#[derive(Args)]
pub(super) struct Restore {
    /// The backup; its manifest is in the same folder
    from: PathBuf,
    #[command(flatten)]
    database: Database,
    /// URL of another database of the backup, by its name in the store; once for each
    #[arg(long = "database", value_name = "NAME=URL", value_parser = named)]
    others: Vec<(String, String)>,
    /// Replace an existing database
    #[arg(long)]
    replace: bool,
}

impl Restore {
    /// Restores all databases of the backup, and prints a line for each.
    pub(super) fn run(&self, command: &Command) -> Done {
        let url = command.url(&self.database);
        let others = self.others.iter().map(|(name, url)| (&**name, &**url));
        let urls: Vec<(&str, &str)> = std::iter::once(("main", url)).chain(others).collect();
        let manifest = crate::restore_all(&self.from, &urls, self.replace)?;
        print_line(url, &manifest.taken, &manifest.tables);
        for other in &manifest.others {
            let url = urls.iter().find(|(name, _)| *name == other.name);
            print_line(url.map_or(&*other.name, |(_, url)| url), &other.taken, &other.tables);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints the line of one restored database.
fn print_line(url: &str, taken: &str, tables: &BTreeMap<String, u64>) {
    let rows: u64 = tables.values().sum();
    notice(format_args!(
        "{url} was restored to its state at {taken}: {} tables, {rows} rows",
        tables.len()
    ));
}

/// Parses `NAME=URL`.
fn named(argument: &str) -> Result<(String, String), String> {
    match argument.split_once('=') {
        Some((name, url)) if !name.is_empty() => Ok((name.to_owned(), url.to_owned())),
        _ => Err("write NAME=URL, such as archive=sqlite:data/archive.db".to_owned()),
    }
}
