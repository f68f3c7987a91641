//! A machine with a database, whose power is cut while it works.

use std::path::PathBuf;

use marmota::sqlite::disk::{Disk, PowerCut};

use super::Failed;
use crate::stress::sample::Dice;
use crate::stress::stand::Folder;

/// A machine: a folder, and the record of all writes to its databases.
pub(super) struct Machine {
    folder: Folder,
    disk: Disk,
    power: PowerCut,
    dice: Dice,
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
        Ok(Self { folder, disk, power, dice: Dice(seed) })
    }

    /// Returns the path of a file.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        // The record has paths in SQLite's form.
        self.folder.0.canonicalize().unwrap_or_else(|_| self.folder.0.clone()).join(name)
    }

    /// Cuts the power now, or kills the process, and returns what is left. The process that still
    /// runs does not notice: its later writes are not in the result.
    pub(super) fn cut(&mut self) -> Result<Folder, Failed> {
        for event in self.disk.take_record() {
            self.power.go_on(&event);
        }
        let left = Folder::in_memory()?;
        match self.dice.roll() % 4 {
            0 => self.power.leave_killed(&left.0)?,
            part => self.power.leave(&left.0, [0, 3, 7][part as usize - 1])?,
        }
        Ok(left)
    }
}
