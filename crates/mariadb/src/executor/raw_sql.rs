//! Raw SQL: one statement with bound values.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Kind, Result, RowSink, Value, ValueForm, ValueRef};
use marmota_store::operation::Outcome;
use marmota_store::sql::text::{at_text, begins_with};
use marmota_store::sql::{SqlCall, SqlColumn, SqlColumns};

use super::Executor;
use crate::connection::{Cell, ColumnName};
use crate::fault;
use crate::statement::column::{cell, read};

/// The first words of statements that read.
const READS: [&str; 7] = ["SELECT", "WITH", "VALUES", "TABLE", "SHOW", "EXPLAIN", "DESCRIBE"];
/// The first words of statements that change rows. Others may end the transaction.
const WRITES: [&str; 4] = ["INSERT", "UPDATE", "DELETE", "REPLACE"];

impl Executor<'_> {
    pub(super) fn sql(&mut self, call: &SqlCall<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        let text = call.text;
        if !begins_with(text, &READS) && !begins_with(text, &WRITES) {
            let message = "statements that define tables, control transactions or change the \
                           session are refused, because MariaDB would commit the transaction: use \
                           `Mariadb::execute`";
            return Err(at_text(&Error::new(ErrorKind::Denied, message), text));
        }
        if !call.writes && !begins_with(text, &READS) {
            let message = "the statement changes rows: use the method for statements that write";
            return Err(at_text(&Error::new(ErrorKind::Denied, message), text));
        }
        self.tables.learn();
        if call.writes
            && !call.unaudited
            && let Some(table) = self.tables.audited().find(|table| names(text, table.name()))
        {
            let message = format!(
                "`{}` is audited, and SQL writes no history: use the verbs, or state that the \
                 statement is not audited",
                table.name()
            );
            return Err(at_text(&Error::new(ErrorKind::Denied, message), text));
        }
        let parameters = call.values.iter().map(|value| cell(value.as_ref())).collect();
        match (call.writes, self.in_transaction) {
            (true, true) => self.within(|executor| executor.raw(call, parameters, sink)),
            (false, true) | (true, false) => self.raw(call, parameters, sink),
            (false, false) => {
                self.control("START TRANSACTION READ ONLY")?;
                let done = self.raw(call, parameters, sink);
                let ended = self.control("ROLLBACK");
                done.and_then(|done| ended.map(|()| done))
            }
        }
    }

    fn raw(
        &mut self,
        call: &SqlCall<'_>,
        parameters: Vec<Cell>,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome> {
        let tables = &self.tables;
        let forms = std::cell::RefCell::new(Vec::new());
        let mut columns = |names: Vec<ColumnName>| {
            let kind = |name: &ColumnName| -> Option<Kind> {
                let table = tables.named(&name.table)?;
                Some(table.fields()[table.find(&name.column)?].kind.clone())
            };
            let kinds: Vec<Option<Kind>> = names.iter().map(kind).collect();
            *forms.borrow_mut() = kinds
                .iter()
                .zip(&names)
                .map(|(kind, name)| {
                    (kind.as_ref().map(Kind::form), (name.is_binary, name.is_decimal))
                })
                .collect();
            let columns = names
                .into_iter()
                .zip(kinds)
                .map(|(name, kind)| SqlColumn { name: name.shown, kind })
                .collect();
            // A statement has its columns once.
            let _ = call.columns.set(Arc::new(SqlColumns::new(columns)));
        };
        let (mut lent, mut wrong) = (0, None);
        let mut take = |cells: Vec<Cell>| {
            let forms = forms.borrow();
            let row = cells.into_iter().zip(forms.iter()).map(|(cell, &(form, how))| match form {
                Some(form) => read(form, cell),
                None => computed(cell, how),
            });
            let Some(row) = row.collect::<Option<Vec<Value>>>() else {
                wrong = Some(Error::new(ErrorKind::Engine, "a value that no field can have"));
                return false;
            };
            lent += 1;
            let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
            sink.row(&row) == ControlFlow::Continue(())
        };
        let done = self.connection.run(call.text, parameters, &mut columns, &mut take);
        if let Some(error) = wrong {
            return Err(at_text(&error, call.text));
        }
        match done {
            Ok(written) => {
                let _ = call.columns.set(Arc::default());
                Ok(Outcome::rows(if lent > 0 { lent } else { written.rows }))
            }
            Err(failure) => {
                let error = fault::of(&failure);
                let error = match failure.code {
                    // The statement itself is wrong.
                    1054 | 1064 | 1146 | 1149 | 1222 | 1305 => {
                        Error::new(ErrorKind::Invalid, error.message())
                    }
                    1792 => Error::new(
                        ErrorKind::Denied,
                        "the statement changes rows: use the method for statements that write",
                    ),
                    _ => return Err(error),
                };
                Err(at_text(&error, call.text))
            }
        }
    }
}

/// Returns true if the text has this word.
fn names(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.split(|letter| !is_part(letter)).any(|part| part.eq_ignore_ascii_case(word))
}

/// Returns a computed value by its own type.
fn computed(cell: Cell, (is_binary, is_decimal): (bool, bool)) -> Option<Value> {
    Some(match cell {
        Cell::Int(value) => Value::Int(value),
        Cell::UInt(value) => i64::try_from(value).map_or(Value::Float(value as f64), Value::Int),
        Cell::Float(value) => Value::Float(value.into()),
        Cell::Double(value) => Value::Float(value),
        Cell::Date(..) => read(ValueForm::Timestamp, cell)?,
        Cell::Time(..) => read(ValueForm::Time, cell)?,
        Cell::Bytes(bytes) if is_decimal => {
            let text = std::str::from_utf8(&bytes).ok()?;
            text.parse().map(Value::Int).or_else(|_| text.parse().map(Value::Float)).ok()?
        }
        Cell::Bytes(bytes) if is_binary => Value::Blob(bytes),
        Cell::Bytes(bytes) => Value::Text(String::from_utf8(bytes).ok()?),
        Cell::NULL => Value::Null,
    })
}
