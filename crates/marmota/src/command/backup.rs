//! `backup`: a checked copy of the database, while other processes may write to it.
//!
//! ```text
//! $ people backup --keep 7
//! backups/backup-20260704T091500.123456Z: 73728 bytes, 2 tables, 31 rows, checked
//! ```
//!
//! The copy is made and checked by the store ([`marmota_store::StoreBuilder::backup_with`]); this file
//! names it, shows a progress bar on a terminal, and removes old copies. A backup consists of the copy
//! and its manifest, in the same folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use marmota_model::text::counted;
use marmota_store::backup::{keep_newest, new_in_folder};
use marmota_store::private_file::have_folder;
use serde_json::json;

use super::{Command, Database, Done, JsonOutput};

/// Makes a backup of the database, which others may use meanwhile
#[derive(Args)]
pub(super) struct Backup {
    #[command(flatten)]
    database: Database,
    /// Folder of the backup, which is named by the time. The last folder of the path is created if
    /// it is missing
    #[arg(long, value_name = "FOLDER", default_value = "backups", conflicts_with = "to")]
    folder: PathBuf,
    /// File of the backup, instead of one in a folder
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Prefix of the names in the folder
    #[arg(long, default_value = "backup", value_parser = plain_name)]
    name: String,
    /// Number of backups to keep in the folder; older ones with the same prefix are removed after
    /// the new one is finished
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
          conflicts_with = "to")]
    keep: Option<u32>,
    #[command(flatten)]
    output: JsonOutput,
}

impl Backup {
    /// Makes the backup, then removes old ones. A failed backup removes nothing.
    pub(super) fn run(&self, command: &Command) -> Done {
        let url = command.url(&self.database);
        if !crate::restore::is_there(url) {
            return Err(format!("there is no database {url}: name the database with --db").into());
        }
        let begin = format!("{}-", self.name);
        let file = match &self.to {
            Some(file) => file.clone(),
            None => {
                // Only the last folder is created: a typo in the path must not create folders.
                have_folder(&self.folder, false)?;
                let file = new_in_folder(&self.folder, &begin);
                have_folder(&file, true)?;
                file
            }
        };
        let bar = bar();
        let manifest = command.builder(url)?.backup_with(&file, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let manifest = manifest?;
        let others =
            manifest.others.iter().map(|other| (other.path(&file), other.bytes, &other.tables));
        let copies: Vec<_> = std::iter::once((file.clone(), manifest.bytes, &manifest.tables))
            .chain(others)
            .collect();
        let removed = match self.keep {
            Some(keep) => keep_newest(&self.folder, &begin, keep as usize)?,
            None => Vec::new(),
        };
        self.output.notice(
            || {
                let copies = copies.iter().map(|(file, bytes, tables)| {
                    let rows = tables.values().sum::<u64>();
                    json!({ "file": file, "bytes": bytes, "tables": tables.len(), "rows": rows })
                });
                json!({ "copies": copies.collect::<Vec<_>>(), "removed": removed })
            },
            || {
                let copies =
                    copies.iter().map(|(file, bytes, tables)| line_of(file, *bytes, tables));
                let removed = removed.iter().map(|old| format!("{} removed", old.display()));
                copies.chain(removed).collect::<Vec<_>>().join("\n")
            },
        );
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the line of one copied database.
fn line_of(file: &Path, bytes: u64, tables: &BTreeMap<String, u64>) -> String {
    let rows = counted(tables.values().sum(), "row");
    let tables = counted(tables.len() as u64, "table");
    format!("{}: {bytes} bytes, {tables}, {rows}, checked", file.display())
}

/// Returns a progress bar in bytes; it is drawn only on a terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent}% {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    bar
}

/// Parses the prefix of names: no separators, so that it stays in the folder.
fn plain_name(name: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    match !name.is_empty() && name.len() <= 100 && name.bytes().all(is_plain) {
        true => Ok(name.to_owned()),
        false => Err("a name must have 1 to 100 letters, digits, `-` or `_`".to_owned()),
    }
}
