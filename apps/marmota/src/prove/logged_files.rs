//! The files of a memory engine, whose power is cut: its file, and the logs after it.
//!
//! All logs except the last one are on the disk, and so is the file. Of the last one, the disk has what
//! was there when a write was acknowledged that waits for the disk, and any part of the rest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use marmota::store::log_copy::log_path;

use crate::stress::sample::Dice;

/// The files of a database.
pub(super) struct LoggedFiles {
    path: PathBuf,
    synced: Mutex<Option<Synced>>,
}

/// What is on the disk for certain.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Synced {
    log: u64,
    length: u64,
    /// The time at which the file was written: a later one depends on more of the log.
    written: Option<SystemTime>,
}

impl LoggedFiles {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path, synced: Mutex::new(None) }
    }

    /// Records that everything so far is on the disk.
    pub(super) fn note_synced(&self) {
        let synced = self.logs().ok().and_then(|logs| {
            let log = *logs.last()?;
            let length = fs::metadata(log_path(&self.path, log)).ok()?.len();
            Some(Synced { log, length, written: self.written() })
        });
        *self.synced.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = synced;
    }

    fn written(&self) -> Option<SystemTime> {
        fs::metadata(&self.path).and_then(|file| file.modified()).ok()
    }

    /// Returns the numbers of the logs.
    fn logs(&self) -> io::Result<Vec<u64>> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let name = self.path.file_name().unwrap_or_default();
        let begin = format!("{}.log.", name.display());
        let mut logs = Vec::new();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            logs.extend(
                name.to_str().and_then(|name| name.strip_prefix(&*begin)?.parse::<u64>().ok()),
            );
        }
        logs.sort_unstable();
        Ok(logs)
    }

    /// Writes to a folder what is left after a cut, while the process still runs. Of a killed process,
    /// everything is.
    pub(super) fn leave(&self, to: &Path, is_killed: bool, dice: &mut Dice) -> io::Result<()> {
        let name = self.path.file_name().unwrap_or_default();
        // The files of one moment: none was replaced, begun or removed while they were copied.
        let (file, logs, written) = loop {
            let before = (self.logs()?, self.written());
            let file = fs::read(&self.path);
            let bytes = before.0.iter().map(|&log| Ok((log, fs::read(log_path(&self.path, log))?)));
            let bytes: io::Result<Vec<(u64, Vec<u8>)>> = bytes.collect();
            if (self.logs()?, self.written()) == before
                && let Ok(bytes) = bytes
            {
                break (file, bytes, before.1);
            }
        };
        if let Ok(file) = file {
            fs::write(to.join(name), file)?;
        }
        let synced = *self.synced.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let last = logs.last().map(|(log, _)| *log);
        for (log, mut bytes) in logs {
            if let Some(synced) = synced.filter(|synced| {
                !is_killed && last == Some(log) && synced.log == log && synced.written == written
            }) {
                lose(&mut bytes, usize::try_from(synced.length).unwrap_or(usize::MAX), dice);
            }
            fs::write(log_path(&to.join(name), log), bytes)?;
        }
        Ok(())
    }
}

/// Loses bytes after a position: those after a random one, and a part before it.
fn lose(bytes: &mut Vec<u8>, synced: usize, dice: &mut Dice) {
    let Some(rest) = bytes.len().checked_sub(synced).filter(|rest| *rest > 0) else { return };
    let mut below = |end: usize| usize::try_from(dice.roll()).unwrap_or(0) % (end + 1);
    let kept = synced + below(rest);
    bytes.truncate(kept);
    let hole = synced + below(kept - synced);
    let hole_end = hole + below((kept - hole).min(512));
    if below(1) == 0 {
        bytes[hole..hole_end].fill(0);
    }
}
