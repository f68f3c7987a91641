//! Raw SQL: one statement with bound values.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Kind, Result, RowSink, ValueForm, ValueRef};
use marmota_store::operation::Outcome;
use marmota_store::sql::text::{at_text, begins_with, first_word};
use marmota_store::sql::{SqlCall, SqlColumn, SqlColumns, SqlRefusal};
use marmota_store::tables::KnownTables;

use super::SqlExecutor;
use crate::connection::{ColumnName, ReadAs, Transacting, WriteCount};
use crate::failure::{FailureCause, SqlFailure};

/// The first words of statements that read.
const READS: &[&str] = &["SELECT", "WITH", "VALUES", "TABLE", "SHOW", "EXPLAIN", "DESCRIBE"];
/// The first words of statements that change rows. Others may end the transaction.
const WRITES: &[&str] = &["INSERT", "UPDATE", "DELETE", "REPLACE"];

/// # Errors
/// The statement is not permitted.
pub(crate) fn check_sql(call: &SqlCall<'_>, tables: &KnownTables) -> Result<()> {
    let text = call.text;
    // Other statements may commit the transaction.
    if !begins_with(text, READS) && !begins_with(text, WRITES) {
        let word = first_word(text).to_owned();
        let refusal = SqlRefusal::OtherStatement { word, reads: READS, writes: WRITES };
        return Err(refusal.at(text));
    }
    if !call.writes && !begins_with(text, READS) {
        return Err(SqlRefusal::ChangesRows.at(text));
    }
    if call.writes
        && !call.unaudited
        && let Some(table) = tables.audited().find(|table| names(text, table.name()))
    {
        return Err(SqlRefusal::Audited { table: table.name().to_owned() }.at(text));
    }
    Ok(())
}

/// Returns the forms of a result's columns, and reports the columns to the caller.
pub(crate) fn describe(
    call: &SqlCall<'_>,
    tables: &KnownTables,
    names: Vec<ColumnName>,
) -> Vec<Option<ValueForm>> {
    let kind = |name: &ColumnName| -> Option<Kind> {
        let table = tables.named(&name.table)?;
        Some(table.fields()[table.find(&name.column)?].kind.clone())
    };
    let kinds: Vec<Option<Kind>> = names.iter().map(kind).collect();
    let forms = kinds.iter().map(|kind| kind.as_ref().map(Kind::form)).collect();
    let columns = names
        .into_iter()
        .zip(kinds)
        .map(|(name, kind)| SqlColumn { name: name.shown, kind })
        .collect();
    // A statement has its columns once.
    let _ = call.columns.set(Arc::new(SqlColumns::new(columns)));
    forms
}

/// The rows of a statement that were lent.
#[derive(Default)]
pub(crate) struct RawRows {
    pub(crate) count: u64,
    /// The error of a row that has no valid values.
    wrong: Option<Error>,
}

impl RawRows {
    /// Lends a row. Returns false if no more are wanted.
    pub(crate) fn lend(&mut self, values: &[Option<ValueRef<'_>>], sink: &mut dyn RowSink) -> bool {
        let Some(row) = values.iter().copied().collect::<Option<Vec<ValueRef<'_>>>>() else {
            self.wrong = Some(Error::new(ErrorKind::Engine, "a value that no field can have"));
            return false;
        };
        self.count += 1;
        sink.row(&row) == ControlFlow::Continue(())
    }

    /// Returns the outcome, after the last row.
    pub(crate) fn ended(
        &mut self,
        call: &SqlCall<'_>,
        done: Result<WriteCount, SqlFailure>,
    ) -> Result<Outcome> {
        if let Some(error) = self.wrong.take() {
            return Err(at_text(&error, call.text));
        }
        match done {
            Ok(written) => {
                let _ = call.columns.set(Arc::default());
                Ok(Outcome::rows(if self.count > 0 { self.count } else { written.rows }))
            }
            Err(failure) => {
                let error = failure.error();
                let error = match failure.cause {
                    FailureCause::Statement => Error::new(ErrorKind::Invalid, error.message()),
                    FailureCause::ReadOnly => return Err(SqlRefusal::ChangesRows.at(call.text)),
                    _ => return Err(error),
                };
                Err(at_text(&error, call.text))
            }
        }
    }
}

impl SqlExecutor<'_> {
    pub(super) fn sql(&mut self, call: &SqlCall<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        self.tables.learn();
        check_sql(call, &self.tables)?;
        match (call.writes, self.in_transaction) {
            (true, true) => self.within(|executor| executor.raw(call, sink)),
            // Its changes are numbered at the end of the transaction.
            (true, false) if self.shared.feed().is_some() => {
                self.alone(Transacting::Committed, |executor| executor.raw(call, sink))
            }
            _ => self.raw(call, sink),
        }
    }

    fn raw(&mut self, call: &SqlCall<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        let tables = &self.tables;
        let mut columns = |names: Vec<ColumnName>| describe(call, tables, names);
        let mut lent = RawRows::default();
        let mut take = |values: &[Option<ValueRef<'_>>]| lent.lend(values, sink);
        let read = ReadAs::Columns(&mut columns);
        let done = match call.writes || self.in_transaction {
            true => self.connection.run(call.text, call.values, read, &mut take),
            false => self.connection.run_read_only(call.text, call.values, read, &mut take),
        };
        lent.ended(call, done)
    }
}

/// Returns true if the text has this word.
fn names(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.split(|letter| !is_part(letter)).any(|part| part.eq_ignore_ascii_case(word))
}
