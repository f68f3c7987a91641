//! Raw SQL statements: prepared once per connection, found by their text, and checked against their
//! declared use.
//!
//! A statement declared as reading may begin with SELECT, VALUES, WITH or EXPLAIN and must be
//! read-only according to SQLite itself (`sqlite3_stmt_readonly`). One declared as writing may
//! begin with INSERT, REPLACE, UPDATE, DELETE or WITH. So no statement opens or ends a transaction,
//! attaches a file or changes settings of the connection.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Kind, Result, RowSink, ValueForm, ValueRef};
use marmota_store::borrowed_table::BorrowedTables;
use marmota_store::row_buffer::RowBuffer;
use marmota_store::sql::text::{at_text, begins_with, first_word};
use marmota_store::sql::{Lender, SqlCall, SqlColumn, SqlColumns, SqlRefusal, Wanted};

use crate::executor::Executor;
use crate::executor::read_budget::{FIRST_BUDGET, late};
use crate::fault;
use crate::ffi::virtual_table::Loan;
use crate::ffi::{
    Cells, Described, Failure, Run, StatementId, Stored, Unfit, code, has_nul, is_misunderstood,
    utf8,
};
use crate::sql_words::sql_literal;
use crate::statement::column::{bound_value, read};
use crate::statement::raw_sql_cache::Text;
use crate::statement::vdbe_fast_path::{FastPathRun, VdbeFastPath};

/// The most columns of a row.
const COLUMNS_MAX: usize = 256;

impl Executor {
    /// Runs a statement. Returns the number of rows that it returned or changed.
    pub(crate) fn sql(
        &mut self,
        call: &SqlCall<'_>,
        lender: Option<&mut (dyn Lender + '_)>,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        if let Some(name) = call.database {
            let message = format!(
                "there is no database `{name}`: this store has one database, which needs no name; \
                 leave the name out"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let place = match self.texts.find(call.text) {
            Some(place) => place,
            None => self.add_text(call.text)?,
        };
        let text = &self.texts.kept[place];
        let is_plain = text.begins_well && text.written & !1 == 0 && text.audited.is_none();
        if text.writes != call.writes || !is_plain {
            check_use(text, call)?;
        }
        let wanted = self.connection.parameters(text.id);
        if wanted != call.values.len() {
            let message = format!(
                "the statement has {wanted} parameters, but {} values were bound (in: {})",
                call.values.len(),
                excerpt(call.text)
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let count = text.columns.list().len();
        // Empty only at the first call of a statement.
        let _ = call.columns.set(Arc::clone(&text.columns));
        // Returned after the run.
        let lent = lend_tables(text, lender)?;
        let has_budget = self.connection.has_budget();
        let can_be_kept = lent.iter().all(|table| table.can_be_kept());
        if let (Some(fast_path), [table]) = (&text.fast_path, &lent[..])
            && fast_path.takes(call.values)
        {
            let budget = (has_budget && can_be_kept).then_some(FIRST_BUDGET);
            let ran = match count {
                0..=8 => fast_path.run::<8>(&**table, call.values, budget, sink),
                9..=32 => fast_path.run::<32>(&**table, call.values, budget, sink),
                _ => fast_path.run::<COLUMNS_MAX>(&**table, call.values, budget, sink),
            };
            return match ran {
                FastPathRun::Done(rows) => Ok(rows),
                FastPathRun::Over(rows) => {
                    self.lent = rows;
                    self.connection.interrupt();
                    self.keep(lent);
                    Err(used_up())
                }
            };
        }
        let repeats = text.repeats;
        let loan = self.connection.lend(text.lent.iter().copied().zip(lent));
        let run = |executor: &mut Self, sink: &mut dyn RowSink| match count {
            0..=8 => executor.run_text::<8>(place, call, sink),
            9..=32 => executor.run_text::<32>(place, call, sink),
            _ => executor.run_text::<COLUMNS_MAX>(place, call, sink),
        };
        if !has_budget {
            return run(self, sink);
        }
        if !can_be_kept {
            return self.sql_to_deadline(|executor| run(executor, sink));
        }
        if repeats && !call.writes {
            let done = run(self, sink);
            self.keep_if_interrupted(loan);
            return done;
        }
        // A second run would return other rows, or write twice: no rows are passed on before all
        // are read.
        let mut rows = RowBuffer::default();
        let done = run(self, &mut |row: &[ValueRef<'_>]| {
            rows.push(row);
            ControlFlow::Continue(())
        });
        self.lent = 0;
        self.keep_if_interrupted(loan);
        let count = done?;
        // After the first row is passed on, it is not run again.
        self.connection.end_budget();
        let lent = rows.lend(sink).0;
        Ok(if call.writes { count } else { lent })
    }

    /// Keeps the tables in memory for a statement that continues elsewhere.
    fn keep_if_interrupted(&mut self, loan: Option<Loan>) {
        if let Some(loan) = loan
            && self.connection.was_interrupted()
        {
            self.keep(loan.take_back());
        }
    }

    #[cold]
    fn keep(&mut self, tables: BorrowedTables) {
        tables.iter().for_each(|table| table.keep());
        self.kept = Some(Box::new(tables));
    }

    /// Runs SQL that reads uncommitted changes in memory: it must not outlive the transaction, so
    /// it stays on its thread.
    #[cold]
    fn sql_to_deadline(&mut self, run: impl FnOnce(&mut Self) -> Result<u64>) -> Result<u64> {
        self.connection.begin_to_deadline();
        let done = run(self);
        match self.connection.take_interrupted() {
            true => Err(late(self.read_deadline_ms)),
            false => done,
        }
    }

    fn run_text<const N: usize>(
        &mut self,
        place: usize,
        call: &SqlCall<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let Text { id, ref forms, .. } = self.texts.kept[place];
        let mut run = self.connection.start(id);
        run.bind_all(call.values.iter().map(bound_value));
        let (mut rows, mut cells) = (0, Cells::new());
        let failed = |failure| of_step(&failure, call.text);
        let ended = loop {
            match run.step() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(failure) => break Err(failed(failure)),
            }
            // A recompiled statement, after another program changed the tables, may have other
            // columns.
            if rows == 0 && run.column_count() != forms.len() {
                let message = "the tables were changed while the statement was in use; close the \
                               store and open it again";
                break Err(Error::new(ErrorKind::Engine, message));
            }
            rows += 1;
            match lend::<N>(&run, &mut cells, forms, sink) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        drop(run);
        self.lent = rows;
        ended?;
        Ok(if call.writes { self.connection.changes() } else { rows })
    }

    #[cold]
    fn add_text(&mut self, text: &str) -> Result<usize> {
        if has_nul(text) {
            let message = "a statement cannot contain a NUL character: bind a text that has one as \
                           a value";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.connection.begin_use();
        let id = self.connection.prepare_one(text).map_err(|unfit| match &unfit {
            Unfit::Wrong(failure, _) => {
                self.attached.why_unseen(failure).unwrap_or_else(|| unfit_text(&unfit, text))
            }
            _ => unfit_text(&unfit, text),
        })?;
        let lent = self.connection.used().into_boxed_slice();
        let wanted = lent.iter().filter_map(|&number| self.attached.lent(number));
        let wanted: Box<[Wanted]> = wanted.cloned().collect();
        let described = self.connection.describe(id);
        if described.len() > COLUMNS_MAX {
            self.connection.finalize(id);
            let message = format!(
                "the rows have {} columns; at most {COLUMNS_MAX} are allowed: select only the \
                 columns that you need",
                described.len()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let writes = !self.connection.only_reads(id);
        let begins_well = begins_with(text, if writes { WRITES } else { READS });
        let written = self.connection.databases_written(id);
        self.tables.learn();
        let audited = if writes { self.audited_by(id)? } else { None };
        let columns: Vec<SqlColumn> = described
            .into_iter()
            .map(|column| SqlColumn { kind: self.kind_of(&column), name: column.name })
            .collect();
        let form = |column: &SqlColumn| column.kind.as_ref().map(Kind::form);
        let forms: Box<[Option<ValueForm>]> = columns.iter().map(form).collect();
        let fast_path = match !writes && begins_well && forms.iter().all(Option::is_some) {
            true => {
                VdbeFastPath::of(&mut self.connection, text, &wanted).map_err(|e| fault::of(&e))?
            }
            false => None,
        };
        let columns = Arc::new(SqlColumns::new(columns));
        let kept = Text {
            text: text.into(),
            id,
            writes,
            written,
            audited,
            lent,
            wanted,
            begins_well,
            columns,
            forms,
            fast_path,
            repeats: repeats(text),
            used: 0,
        };
        let (place, dropped) = self.texts.add(kept);
        if let Some(dropped) = dropped {
            self.connection.finalize(dropped);
        }
        Ok(place)
    }

    /// Returns the audited table that a statement writes to, if any.
    fn audited_by(&mut self, id: StatementId) -> Result<Option<Box<str>>> {
        let Self { connection, tables, .. } = self;
        for table in tables.audited() {
            let name = sql_literal(ValueRef::Text(table.name()));
            let sql = format!(
                "SELECT rootpage FROM sqlite_schema WHERE type='table' AND name={name} \
                 COLLATE NOCASE"
            );
            let mut root = 0;
            connection.query(&sql, |row| root = row.at(0).int()).map_err(|e| fault::of(&e))?;
            if u32::try_from(root).is_ok_and(|root| connection.writes_to(id, root)) {
                return Ok(Some(table.name().into()));
            }
        }
        Ok(None)
    }

    /// Returns the kind of the field of a column.
    fn kind_of(&self, column: &Described) -> Option<Kind> {
        let [database, table, column] = column.origin.as_ref()?;
        if database != "main" {
            return self.attached.kind_of(database, table, column);
        }
        let table = self.tables.named(table)?;
        let field = table.fields().iter().find(|f| f.name.eq_ignore_ascii_case(column))?;
        Some(field.kind.clone())
    }
}

/// An internal error: the statement continues elsewhere, so callers never receive it.
#[cold]
fn used_up() -> Error {
    Error::new(ErrorKind::Timeout, "the statement has used up its first budget")
}

/// Locks the tables in memory that a statement reads.
fn lend_tables(text: &Text, lender: Option<&mut (dyn Lender + '_)>) -> Result<BorrowedTables> {
    if text.lent.is_empty() {
        return Ok(BorrowedTables::new());
    }
    let lender = lender.ok_or_else(|| {
        let message = "the statement reads tables in memory, which are not available here";
        Error::new(ErrorKind::Unsupported, message)
    })?;
    lender.lend(&text.wanted)
}

/// Passes the current row of a statement to the sink.
fn lend<const N: usize>(
    run: &Run<'_, '_>,
    cells: &mut Cells<N>,
    forms: &[Option<ValueForm>],
    sink: &mut dyn RowSink,
) -> Result<ControlFlow<()>> {
    let mut row = [ValueRef::Absent; N];
    for ((form, cell), value) in forms.iter().zip(run.row(cells).cells()).zip(&mut row) {
        let is_read = form.is_some_and(|form| read(form, cell, value));
        if !is_read {
            // A computed value, or one stored by another program; the reader reports an invalid
            // one.
            *value = as_stored(cell.stored())?;
        }
    }
    Ok(sink.row(&row[..forms.len()]))
}

/// Returns false for a text that may use values that differ between runs: random numbers and the
/// time.
fn repeats(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut changing =
        ["random", "now", "current_", "date(", "time(", "julianday(", "unixepoch("].iter();
    !changing.any(|name| text.contains(name))
}

fn as_stored(stored: Stored<'_>) -> Result<ValueRef<'_>> {
    Ok(match stored {
        Stored::Null => ValueRef::Null,
        Stored::Integer(value) => ValueRef::Int(value),
        Stored::Real(value) => ValueRef::Float(value),
        Stored::Blob(bytes) => ValueRef::Blob(bytes),
        Stored::Text(bytes) => match utf8(bytes) {
            Some(text) => ValueRef::Text(text),
            None => {
                let message = "a column has a text that is not UTF-8: read it as a blob (`CAST(… \
                               AS BLOB)`)";
                return Err(Error::new(ErrorKind::Engine, message));
            }
        },
    })
}

/// The first words of statements that read and of those that write.
const READS: &[&str] = &["SELECT", "VALUES", "WITH", "EXPLAIN"];
const WRITES: &[&str] = &["INSERT", "REPLACE", "UPDATE", "DELETE", "WITH"];

/// Refuses a statement that does not match its declared use.
#[cold]
fn check_use(text: &Text, call: &SqlCall<'_>) -> Result<()> {
    let is_one_of = |words: &[&str]| begins_with(call.text, words);
    if text.written & !1 != 0 {
        let message = format!(
            "the statement writes to another database of the store: name the database with \
             `.on(\"…\")` (in: {})",
            excerpt(call.text)
        );
        return Err(Error::new(ErrorKind::Denied, message));
    }
    if let Some(table) = text.audited.as_ref().filter(|_| call.writes && !call.unaudited) {
        return Err(SqlRefusal::Audited { table: table.to_string() }.at(call.text));
    }
    let refusal = match (call.writes, text.writes) {
        (false, false) if is_one_of(READS) => return Ok(()),
        (true, true) if is_one_of(WRITES) => return Ok(()),
        (false, true) if is_one_of(WRITES) => SqlRefusal::ChangesRows,
        (true, false) if is_one_of(READS) => SqlRefusal::ChangesNothing,
        _ => {
            let word = first_word(call.text).to_owned();
            SqlRefusal::OtherStatement { word, reads: READS, writes: WRITES }
        }
    };
    Err(refusal.at(call.text))
}

#[cold]
fn unfit_text(unfit: &Unfit, text: &str) -> Error {
    match unfit {
        Unfit::Empty => Error::new(ErrorKind::Invalid, "the text does not contain a statement"),
        Unfit::Several(at) => {
            let message = format!(
                "the text contains more than one statement, the second from byte {at} on ({}): run \
                 the statements one by one, in a transaction if they belong together",
                excerpt(text.get(*at..).unwrap_or_default().trim_start())
            );
            Error::new(ErrorKind::Invalid, message)
        }
        Unfit::Wrong(failure, _) if !is_misunderstood(failure) => {
            at_text(&fault::of(failure), text)
        }
        Unfit::Wrong(failure, at) => {
            let place = match at {
                Some(at) => {
                    let near = excerpt(text.get(*at..).unwrap_or_default());
                    format!(" at byte {at}, `{near}`")
                }
                None => String::new(),
            };
            let hint = match failure.message() {
                words if words.ends_with("may not be modified") => {
                    ": SQL does not write rows in memory; use the verbs or the API"
                }
                _ => "",
            };
            let message = format!("{}{hint}{place} (in: {})", failure.message(), excerpt(text));
            Error::new(ErrorKind::Invalid, message)
        }
    }
}

/// Returns the error of a statement that failed while it ran.
#[cold]
fn of_step(failure: &Failure, text: &str) -> Error {
    // Its values do not fit a function: malformed JSON, for example.
    let is_of_statement = failure.code() == code::ERROR;
    let error = match is_of_statement {
        true => Error::new(ErrorKind::Invalid, failure.message()),
        false => fault::of(failure),
    };
    at_text(&error, text)
}

fn excerpt(text: &str) -> String {
    marmota_model::text::excerpt(text)
}
