//! The results of an exchange: rows, passed to a sink or kept, the number of rows of each
//! statement, and the failures.

use std::num::NonZeroU64;
use std::ops::{ControlFlow, Range};

use marmota_model::{Error, FieldSet, RowSink, Table};

use crate::commands::command_batch::Role;
use crate::commands::raw_sql::{Description, SqlText};
use crate::fault::Failure;
use crate::options::own_connections::COMMIT_CODE;
use crate::statement::column::{Column, lend};
use crate::wire::backend::{BackendMessage, Notice, Row, rows_of};
use crate::wire::value::read_integer;

/// The result of a statement of a [`Role::Main`] or [`Role::Diagnostic`].
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) role: Role,
    /// The number of rows it found.
    pub(crate) rows: u64,
    /// The range of its rows in the returned bytes.
    returned: Range<usize>,
    returned_rows: usize,
}

/// The results of an exchange.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) failures: Vec<(Role, Failure)>,
    pub(crate) marks: Vec<Mark>,
    returned: Vec<u8>,
    /// The rows of the current statement.
    rows: usize,
    start: usize,
    /// The number of rows passed to the sink.
    pub(crate) lent: u64,
    is_enough: bool,
    /// The error of a row that could not be passed on.
    pub(crate) fault: Option<Error>,
    /// The server's description of a statement.
    pub(crate) description: Description,
    /// The number of the commit in the change feed.
    pub(crate) commit: Option<NonZeroU64>,
    /// True if a COMMIT was answered by a rollback.
    pub(crate) is_undone: bool,
    /// The index of the next answer's role.
    at: usize,
}

/// The destination of rows.
pub(crate) struct Lending<'l> {
    pub(crate) rows: Rows<'l>,
    pub(crate) sink: &'l mut dyn RowSink,
}

/// The structure of rows.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'l> {
    Table(&'l Table, &'l [Column]),
    Sql(&'l SqlText),
}

impl Reply {
    /// Clears it, keeping the memory.
    pub(crate) fn clear(&mut self) {
        self.failures.clear();
        self.marks.clear();
        self.returned.clear();
        (self.fault, self.commit) = (None, None);
        (self.rows, self.start, self.at, self.lent) = (0, 0, 0, 0);
        (self.is_enough, self.is_undone) = (false, false);
    }

    /// Returns the approximate memory of its buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.returned.capacity()
    }

    /// Processes a message of an answer to `roles`.
    #[inline]
    pub(crate) fn hear(
        &mut self,
        roles: &[Role],
        message: BackendMessage<'_>,
        lending: &mut Option<Lending<'_>>,
    ) {
        match message {
            BackendMessage::DataRow(row) => match lending {
                Some(lending) => self.lend(lending, row),
                None => self.keep(row),
            },
            BackendMessage::CommandComplete(tag) => {
                let role = roles.get(self.at).copied().unwrap_or(Role::Sync);
                if matches!(role, Role::Main(_) | Role::Diagnostic) {
                    let returned = self.start..self.returned.len();
                    let rows = rows_of(tag);
                    self.marks.push(Mark { role, rows, returned, returned_rows: self.rows });
                }
                self.is_undone |= tag == b"ROLLBACK";
                (self.start, self.rows) = (self.returned.len(), 0);
                self.at += 1;
            }
            BackendMessage::ErrorResponse(notice) => {
                let role = roles.get(self.at).copied().unwrap_or(Role::Sync);
                self.failures.push((role, Failure::new(notice)));
                while roles.get(self.at).is_some_and(|role| *role != Role::Sync) {
                    self.at += 1;
                }
            }
            BackendMessage::ReadyForQuery(_) => self.at += 1,
            BackendMessage::NoticeResponse(notice) => self.note(notice),
            BackendMessage::ParameterDescription(oids) => self.description.hear_parameters(oids),
            BackendMessage::RowDescription(columns) => self.description.hear_columns(columns),
            _ => {}
        }
    }

    /// Processes a notice: triggers send the number of a commit.
    fn note(&mut self, notice: Notice<'_>) {
        if notice.field(b'C').as_deref() == Some(COMMIT_CODE) {
            let number = notice.field(b'M').and_then(|number| number.parse().ok());
            self.commit = number.or(self.commit);
        }
    }

    fn lend(&mut self, lending: &mut Lending<'_>, row: Row<'_>) {
        if self.is_enough || self.fault.is_some() {
            return;
        }
        let Lending { rows, sink } = lending;
        self.lent += 1;
        let (table, columns) = match *rows {
            Rows::Table(table, columns) => (table, columns),
            Rows::Sql(text) => {
                let lent = text.lend(row, *sink);
                return self.take_lent(lent);
            }
        };
        // A buffer is cleared for each row, so the smallest sufficient one is used.
        let lent = match table.fields().len() {
            0..=8 => lend::<8, _>(table, columns, row, |row| sink.row(row)),
            9..=16 => lend::<16, _>(table, columns, row, |row| sink.row(row)),
            17..=32 => lend::<32, _>(table, columns, row, |row| sink.row(row)),
            _ => lend::<{ FieldSet::CAPACITY }, _>(table, columns, row, |row| sink.row(row)),
        };
        self.take_lent(lent);
    }

    fn take_lent(&mut self, lent: marmota_model::Result<ControlFlow<()>>) {
        match lent {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => self.is_enough = true,
            Err(error) => self.fault = Some(error),
        }
    }

    fn keep(&mut self, mut row: Row<'_>) {
        self.rows += 1;
        while let Ok(column) = row.next_column() {
            let length = column.map_or(-1, |column| column.len() as i32);
            self.returned.extend(length.to_be_bytes());
            self.returned.extend_from_slice(column.unwrap_or_default());
        }
    }

    /// Returns the columns that a statement returned, row by row.
    pub(crate) fn columns(&self, mark: &Mark) -> impl Iterator<Item = Option<&[u8]>> {
        let mut rest = &self.returned[mark.returned.clone()];
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first_chunk()?;
            let length = i32::from_be_bytes(*length);
            if length < 0 {
                rest = behind;
                return Some(None);
            }
            let (column, behind) = behind.split_at_checked(length as usize)?;
            rest = behind;
            Some(Some(column))
        })
    }

    /// Returns the integer in the column `at` of the first row.
    pub(crate) fn integer(&self, mark: &Mark, at: usize) -> Option<i64> {
        self.columns(mark).nth(at).flatten().and_then(read_integer)
    }

    /// Returns true if a statement returned a row.
    pub(crate) const fn has_row(mark: &Mark) -> bool {
        mark.returned_rows > 0
    }

    /// Returns the result of the write at this place.
    pub(crate) fn mark_at(&self, at: u32) -> Option<&Mark> {
        // They are in order, mostly without gaps.
        let near = self.marks.get(at as usize).filter(|mark| mark.role == Role::Main(at));
        near.or_else(|| self.mark(Role::Main(at)))
    }

    /// Returns the result of the first statement with a role.
    pub(crate) fn mark(&self, role: Role) -> Option<&Mark> {
        self.marks.iter().find(|mark| mark.role == role)
    }
}
