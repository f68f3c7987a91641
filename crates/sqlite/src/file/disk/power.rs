//! The state of a disk after a loss of power: everything that was synced, and each sector written
//! since then either with its old or with its new content.
//!
//! A failed sync drops what it should have written, like on Linux: the pages are marked clean, so
//! no later sync writes them, but the process still reads them. The name of a new file is durable
//! only after a sync of the folder.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use crate::file::disk::DiskEvent;

/// The unit that a disk writes atomically.
const SECTOR: usize = 512;

/// A disk that may lose power after each recorded event.
#[derive(Debug)]
pub struct PowerCut {
    files: HashMap<String, File>,
    dice: Dice,
}

/// Random numbers, reproducible by seed (xorshift).
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A file: its durable content, and the events since then.
#[derive(Debug, Default)]
struct File {
    safe: Option<Vec<u8>>,
    since: Vec<DiskEvent>,
    /// The number of events in `since` that the current sync includes.
    syncing: usize,
    /// The content that a process reads.
    cached: Option<Vec<u8>>,
    /// True if its name is durable.
    is_linked: bool,
}

impl File {
    fn apply(bytes: &mut Option<Vec<u8>>, event: &DiskEvent, mut keeps: impl FnMut() -> bool) {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        match event {
            DiskEvent::Write { offset, bytes: written, .. } => {
                let file = bytes.get_or_insert_default();
                for (number, part) in written.chunks(SECTOR).enumerate() {
                    let start = place(*offset) + number * SECTOR;
                    if keeps() {
                        file.resize(file.len().max(start + part.len()), 0);
                        file[start..start + part.len()].copy_from_slice(part);
                    }
                }
            }
            DiskEvent::Truncate { bytes: length, .. } if keeps() => {
                bytes.get_or_insert_default().resize(place(*length), 0);
            }
            DiskEvent::Delete { .. } if keeps() => *bytes = None,
            _ => {}
        }
    }

    fn done(&mut self, event: &DiskEvent, dice: &mut Dice) {
        Self::apply(&mut self.cached, event, || true);
        match event {
            DiskEvent::Sync { .. } => self.syncing = self.since.len(),
            DiskEvent::Synced { .. } => {
                for event in self.since.drain(..self.syncing) {
                    Self::apply(&mut self.safe, &event, || true);
                }
                self.syncing = 0;
            }
            DiskEvent::SyncFailed { .. } => {
                // Each sector may have reached the disk before the sync failed.
                let deleted =
                    self.since.iter().rposition(|one| matches!(one, DiskEvent::Delete { .. }));
                for event in self.since.drain(deleted.map_or(0, |place| place + 1)..) {
                    Self::apply(&mut self.safe, &event, || dice.roll(2) == 0);
                }
                self.syncing = 0;
            }
            DiskEvent::FolderSynced { .. } => {
                // It is open, so it exists, even if nothing was written yet.
                self.cached.get_or_insert_default();
            }
            event => {
                self.is_linked &= !matches!(event, DiskEvent::Delete { .. });
                self.since.push(event.clone());
            }
        }
    }

    /// Makes deletions and new names durable.
    fn folder_synced(&mut self) {
        self.is_linked = self.cached.is_some();
        let deleted =
            self.since.iter().rposition(|event| matches!(event, DiskEvent::Delete { .. }));
        if let Some(place) = deleted {
            self.since.drain(..=place);
            self.safe = None;
        }
    }
}

impl PowerCut {
    /// Returns an empty disk. The seed, which is not 0, determines which sectors survive.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { files: HashMap::new(), dice: Dice(seed.max(1)) }
    }

    /// Returns a disk on which the files of a folder are durable.
    ///
    /// # Errors
    /// The system's error for the folder.
    pub fn holding(seed: u64, folder: &Path) -> io::Result<Self> {
        let mut disk = Self::new(seed);
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let bytes = std::fs::read(entry.path())?;
                let (safe, cached) = (Some(bytes.clone()), Some(bytes));
                let file = File { safe, cached, is_linked: true, ..File::default() };
                disk.files.insert(entry.file_name().to_string_lossy().into_owned(), file);
            }
        }
        Ok(disk)
    }

    /// Applies one event of a record.
    pub fn go_on(&mut self, event: &DiskEvent) {
        let Self { files, dice } = self;
        files.entry(event.file().to_owned()).or_default().done(event, dice);
        if let DiskEvent::FolderSynced { .. } = event {
            files.values_mut().for_each(File::folder_synced);
        }
    }

    /// Writes the state after a killed process to an empty folder: everything that was written,
    /// synced or not.
    ///
    /// # Errors
    /// The system's error for the folder.
    pub fn leave_killed(&self, folder: &Path) -> io::Result<()> {
        for (name, file) in &self.files {
            if let Some(bytes) = &file.cached {
                std::fs::write(folder.join(name), bytes)?;
            }
        }
        Ok(())
    }

    /// Writes the state after a loss of power to an empty folder. Each sector that was not synced
    /// survives with a probability of `eighths` / 8.
    ///
    /// # Errors
    /// The system's error for the folder.
    pub fn leave(&mut self, folder: &Path, eighths: u64) -> io::Result<()> {
        let Self { files, dice } = self;
        // In an order that is the same in each run.
        let mut names: Vec<&String> = files.keys().collect();
        names.sort_unstable();
        for name in names {
            let file = &files[name];
            let mut bytes = file.safe.clone();
            for event in &file.since {
                File::apply(&mut bytes, event, || dice.roll(8) < eighths);
            }
            let is_named = file.is_linked || dice.roll(8) < eighths;
            if let Some(bytes) = bytes.filter(|_| is_named) {
                std::fs::write(folder.join(name), bytes)?;
            }
        }
        Ok(())
    }
}
