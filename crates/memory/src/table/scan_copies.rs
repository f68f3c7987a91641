//! The open scans of a table, each with copies of the rows that have changed since it began.

use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use marmota_model::Value;
use parking_lot::Mutex;

/// The maximum size of the copies for one scan, in bytes.
pub(crate) const COPIES_BYTES_MAX: usize = 64 << 20;

/// Copies of the rows that have changed since a scan began.
#[derive(Default)]
pub(crate) struct Copies {
    pub(crate) rows: HashMap<u32, Box<[Value]>>,
    pub(crate) bytes: usize,
}

/// The open scans of a table.
#[derive(Default)]
pub(crate) struct Scans(Mutex<Vec<Weak<Mutex<Copies>>>>);

impl Scans {
    /// Returns true if no scan is open, which is the usual case.
    #[inline]
    pub(crate) fn are_none(&mut self) -> bool {
        self.0.get_mut().is_empty()
    }

    /// Opens a scan of the current rows.
    pub(crate) fn open(&self) -> Arc<Mutex<Copies>> {
        let copies = Arc::default();
        self.0.lock().push(Arc::downgrade(&copies));
        copies
    }

    /// Copies a row, which is about to change, for the open scans.
    #[cold]
    pub(crate) fn keep(&mut self, number: u32, copy: impl Fn() -> Box<[Value]>) {
        self.0.get_mut().retain(|open| {
            let Some(open) = open.upgrade() else { return false };
            let mut copies = open.lock();
            if !copies.rows.contains_key(&number) && copies.bytes <= COPIES_BYTES_MAX {
                let row = copy();
                copies.bytes += row.iter().map(size).sum::<usize>();
                copies.rows.insert(number, row);
            }
            true
        });
    }
}

fn size(value: &Value) -> usize {
    let outside = match value {
        Value::Text(text) | Value::Json(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        _ => 0,
    };
    size_of::<Value>() + outside
}
