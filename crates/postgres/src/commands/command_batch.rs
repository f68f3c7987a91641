//! The messages of an operation: calls of statements with their parameters, kept until the
//! operation has ended, because some of them may have to be sent again (to find the failed row, or
//! after a conflict with another transaction).

use std::ops::Range;
use std::sync::Arc;

use marmota_model::{FieldSet, Result};

use crate::connection::Sending;
use crate::statement::Text;

/// The purpose of a statement, by which its answer is processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The write with this number, or the read.
    Main(u32),
    /// Executed only for its effect.
    Beside,
    /// A diagnostic query for a refusal.
    Diagnostic,
    /// The end of a group.
    Sync,
}

/// A statement with its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) text: Arc<Text>,
    pub(crate) role: Role,
    pub(crate) count: u16,
    pub(crate) parameters: Range<usize>,
    /// The rows of a COPY.
    pub(crate) copies: Option<Range<usize>>,
}

/// Rows of one insert with the same fields.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) fields: FieldSet,
    pub(crate) rows: Range<usize>,
}

/// The calls of an operation, with their parameters.
#[derive(Debug, Default)]
pub(crate) struct CommandBatch {
    pub(crate) calls: Vec<Call>,
    pub(crate) parameters: Vec<u8>,
    /// The rows of an insert of many: the range of each in the parameters.
    pub(crate) rows: Vec<Range<usize>>,
    pub(crate) parts: Vec<Part>,
    /// The highest automatic key that the caller chose.
    pub(crate) key_max: Option<i64>,
    /// True if a statement of many rows must find them in the order of its parameters.
    pub(crate) in_order: bool,
    /// True if an insert of many rows has one call per row.
    pub(crate) is_single: bool,
}

impl CommandBatch {
    /// Clears it, keeping the memory.
    pub(crate) fn clear(&mut self) {
        self.calls.clear();
        self.parameters.clear();
        self.rows.clear();
        self.parts.clear();
        self.key_max = None;
        self.in_order = false;
        self.is_single = false;
    }

    /// Adds a call; `put` appends its parameters and returns their number.
    pub(crate) fn call(
        &mut self,
        role: Role,
        text: Arc<Text>,
        put: impl FnOnce(&mut Vec<u8>) -> Result<u16>,
    ) -> Result<()> {
        let start = self.parameters.len();
        let count = put(&mut self.parameters)?;
        let parameters = start..self.parameters.len();
        self.calls.push(Call { text, role, count, parameters, copies: None });
        Ok(())
    }

    /// Sends one of its calls.
    pub(crate) fn send(&self, call: &Call, sending: &mut Sending<'_>) {
        sending.call(&call.text, call.count, &self.parameters[call.parameters.clone()]);
        if let Some(rows) = &call.copies {
            sending.copy(|out| self.put_copied(out, rows.clone()));
        }
    }

    /// Appends rows in the binary format of COPY.
    fn put_copied(&self, out: &mut Vec<u8>, rows: Range<usize>) {
        out.extend_from_slice(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0");
        let fields = self.parts.iter().find(|part| part.rows.contains(&rows.start));
        let columns = fields.map_or(0, |part| part.fields.len()) as u16;
        for row in &self.rows[rows] {
            out.extend(columns.to_be_bytes());
            out.extend_from_slice(&self.parameters[row.clone()]);
        }
        out.extend((-1_i16).to_be_bytes());
    }
}
