//! The options of `serve` for backups in a folder, which administrators see and make in the browser.

use std::path::PathBuf;

use clap::Args;
use marmota_jobs::CronPattern;
use marmota_store::{Store, StoreBuilder};

use crate::operations::Backups;

/// The options of backups.
#[derive(Args)]
pub(crate) struct BackupOptions {
    /// Lets administrators see and make backups in this folder, in the administration and by
    /// /api/-/backups; it needs --auth; see the guide, 34-backup.md
    #[arg(long, value_name = "FOLDER")]
    backups: Option<PathBuf>,
    /// Number of backups to keep in the folder; older ones are removed after each new one
    #[arg(long, value_name = "N", requires = "backups",
          value_parser = clap::value_parser!(u32).range(1..))]
    backup_keep: Option<u32>,
    /// Makes backups at these times, in UTC: minute, hour, day of month, month, day of week, for
    /// example '30 3 * * *'. Without it, administrators set the times in the browser
    #[arg(long, value_name = "PATTERN", requires = "backups", value_parser = pattern)]
    backup_schedule: Option<CronPattern>,
}

impl BackupOptions {
    /// Returns true if administrators see backups.
    pub(crate) const fn is_on(&self) -> bool {
        self.backups.is_some()
    }

    /// Adds the tables of jobs to a store, for a schedule. A replica has those of its primary.
    pub(crate) fn models(&self, builder: StoreBuilder, is_replica: bool) -> StoreBuilder {
        match self.is_on() && !is_replica {
            true => marmota_jobs::models(builder),
            false => builder,
        }
    }

    /// Returns the backups of a store, which was opened with this URL.
    pub(crate) fn open(&self, store: &Store, url: &str) -> Option<Backups> {
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(|path| path.file_name()?.to_str());
        // The part after these may contain a password.
        let database = url.split(['?', '@']).next().unwrap_or_default();
        let restore = format!("{} restore --db {database}", program.unwrap_or("marmota"));
        let backups = Backups::new(store, self.backups.as_ref()?).restore_command(restore);
        let backups = match self.backup_keep {
            Some(keep) => backups.keep(keep as usize),
            None => backups,
        };
        Some(match &self.backup_schedule {
            Some(pattern) => backups.schedule(pattern.clone()),
            None => backups,
        })
    }
}

fn pattern(text: &str) -> Result<CronPattern, String> {
    text.parse().map_err(|error: marmota_model::Error| error.message().to_owned())
}
