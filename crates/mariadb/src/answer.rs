//! The answer to one request, read packet by packet.

use std::io;
use std::sync::Arc;

use marmota_blocking::WriteCount;
use mysql::Column;
use mysql::consts::StatusFlags;
use mysql_common::io::{ParseBuf, ReadMysqlExt as _};

use crate::fault::Failure;
use crate::packets::invalid;

/// Receives what an execution returns.
pub(crate) trait TakeRows {
    /// Receives the columns, before the first row of each execution.
    fn columns(&mut self, columns: &[Column]);

    /// Receives the number of an execution, the columns, and the packet with a row.
    ///
    /// # Errors
    /// The packet is invalid.
    fn row(&mut self, number: usize, columns: &[Column], packet: &[u8]) -> io::Result<()>;
}

/// A statement that the server has prepared on a connection.
#[derive(Clone)]
pub(crate) struct Prepared {
    pub(crate) id: u32,
    pub(crate) parameters: usize,
    /// The columns of its result: those that the server described last.
    pub(crate) columns: Arc<[Column]>,
}

/// The part of an answer that comes next.
#[derive(Clone, Copy)]
enum Part {
    Head,
    /// This number of descriptions of columns, and the packet after them.
    Columns(usize),
    Rows,
}

/// The answer to an execution of a statement, or to a text that returns no rows.
pub(crate) struct Answer {
    part: Part,
    /// The number of the execution, for its rows.
    number: usize,
    /// `None` for a text.
    columns: Option<Arc<[Column]>>,
    described: Vec<Column>,
    /// True if the server described other columns than before.
    has_new_columns: bool,
}

impl Answer {
    /// Expects the answer to a text without rows.
    pub(crate) const fn of_text() -> Self {
        Self {
            part: Part::Head,
            number: 0,
            columns: None,
            described: Vec::new(),
            has_new_columns: false,
        }
    }

    /// Expects the answer to the execution of a statement with these columns.
    pub(crate) fn of(columns: Arc<[Column]>, number: usize) -> Self {
        Self { number, columns: Some(columns), ..Self::of_text() }
    }

    /// Returns the columns, if the server described others than before.
    pub(crate) fn new_columns(&self) -> Option<&Arc<[Column]>> {
        self.columns.as_ref().filter(|_| self.has_new_columns)
    }

    /// Takes the next packet. Returns the result after the last one.
    ///
    /// # Errors
    /// The packet is invalid.
    pub(crate) fn take(
        &mut self,
        packet: &[u8],
        take: &mut dyn TakeRows,
    ) -> io::Result<Option<Result<WriteCount, Failure>>> {
        let is_end = packet[0] == 0xfe && packet.len() < 9;
        match self.part {
            Part::Head | Part::Rows if packet[0] == 0xff => return Ok(Some(Err(failure(packet)))),
            Part::Head if packet[0] == 0x00 => return written(packet).map(|done| Some(Ok(done))),
            Part::Head => self.head(packet)?,
            Part::Columns(0) => {
                if !self.described.is_empty() {
                    self.describe();
                }
                take.columns(self.columns.as_deref().ok_or_else(invalid)?);
                self.part = Part::Rows;
            }
            Part::Columns(left) => {
                self.described.push(ParseBuf(packet).parse::<Column>(())?);
                self.part = Part::Columns(left - 1);
            }
            Part::Rows if is_end => {
                // The number of warnings comes first.
                check_last(packet.get(3..))?;
                return Ok(Some(Ok(WriteCount::default())));
            }
            Part::Rows => {
                take.row(self.number, self.columns.as_deref().ok_or_else(invalid)?, packet)?;
            }
        }
        Ok(None)
    }

    fn head(&mut self, mut packet: &[u8]) -> io::Result<()> {
        if self.columns.is_none() {
            return Err(invalid());
        }
        let count = usize::try_from(packet.read_lenenc_int()?).map_err(|_| invalid())?;
        // MariaDB leaves out descriptions that it has sent before.
        let is_left_out = packet.first() == Some(&0);
        self.part = Part::Columns(if is_left_out { 0 } else { count });
        Ok(())
    }

    /// Keeps the columns that were described, if they differ.
    fn describe(&mut self) {
        let form = |it: &Column| (it.column_type(), it.flags(), it.character_set());
        let described = std::mem::take(&mut self.described);
        let known = self.columns.as_deref().unwrap_or_default();
        self.has_new_columns = !described.iter().map(form).eq(known.iter().map(form));
        self.columns = Some(described.into());
    }
}

/// The answer to a request to prepare a statement.
#[derive(Default)]
pub(crate) struct Preparation {
    id: Option<u32>,
    parameters: usize,
    /// The packets that describe parameters, with the one after them.
    skipped: usize,
    /// The descriptions of columns that are missing.
    missing: usize,
    columns: Vec<Column>,
}

impl Preparation {
    /// Takes the next packet. Returns the result after the last one.
    ///
    /// # Errors
    /// The packet is invalid.
    pub(crate) fn take(
        &mut self,
        mut packet: &[u8],
    ) -> io::Result<Option<Result<Prepared, Failure>>> {
        let Some(id) = self.id else {
            if packet[0] == 0xff {
                return Ok(Some(Err(failure(packet))));
            }
            let (Some(&[0, a, b, c, d, columns, more, few, many]), true) =
                (packet.first_chunk(), packet.len() >= 12)
            else {
                return Err(invalid());
            };
            let id = u32::from_le_bytes([a, b, c, d]);
            self.id = Some(id);
            self.missing = u16::from_le_bytes([columns, more]).into();
            self.parameters = u16::from_le_bytes([few, many]).into();
            self.skipped = if self.parameters > 0 { self.parameters + 1 } else { 0 };
            return Ok(self.prepared(id, self.skipped == 0 && self.missing == 0));
        };
        if self.skipped > 0 {
            self.skipped -= 1;
            return Ok(self.prepared(id, self.skipped == 0 && self.missing == 0));
        }
        if self.missing > 0 {
            self.columns.push(ParseBuf(std::mem::take(&mut packet)).parse::<Column>(())?);
            self.missing -= 1;
            return Ok(None);
        }
        // The packet after the columns.
        Ok(self.prepared(id, true))
    }

    fn prepared(&mut self, id: u32, is_last: bool) -> Option<Result<Prepared, Failure>> {
        let columns = is_last.then(|| std::mem::take(&mut self.columns).into())?;
        Some(Ok(Prepared { id, parameters: self.parameters, columns }))
    }
}

/// Returns the counts in a packet.
fn written(packet: &[u8]) -> io::Result<WriteCount> {
    let mut rest = packet.get(1..).unwrap_or_default();
    let (rows, id) = (rest.read_lenenc_int()?, rest.read_lenenc_int()?);
    check_last(Some(rest))?;
    Ok(WriteCount { rows, id })
}

/// Returns the refusal in a packet.
#[cold]
fn failure(packet: &[u8]) -> Failure {
    let code = match packet.get(1..3) {
        Some(&[low, high]) => u16::from_le_bytes([low, high]),
        _ => 0,
    };
    // After the number come `#` and five characters of SQLSTATE.
    let text = packet.get(9..).unwrap_or_default();
    Failure::of_server(code, String::from_utf8_lossy(text).into_owned())
}

/// Checks that no other result follows.
fn check_last(status: Option<&[u8]>) -> io::Result<()> {
    let Some(&[low, high, ..]) = status else { return Err(invalid()) };
    let status = StatusFlags::from_bits_truncate(u16::from_le_bytes([low, high]));
    match status.contains(StatusFlags::SERVER_MORE_RESULTS_EXISTS) {
        true => Err(invalid()),
        false => Ok(()),
    }
}
