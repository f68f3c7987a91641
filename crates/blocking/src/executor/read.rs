//! Get, list and count; each returns the number of rows.

use std::ops::ControlFlow;

use marmota_model::{
    Error, FieldSet, FilterExpr, Result, RowQuery, RowSink, Table, Value, ValueForm, ValueRef,
};
use marmota_sql::{quoted, where_sql};
use marmota_store::predicate::{Condition, Ready};

use super::SqlExecutor;
use super::exact::{SplitFilter, fields_of};
use crate::connection::{ReadAs, WriteCount};
use crate::dialect::Dialect;
use crate::executor::too_many;
use crate::failure::SqlFailure;
use crate::statement::column::{columns, forms, name, row_of};
use crate::statement::filter::order_sql;
use crate::statement::sql::Sql;

impl SqlExecutor<'_> {
    pub(super) fn get(
        &mut self,
        table: &Table,
        key: ValueRef<'_>,
        fields: FieldSet,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        self.check(table)?;
        let (columns, text) = self.get_sql(table, fields);
        let mut sql = Sql::new(self.dialect(), text);
        sql.bind(key);
        let forms = forms(table, &columns);
        let lending = Lending { columns, ..Lending::default() };
        self.lend(table, &TableRead { sql, lending, forms }, sink)
    }

    /// Reads the row of each key, which is the only value of its list.
    pub(crate) fn get_each(
        &mut self,
        table: &Table,
        fields: FieldSet,
        keys: &[Vec<Value>],
    ) -> Vec<Result<Option<Vec<Value>>>> {
        if self.check(table).is_err() {
            return keys.iter().map(|_| self.check(table).map(|()| None)).collect();
        }
        let (columns, text) = self.get_sql(table, fields);
        let forms = forms(table, &columns);
        let mut rows: Vec<Result<Option<Vec<Value>>>> = keys.iter().map(|_| Ok(None)).collect();
        let owned = |row: Vec<ValueRef<'_>>| Some(row.iter().map(ValueRef::to_value).collect());
        let mut take = |at: usize, values: &[Option<ValueRef<'_>>]| {
            rows[at] = row_of(table, &columns, values).map(owned);
        };
        let done = self.connection.run_each(&text, keys, &forms, &mut take);
        let result = |(row, done): (_, Result<(), SqlFailure>)| match done {
            Ok(()) => row,
            Err(failure) => Err(failure.error()),
        };
        rows.into_iter().zip(done).map(result).collect()
    }

    /// Returns the columns of a read by key, and its text.
    fn get_sql(&self, table: &Table, fields: FieldSet) -> (Vec<usize>, String) {
        let (columns, names) = columns(table, fields);
        let own = name(table, table.key());
        let value = self.dialect().placeholder(table.fields()[table.key()].kind.form());
        (columns, format!("SELECT {names} FROM {} WHERE {own}={value}", quoted(table.name())))
    }

    pub(super) fn list(
        &mut self,
        table: &Table,
        query: &RowQuery,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        self.check(table)?;
        if query.limit == Some(0) {
            return Ok(0);
        }
        let dialect = self.dialect();
        let rest = &mut |rest: &FilterExpr| self.without_related(table, rest);
        let read = TableRead::list(dialect, table, query, rest)?;
        self.lend(table, &read, sink)
    }

    pub(super) fn count(&mut self, table: &Table, filter: Option<&FilterExpr>) -> Result<u64> {
        self.check(table)?;
        let split = SplitFilter::of(filter, &mut |rest| self.without_related(table, rest))?;
        if split.rest.is_some() {
            let query = RowQuery {
                filter: filter.cloned(),
                fields: Some(FieldSet::EMPTY.with(table.key())),
                ..RowQuery::new()
            };
            let mut pass = |_: &[ValueRef<'_>]| ControlFlow::Continue(());
            return self.list(table, &query, &mut pass);
        }
        let mut sql =
            Sql::new(self.dialect(), format!("SELECT count(*) FROM {}", quoted(table.name())));
        where_sql(&mut sql, table, split.sql.as_ref());
        let rows = self.integers(&sql).map_err(|failure| failure.error())?;
        let count = rows.first().copied().flatten();
        Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }

    /// Returns the value of a field of a row, or `None` if the row does not exist.
    pub(super) fn value(
        &mut self,
        table: &Table,
        key: ValueRef<'_>,
        field: usize,
    ) -> Result<Option<Value>> {
        let mut found = None;
        let mut take = |row: &[ValueRef<'_>]| {
            found = Some(row[field].to_value());
            ControlFlow::Break(())
        };
        self.get(table, key, FieldSet::EMPTY.with(field), &mut take)?;
        Ok(found)
    }

    fn lend(&mut self, table: &Table, read: &TableRead, sink: &mut dyn RowSink) -> Result<u64> {
        check_size(&read.sql)?;
        let TableRead { sql, lending, forms } = read;
        let ready = lending.condition.as_ref().map(|it| it.asked(table)).transpose()?;
        let mut lent = LentRows::default();
        let mut take = |values: &[Option<ValueRef<'_>>]| {
            lending.lend(table, values, ready.as_ref(), &mut lent, sink)
        };
        let read = ReadAs::Forms(forms);
        let done = self.connection.run(&sql.text, &sql.parameters, read, &mut take);
        lent.ended(done)
    }
}

/// The rows of a statement that were lent.
#[derive(Default)]
pub(crate) struct LentRows {
    pub(crate) count: u64,
    /// The error of a row that has no valid values.
    wrong: Option<Error>,
}

impl LentRows {
    /// Returns the number of rows, after the last one.
    pub(crate) fn ended(&mut self, done: Result<WriteCount, SqlFailure>) -> Result<u64> {
        match self.wrong.take() {
            Some(error) => Err(error),
            None => done.map(|_| self.count).map_err(|failure| failure.error()),
        }
    }
}

/// A read of the rows of a table, as a statement.
pub(crate) struct TableRead {
    pub(crate) sql: Sql,
    pub(crate) lending: Lending,
    pub(crate) forms: Vec<ValueForm>,
}

impl TableRead {
    /// Writes the statement of a list. `rest` replaces the conditions on related rows in the parts of the filter
    /// that are evaluated on the rows.
    pub(crate) fn list(
        dialect: &'static Dialect,
        table: &Table,
        query: &RowQuery,
        rest: &mut dyn FnMut(&FilterExpr) -> Result<FilterExpr>,
    ) -> Result<Self> {
        let with_after = query.after.as_ref().and_then(|_| query.filter_with_after(table));
        let filter = with_after.as_ref().or(query.filter.as_ref());
        let split = SplitFilter::of(filter, rest)?;
        let fields = query.fields.unwrap_or_else(|| table.read_by_default());
        let read = match &split.rest {
            Some(rest) => fields.iter().chain(fields_of(table, rest).iter()).collect(),
            None => fields,
        };
        let (columns, names) = columns(table, read);
        let mut sql = Sql::new(dialect, format!("SELECT {names} FROM {}", quoted(table.name())));
        where_sql(&mut sql, table, split.sql.as_ref());
        order_sql(&mut sql, table, &query.order_with_key(table));
        if let (Some(limit), None) = (query.limit, &split.rest) {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            sql.add(dialect.paging).bind(ValueRef::Int(limit));
        }
        let condition = split.rest.map(|rest| Condition::new(rest, table));
        let only = (read != fields).then_some(fields);
        let forms = forms(table, &columns);
        let lending = Lending { columns, condition, only, limit: query.limit };
        Ok(Self { sql, lending, forms })
    }
}

/// # Errors
/// The statement has too many parameters.
pub(crate) fn check_size(sql: &Sql) -> Result<()> {
    match sql.parameters.len() > sql.dialect.limits.parameters {
        true => Err(too_many(sql.parameters.len(), sql.dialect)),
        false => Ok(()),
    }
}

/// How the rows of a statement are lent.
#[derive(Default)]
pub(crate) struct Lending {
    columns: Vec<usize>,
    /// Selects the rows.
    pub(crate) condition: Option<Condition>,
    /// The fields that are lent, if more were read.
    only: Option<FieldSet>,
    limit: Option<u64>,
}

impl Lending {
    /// Lends a row if it is selected. Returns false if it was the last one.
    pub(crate) fn lend(
        &self,
        table: &Table,
        values: &[Option<ValueRef<'_>>],
        ready: Option<&Ready<'_>>,
        lent: &mut LentRows,
        sink: &mut dyn RowSink,
    ) -> bool {
        let mut row = match row_of(table, &self.columns, values) {
            Ok(row) => row,
            Err(error) => {
                lent.wrong = Some(error);
                return false;
            }
        };
        if ready.is_some_and(|ready| !ready.selects(&row)) {
            return true;
        }
        if let Some(only) = self.only {
            (0..table.fields().len())
                .filter(|&at| !only.contains(at))
                .for_each(|at| row[at] = ValueRef::Absent);
        }
        lent.count += 1;
        sink.row(&row) == ControlFlow::Continue(()) && self.limit != Some(lent.count)
    }
}
