//! What a loss of power leaves of a record: what was synced, and of what was
//! written since each sector, or not.
//!
//! A sync that fails drops what it was to write, as Linux does: the pages pass
//! for clean, so that no later sync writes them. The process still reads them.
//! A new file has its name for sure once the folder was synced.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use super::Event;

/// What a disk takes or leaves as a whole.
const SECTOR: usize = 512;

/// A disk that may lose its power behind each event that it was told of.
#[derive(Debug)]
pub struct PowerCut {
    files: HashMap<String, File>,
    dice: Dice,
}

/// Random numbers that are the same for the same seed (xorshift).
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

/// A file: what is on the disk for sure, and what was done since.
#[derive(Debug, Default)]
struct File {
    safe: Option<Vec<u8>>,
    since: Vec<Event>,
    /// How much of `since` the sync that is under way takes along.
    syncing: usize,
    /// What a process reads.
    cached: Option<Vec<u8>>,
    /// True if its name is on the disk for sure.
    is_linked: bool,
}

impl File {
    fn apply(bytes: &mut Option<Vec<u8>>, event: &Event, mut keeps: impl FnMut() -> bool) {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        match event {
            Event::Write { offset, bytes: written, .. } => {
                let file = bytes.get_or_insert_default();
                for (number, part) in written.chunks(SECTOR).enumerate() {
                    let start = place(*offset) + number * SECTOR;
                    if keeps() {
                        file.resize(file.len().max(start + part.len()), 0);
                        file[start..start + part.len()].copy_from_slice(part);
                    }
                }
            }
            Event::Truncate { bytes: length, .. } if keeps() => {
                bytes.get_or_insert_default().resize(place(*length), 0);
            }
            Event::Delete { .. } if keeps() => *bytes = None,
            _ => {}
        }
    }

    fn done(&mut self, event: &Event, dice: &mut Dice) {
        Self::apply(&mut self.cached, event, || true);
        match event {
            Event::Sync { .. } => self.syncing = self.since.len(),
            Event::Synced { .. } => {
                for event in self.since.drain(..self.syncing) {
                    Self::apply(&mut self.safe, &event, || true);
                }
                self.syncing = 0;
            }
            Event::SyncFailed { .. } => {
                // Each sector may have reached the disk before it failed.
                let deleted =
                    self.since.iter().rposition(|one| matches!(one, Event::Delete { .. }));
                for event in self.since.drain(deleted.map_or(0, |place| place + 1)..) {
                    Self::apply(&mut self.safe, &event, || dice.roll(2) == 0);
                }
                self.syncing = 0;
            }
            Event::FolderSynced { .. } => {
                // It is open, so it exists, though nothing may be written yet.
                self.cached.get_or_insert_default();
            }
            event => {
                self.is_linked &= !matches!(event, Event::Delete { .. });
                self.since.push(event.clone());
            }
        }
    }

    /// What was deleted stays so, and what is new has its name.
    fn folder_synced(&mut self) {
        self.is_linked = self.cached.is_some();
        let deleted = self.since.iter().rposition(|event| matches!(event, Event::Delete { .. }));
        if let Some(place) = deleted {
            self.since.drain(..=place);
            self.safe = None;
        }
    }
}

impl PowerCut {
    /// An empty disk; the seed says which sectors are left, and is not 0.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { files: HashMap::new(), dice: Dice(seed.max(1)) }
    }

    /// Goes on by one event of a record.
    pub fn go_on(&mut self, event: &Event) {
        let Self { files, dice } = self;
        files.entry(event.file().to_owned()).or_default().done(event, dice);
        if let Event::FolderSynced { .. } = event {
            files.values_mut().for_each(File::folder_synced);
        }
    }

    /// Writes into an empty folder what a process that was killed leaves: all
    /// that was written, whether it was synced or not.
    ///
    /// # Errors
    /// The system's, of the folder.
    pub fn leave_killed(&self, folder: &Path) -> io::Result<()> {
        for (name, file) in &self.files {
            if let Some(bytes) = &file.cached {
                std::fs::write(folder.join(name), bytes)?;
            }
        }
        Ok(())
    }

    /// Writes into an empty folder what would be left now, where of what was
    /// not synced each sector is there with a chance of `eighths`.
    ///
    /// # Errors
    /// The system's, of the folder.
    pub fn leave(&mut self, folder: &Path, eighths: u64) -> io::Result<()> {
        let Self { files, dice } = self;
        // In an order that does not differ from run to run.
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
