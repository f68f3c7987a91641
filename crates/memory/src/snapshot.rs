//! Snapshots, which are written while rows change.
//!
//! First a new log begins. Then tables are read a few rows at a time, each time under the table's
//! lock, which is released in between. So the rows in a snapshot are of different moments, all of
//! them after the new log began:
//!
//! - A row that has changed since then is in the new log, complete, in its last state: the row that
//!   the snapshot has under its key does not count.
//! - A row that has not changed is in the snapshot as it is.
//!
//! So snapshot and log together are the state at the log's end, for any end after the last moment
//! of the snapshot. To ensure this, the log is synced up to that moment before the snapshot is
//! renamed, and the snapshot has the minimum length of the log
//! ([`super::file_binary::Link::position`]). Rows of an open transaction, or of a commit that is
//! not in the log, are never read: the transaction has marked its tables, the commit holds their
//! locks.
//!
//! At a close nothing is written any more. Then the snapshot has all data, and the logs are
//! removed.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Uuid, Value, ValueRef};
use smallvec::smallvec;

use super::catalog::{Catalog, Slot};
use super::file::{self, Loaded, Section};
use super::file_binary::{self, BLOCK_BYTES};
use super::gate::Gate;
use super::journal::Journal;
use super::row_codec::write_row;
use super::shared::Shared;
use super::table_rows::{TableRows, Values};

/// The content of a snapshot.
pub(super) struct Snapshot<'s> {
    pub(super) schema: u32,
    pub(super) lineage: Uuid,
    pub(super) generation: u64,
    pub(super) catalog: &'s Catalog,
    /// Tables whose models are not registered.
    pub(super) sections: &'s BTreeMap<String, Section>,
    /// The gate at which to wait for the end of a transaction.
    pub(super) gate: &'s Gate,
    /// `None` if it has no log yet.
    pub(super) log: Option<&'s Journal>,
}

impl Snapshot<'_> {
    /// Writes the rows of a table, a block at a time.
    pub(super) fn write_table(&self, out: &mut impl Write, slot: &Slot) -> io::Result<()> {
        file_binary::write_table_head(out, &slot.rows.read())?;
        // Rows after the current last one will be in the log: otherwise writers that add rows at
        // the end could prevent this loop from ending.
        let mut left = Left { after: None, until: last_key(&slot.rows.read()) };
        let mut block = Vec::new();
        loop {
            block.clear();
            let rows = match left.until {
                None => 0,
                Some(_) => {
                    self.read_block(slot, &mut block, &mut left).map_err(io::Error::other)?
                }
            };
            if rows == 0 {
                return out.write_all(&0_u32.to_le_bytes());
            }
            file_binary::write_block(out, &block, rows)?;
        }
    }

    /// Reads some of the remaining rows; waits while a transaction that has changed the table is
    /// open.
    fn read_block(&self, slot: &Slot, block: &mut Vec<u8>, left: &mut Left) -> Result<u32> {
        let mut read = || {
            let rows = slot.rows.read();
            Ok((!rows.changed).then(|| read_rows(&rows, block, left)))
        };
        match read()? {
            Some(rows) => Ok(rows),
            None => self.gate.press(read),
        }
    }

    /// Syncs the part of the log on which the snapshot depends; returns the minimum length of the
    /// log.
    pub(super) fn settle(&self) -> Result<u64> {
        let Some(log) = self.log else { return Ok(0) };
        let (generation, position) = log.end();
        debug_assert_eq!(generation, self.generation);
        log.sync()?;
        Ok(position)
    }
}

/// The range of keys that is still to be read.
struct Left {
    after: Option<Value>,
    until: Option<Value>,
}

fn last_key(rows: &TableRows) -> Option<Value> {
    let mut last = None;
    let range = rows.keys.range(&rows.pages, None, None);
    let _ = rows.keys.walk(range, true, |number| {
        last = Some(rows.pages.value(number, rows.table.key()).to_value());
        ControlFlow::Break(())
    });
    last
}

fn read_rows(rows: &TableRows, block: &mut Vec<u8>, left: &mut Left) -> u32 {
    let columns = &rows.pages.layout.columns;
    let mut values: Values<'_> = smallvec![ValueRef::Null; columns.len()];
    let mut count = 0;
    let low = left.after.as_ref().map(|key| (key.as_ref(), false));
    let high = left.until.as_ref().map(|key| (key.as_ref(), true));
    let range = rows.keys.range(&rows.pages, low, high);
    let mut last = None;
    let _ = rows.keys.walk(range, false, |number| {
        let stored = rows.pages.row(number);
        for (value, column) in values.iter_mut().zip(columns) {
            *value = stored.value(column);
        }
        write_row(block, &values);
        count += 1;
        last = Some(number);
        match block.len() >= BLOCK_BYTES {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    if let Some(number) = last {
        left.after = Some(rows.pages.value(number, rows.table.key()).to_value());
    }
    count
}

impl Shared {
    /// Makes a snapshot and begins another log.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]: the old snapshot and its logs stay.
    pub(super) fn snapshot(&self) -> Result<()> {
        let Some((journal, path)) = self.journal.get().zip(self.path()) else {
            let message = "this memory engine has no log; open it with ?durability=full or relaxed";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let _one = journal.snapshots.lock();
        self.check_open()?;
        let loaded = self.loaded.lock();
        match &*loaded {
            Some(loaded) => self.snapshot_of(journal, path, loaded),
            None => Ok(()),
        }
    }

    /// Makes a snapshot for a caller that holds the lock on snapshots.
    pub(super) fn snapshot_of(
        &self,
        journal: &Journal,
        path: &Path,
        loaded: &Loaded,
    ) -> Result<()> {
        let generation = journal.rotate()?;
        let written = self.write_snapshot(journal, path, loaded, generation, true);
        match &written {
            Ok(()) => {
                let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
                journal.began(generation, bytes);
            }
            Err(_) => journal.put_off(),
        }
        written
    }

    fn write_snapshot(
        &self,
        journal: &Journal,
        path: &Path,
        loaded: &Loaded,
        generation: u64,
        has_log: bool,
    ) -> Result<()> {
        let catalog = self.catalog.load_full();
        let snapshot = Snapshot {
            schema: loaded.schema,
            lineage: journal.lineage(),
            generation,
            catalog: &catalog,
            sections: &loaded.tables,
            gate: &self.gate,
            log: has_log.then_some(journal),
        };
        file::replace(path, &self.vault, |mut out| file_binary::write_snapshot(&mut out, &snapshot))
    }

    /// Makes the last snapshot, which has all data, since nothing is written any more. If it cannot
    /// be written, the logs stay, which have the same data.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if neither is on the disk.
    pub(super) fn close_log(&self, journal: &Journal, path: &Path) -> Result<()> {
        let _one = journal.snapshots.lock();
        if let Some(error) = journal.failure() {
            return Err(error);
        }
        let loaded = self.loaded.lock();
        let Some(loaded) = &*loaded else { return Ok(()) };
        if journal.says_nothing(loaded.schema) {
            journal.close(u64::MAX);
            return Ok(());
        }
        let (generation, _) = journal.end();
        match self.write_snapshot(journal, path, loaded, generation + 1, false) {
            Ok(()) => {
                journal.close(generation + 1);
                Ok(())
            }
            Err(error) => {
                log::warn!(
                    "{}: no snapshot at the close, the log has it all: {error}",
                    path.display()
                );
                journal.sync()
            }
        }
    }

    /// Starts a thread that makes a snapshot if the log has become long.
    pub(super) fn shorten_log(self: &Arc<Self>, journal: &Journal) {
        if !journal.wants_snapshot() {
            return;
        }
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name("marmota-snapshot".to_owned());
        let started = thread.spawn(move || {
            let made = shared.snapshot();
            if let Some(journal) = shared.journal.get() {
                journal.snapshot_made();
            }
            match made {
                Err(error) if error.kind() != ErrorKind::Closed => {
                    log::warn!("no snapshot, the log goes on: {error}");
                }
                _ => {}
            }
        });
        if let Err(error) = started {
            journal.put_off();
            journal.snapshot_made();
            log::warn!("no thread can be started for a snapshot, the log goes on: {error}");
        }
    }

    fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| &**path)
    }

    /// The error for an engine that is closed or whose log has failed.
    #[cold]
    pub(super) fn refusal(&self) -> Error {
        let failure = self.journal.get().and_then(|journal| journal.failure());
        failure.unwrap_or_else(|| Error::new(ErrorKind::Closed, "the memory engine is closed"))
    }
}
