//! A machine with a database, whose power is cut while it works.

use std::path::PathBuf;

use marmota::sqlite::disk::{Disk, PowerCut};

use super::Failed;
#[cfg(feature = "replication")]
use super::logged_files::LoggedFiles;
use crate::stress::sample::Dice;
use crate::stress::stand::Folder;

/// A machine: a folder, and what is known of its disk.
pub(super) struct Machine {
    folder: Folder,
    power: Power,
    dice: Dice,
}

/// What is known of a disk.
enum Power {
    /// All writes by SQLite.
    Recorded { disk: Disk, power: PowerCut },
    /// What is on the disk of a memory engine.
    #[cfg(feature = "replication")]
    Files(LoggedFiles),
}

impl Machine {
    /// Creates a machine without files.
    pub(super) fn new(seed: u64) -> Result<Self, Failed> {
        Self::with(Folder::in_memory()?, seed)
    }

    /// Starts a machine with the files of a folder. Only files that are written later by SQLite are
    /// subject to power cuts.
    pub(super) fn with(folder: Folder, seed: u64) -> Result<Self, Failed> {
        let place = folder.0.canonicalize()?;
        let power = PowerCut::holding(seed, &place)?;
        let disk = Disk::at(&place)?;
        disk.record(true);
        Ok(Self { folder, power: Power::Recorded { disk, power }, dice: Dice(seed) })
    }

    /// Starts a machine with the files of a memory engine.
    #[cfg(feature = "replication")]
    pub(super) fn with_logs(folder: Folder, file: &str, seed: u64) -> Result<Self, Failed> {
        let files = LoggedFiles::new(folder.0.canonicalize()?.join(file));
        Ok(Self { folder, power: Power::Files(files), dice: Dice(seed) })
    }

    /// Records that all writes so far are on the disk, which a memory engine has waited for.
    #[cfg(feature = "replication")]
    pub(super) fn note_synced(&self) {
        if let Power::Files(files) = &self.power {
            files.note_synced();
        }
    }

    /// Returns the path of a file.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        // The record has paths in SQLite's form.
        self.folder.0.canonicalize().unwrap_or_else(|_| self.folder.0.clone()).join(name)
    }

    /// Cuts the power now, or kills the process, and returns what is left. The process that still
    /// runs does not notice: its later writes are not in the result.
    pub(super) fn cut(&mut self) -> Result<Folder, Failed> {
        let left = Folder::in_memory()?;
        let part = self.dice.roll() % 4;
        match &mut self.power {
            Power::Recorded { disk, power } => {
                for event in disk.take_record() {
                    power.go_on(&event);
                }
                match part {
                    0 => power.leave_killed(&left.0)?,
                    part => power.leave(&left.0, [0, 3, 7][part as usize - 1])?,
                }
            }
            #[cfg(feature = "replication")]
            Power::Files(files) => files.leave(&left.0, part == 0, &mut self.dice)?,
        }
        Ok(left)
    }
}
