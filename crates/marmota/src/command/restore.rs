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

/// Restores the database from a backup or a replica target, after checking it
#[derive(Args)]
pub(super) struct Restore {
    /// The backup; its manifest is in the same folder
    #[cfg_attr(feature = "replication", arg(required_unless_present = "from"))]
    backup: Option<PathBuf>,
    #[cfg(feature = "replication")]
    #[command(flatten)]
    replica: ReplicaSource,
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
        #[cfg(feature = "replication")]
        if let Some(from) = &self.replica.from {
            return self.replica.restore(from, url, self.replace);
        }
        let Some(backup) = &self.backup else { return Err("name a backup".into()) };
        let others = self.others.iter().map(|(name, url)| (&**name, &**url));
        let urls: Vec<(&str, &str)> = std::iter::once(("main", url)).chain(others).collect();
        let manifest = crate::restore_all(backup, &urls, self.replace)?;
        print_line(url, &manifest.taken, &manifest.tables);
        for other in &manifest.others {
            let url = urls.iter().find(|(name, _)| *name == other.name);
            print_line(url.map_or(&*other.name, |(_, url)| url), &other.taken, &other.tables);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A replica target as the source.
#[cfg(feature = "replication")]
#[derive(Args)]
struct ReplicaSource {
    /// The target that `serve --replicate-to` writes: file:///folder or s3://bucket/prefix
    #[arg(long, value_name = "URL", conflicts_with_all = ["backup", "others"])]
    from: Option<String>,
    /// Restores the state at this time, as 2026-07-04T09:15:00Z; the last state if not given
    #[arg(long, value_name = "TIME", requires = "from", conflicts_with = "position")]
    at: Option<marmota_model::Timestamp>,
    /// Restores the state at this position of the change feed, as in `Marmota-Position`
    #[arg(long, value_name = "POSITION", requires = "from")]
    position: Option<marmota_store::change::Position>,
}

#[cfg(feature = "replication")]
impl ReplicaSource {
    /// Restores the database, and prints its state.
    fn restore(&self, from: &str, url: &str, replaces: bool) -> Done {
        use crate::replication::{RestorePoint, restore_replica};

        let point = match (self.at, self.position) {
            (Some(time), _) => RestorePoint::Time(time),
            (None, Some(position)) => RestorePoint::Position(position),
            (None, None) => RestorePoint::Latest,
        };
        let restored = restore_replica(from, point, url, replaces)?;
        notice(format_args!(
            "{url} was restored to its state at {}: {} tables, {} rows",
            restored.replica.time, restored.tables, restored.rows
        ));
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
