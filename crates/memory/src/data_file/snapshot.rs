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
//! ([`crate::data_file::contents::Link::position`]). Rows of an open transaction, or of a commit that is
//! not in the log, are never read: the transaction has marked its tables, the commit holds their
//! locks.
//!
//! At a close nothing is written any more. Then the snapshot has all data, and the logs are
//! removed.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::ControlFlow;

use marmota_model::{Result, Uuid, Value, ValueRef};
use smallvec::smallvec;

use crate::catalog::{Catalog, Slot};
use crate::data_file::binary::{self, BLOCK_BYTES};
use crate::data_file::contents::Section;
use crate::data_file::row_codec::write_row;
use crate::lock::transaction_gate::TransactionGate;
use crate::table::table_rows::{TableRows, Values};

/// The content of a snapshot.
pub(crate) struct Snapshot<'s> {
    pub(crate) schema: u32,
    pub(crate) lineage: Uuid,
    pub(crate) generation: u64,
    pub(crate) catalog: &'s Catalog,
    /// Tables whose models are not registered.
    pub(crate) sections: &'s BTreeMap<String, Section>,
    /// The gate at which to wait for the end of a transaction.
    pub(crate) gate: &'s TransactionGate,
    /// Syncs the log of this generation, on which the snapshot depends; returns the minimum length
    /// of the log. `None` if it has no log yet.
    pub(crate) settle: Option<&'s dyn Fn(u64) -> Result<u64>>,
}

impl Snapshot<'_> {
    /// Writes the rows of a table, a block at a time.
    fn write_table(&self, out: &mut impl Write, slot: &Slot) -> io::Result<()> {
        binary::write_table_head(out, &slot.rows.read())?;
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
            binary::write_block(out, &block, rows)?;
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

    /// Writes the snapshot while its rows may change.
    ///
    /// # Errors
    /// The outer error for content that cannot be written in this format, the inner one if the file
    /// cannot be written.
    pub(crate) fn write(&self, out: &mut impl Write) -> Result<io::Result<()>> {
        binary::check_sections(self.sections)?;
        let mut failed = None;
        let written = binary::write_linked(out, |mut content| {
            content.write_all(&self.schema.to_le_bytes())?;
            content.write_all(self.lineage.as_bytes())?;
            content.write_all(&self.generation.to_le_bytes())?;
            let tables = self.catalog.slots.len() + self.sections.len();
            content.write_all(&(tables as u32).to_le_bytes())?;
            for slot in &self.catalog.slots {
                self.write_table(&mut content, slot)?;
            }
            binary::write_sections(&mut content, self.sections)?;
            let position = self.settle.map_or(Ok(0), |settle| settle(self.generation));
            let position = position.unwrap_or_else(|error| {
                failed = Some(error);
                0
            });
            content.write_all(&position.to_le_bytes())
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(written),
        }
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
