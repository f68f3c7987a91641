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
use marmota_model::text::counted;
use serde_json::json;

use super::{Command, Database, Done, JsonOutput};

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
    #[command(flatten)]
    output: JsonOutput,
}

impl Restore {
    /// Restores all databases of the backup, and prints a line for each.
    pub(super) fn run(&self, command: &Command) -> Done {
        let url = command.url(&self.database);
        #[cfg(feature = "replication")]
        if let Some(from) = &self.replica.from {
            return self.replica.restore(from, url, self.replace, self.output);
        }
        let Some(backup) = &self.backup else { return Err("name a backup".into()) };
        let others = self.others.iter().map(|(name, url)| (&**name, &**url));
        let urls: Vec<(&str, &str)> = std::iter::once(("main", url)).chain(others).collect();
        let manifest = crate::restore_all(backup, &urls, self.replace)?;
        let mut restored = vec![Restored::of(url, &manifest.taken, &manifest.tables)];
        for other in &manifest.others {
            let url = urls.iter().find(|(name, _)| *name == other.name);
            let url = url.map_or(&*other.name, |(_, url)| url);
            restored.push(Restored::of(url, &other.taken, &other.tables));
        }
        Restored::print(&restored, self.output);
        Ok(ExitCode::SUCCESS)
    }
}

/// A database that was restored.
struct Restored<'r> {
    url: &'r str,
    time: String,
    tables: u64,
    rows: u64,
}

impl<'r> Restored<'r> {
    fn of(url: &'r str, time: &str, tables: &BTreeMap<String, u64>) -> Self {
        let rows = tables.values().sum();
        Self { url, time: time.to_owned(), tables: tables.len() as u64, rows }
    }

    /// Prints an object or a line for each database.
    fn print(restored: &[Self], output: JsonOutput) {
        output.notice(
            || {
                let databases = restored.iter().map(|Self { url, time, tables, rows }| {
                    json!({ "url": url, "time": time, "tables": tables, "rows": rows })
                });
                json!({ "databases": databases.collect::<Vec<_>>() })
            },
            || {
                let lines = restored.iter().map(|Self { url, time, tables, rows }| {
                    let tables = counted(*tables, "table");
                    let rows = counted(*rows, "row");
                    format!("{url} was restored to its state at {time}: {tables}, {rows}")
                });
                lines.collect::<Vec<_>>().join("\n")
            },
        );
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
    fn restore(&self, from: &str, url: &str, replaces: bool, output: JsonOutput) -> Done {
        use crate::replication::{RestorePoint, restore_replica};

        let point = match (self.at, self.position) {
            (Some(time), _) => RestorePoint::Time(time),
            (None, Some(position)) => RestorePoint::Position(position),
            (None, None) => RestorePoint::Latest,
        };
        let restored = restore_replica(from, point, url, replaces)?;
        let (tables, rows) = (restored.tables as u64, restored.rows);
        let time = restored.replica.time.to_string();
        Restored::print(&[Restored { url, time, tables, rows }], output);
        Ok(ExitCode::SUCCESS)
    }
}

/// Parses `NAME=URL`.
fn named(argument: &str) -> Result<(String, String), String> {
    match argument.split_once('=') {
        Some((name, url)) if !name.is_empty() => Ok((name.to_owned(), url.to_owned())),
        _ => Err("write NAME=URL, such as archive=sqlite:data/archive.db".to_owned()),
    }
}
