//! The statements of inserts, and the numbers that statements return: automatic keys, versions.

use marmota_model::{Table, ValueForm, ValueRef};
use marmota_sql::quoted;

use super::SqlExecutor;
use crate::connection::WriteCount;
use crate::dialect::{Dialect, ReturnedKey};
use crate::failure::SqlFailure;
use crate::statement::column::{name, text_literal};
use crate::statement::sql::Sql;

impl SqlExecutor<'_> {
    /// Inserts a row, and returns its automatic key.
    pub(super) fn insert_row(
        &mut self,
        table: &Table,
        row: &[ValueRef<'_>],
    ) -> Result<WriteCount, SqlFailure> {
        let present: Vec<usize> = (0..row.len()).filter(|&at| !row[at].is_absent()).collect();
        let is_given = !row[table.key()].is_absent();
        let mut sql = Sql::new(self.dialect(), insert_head(table, &present));
        sql.add(&insert_end(self.dialect(), table, is_given, 1, &present));
        for &at in &present {
            sql.bind(row[at]);
        }
        let mut written = self.written_with_key(&sql, table, is_given)?;
        if is_given {
            self.follow_given_key(table)?;
        }
        written.rows = 1;
        Ok(written)
    }

    /// Executes an insert; returns the key of its first row if the database makes it.
    pub(super) fn written_with_key(
        &mut self,
        sql: &Sql,
        table: &Table,
        is_given: bool,
    ) -> Result<WriteCount, SqlFailure> {
        if is_given {
            return self.written(sql);
        }
        let id = |rows: &[Option<i64>]| rows.first().copied().flatten().unwrap_or(0) as u64;
        match self.dialect().writes.key {
            ReturnedKey::LastInsertId { by_driver: true } => self.written(sql),
            ReturnedKey::LastInsertId { by_driver: false } => {
                let done = self.written(sql)?;
                self.with_last_id(done)
            }
            ReturnedKey::Sequence(select) => {
                let done = self.written(sql)?;
                let select = select.replace("{}", &sequence_name(table));
                let rows = self.integers(&Sql::new(self.dialect(), select))?;
                Ok(WriteCount { id: id(&rows), ..done })
            }
            ReturnedKey::Returning | ReturnedKey::Output => {
                let rows = self.integers(sql)?;
                Ok(WriteCount { rows: rows.len() as u64, id: id(&rows) })
            }
        }
    }

    /// Adds the number of `last_insert_id` of the last statement.
    fn with_last_id(&mut self, done: WriteCount) -> Result<WriteCount, SqlFailure> {
        let rows = self.integers(&Sql::new(self.dialect(), "SELECT last_insert_id()"))?;
        Ok(WriteCount { id: rows.first().copied().flatten().unwrap_or(0) as u64, ..done })
    }

    /// Raises the next automatic key above the one that a row was given.
    pub(super) fn follow_given_key(&mut self, table: &Table) -> Result<(), SqlFailure> {
        let Some(sql) = self.dialect().writes.after_given_key else { return Ok(()) };
        if table.key_kind() != marmota_model::KeyKind::Auto {
            return Ok(());
        }
        let key = &table.fields()[table.key()].name;
        let sql = sql
            .replace("{table}", &quoted(table.name()))
            .replace("{key}", &quoted(key))
            .replace("{table_text}", &text_literal(&quoted(table.name())))
            .replace("{key_text}", &text_literal(key));
        self.integers(&Sql::new(self.dialect(), sql)).map(drop)
    }

    /// Adds the assignment of a value to a field.
    pub(super) fn assign(&self, sql: &mut Sql, table: &Table, at: usize, value: ValueRef<'_>) {
        let form = table.fields()[at].kind.form();
        sql.add(&name(table, at))
            .add("=")
            .add(self.dialect().written_placeholder(form))
            .bind(value);
    }

    /// Adds the assignment that counts a version, for [`Self::written_with_version`].
    pub(super) fn add_one(&self, sql: &mut Sql, table: &Table, at: usize) {
        let own = name(table, at);
        sql.add(&match self.dialect().writes.key {
            // The server returns the argument.
            ReturnedKey::LastInsertId { .. } => format!("{own}=last_insert_id({own}+1)"),
            ReturnedKey::Output => format!("{own}={own}+1 OUTPUT INSERTED.{own}"),
            _ => format!("{own}={own}+1"),
        });
    }

    /// Executes an update of a row; returns its version, if its table has one.
    pub(super) fn written_with_version(
        &mut self,
        mut sql: Sql,
        table: &Table,
        key: ValueRef<'_>,
    ) -> Result<WriteCount, SqlFailure> {
        let Some(at) = table.version() else { return self.written(&sql) };
        let own = name(table, at);
        let id = |rows: &[Option<i64>]| rows.first().copied().flatten().unwrap_or(0) as u64;
        match self.dialect().writes.key {
            ReturnedKey::LastInsertId { by_driver } => {
                let done = self.written(&sql)?;
                // The driver's answer has no number if the table has triggers.
                match done.rows > 0 && !(by_driver && done.id > 0) {
                    true => self.with_last_id(done),
                    false => Ok(done),
                }
            }
            ReturnedKey::Sequence(_) => {
                let done = self.written(&sql)?;
                let (key_name, of) = (name(table, table.key()), quoted(table.name()));
                let select = format!("SELECT {own} FROM {of} WHERE {key_name}=");
                let mut select = Sql::new(self.dialect(), select);
                let form = table.fields()[table.key()].kind.form();
                select.add(self.dialect().placeholder(form)).bind(key);
                let rows = self.integers(&select)?;
                Ok(WriteCount { id: id(&rows), ..done })
            }
            how => {
                if how == ReturnedKey::Returning {
                    sql.add(&format!(" RETURNING {own}"));
                }
                let rows = self.integers(&sql)?;
                Ok(WriteCount { rows: rows.len() as u64, id: id(&rows) })
            }
        }
    }
}

/// Returns the name of the sequence of a table's keys, in SQL.
pub(crate) fn sequence_name(table: &Table) -> String {
    quoted(&marmota_sql::bounded(&format!("sequence:{}", table.name())))
}

/// Returns the begin of an insert into these fields.
pub(super) fn insert_head(table: &Table, present: &[usize]) -> String {
    let table_name = quoted(table.name());
    if present.is_empty() {
        return format!("INSERT INTO {table_name}");
    }
    let names: Vec<String> = present.iter().map(|&at| name(table, at)).collect();
    let names = names.join(",");
    format!("INSERT INTO {table_name} ({names})")
}

/// Returns the rest of an insert of this number of rows.
pub(super) fn insert_end(
    dialect: &Dialect,
    table: &Table,
    is_given: bool,
    rows: usize,
    present: &[usize],
) -> String {
    let key = name(table, table.key());
    let (output, returning) = match dialect.writes.key {
        ReturnedKey::Output if !is_given => (format!(" OUTPUT INSERTED.{key}"), String::new()),
        ReturnedKey::Returning if !is_given => (String::new(), format!(" RETURNING {key}")),
        _ => (String::new(), String::new()),
    };
    if present.is_empty() {
        let without_columns = dialect.writes.without_columns;
        let more = ",()".repeat(rows - 1);
        return format!("{output}{without_columns}{more}{returning}");
    }
    let form = |&at: &usize| -> ValueForm { table.fields()[at].kind.form() };
    let values: Vec<&str> =
        present.iter().map(|at| dialect.written_placeholder(form(at))).collect();
    let values = format!("({})", values.join(","));
    let more = format!(",{values}").repeat(rows - 1);
    format!("{output} VALUES {values}{more}{returning}")
}
