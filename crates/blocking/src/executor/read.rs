//! Get, list and count; each returns the number of rows.

use std::ops::ControlFlow;

use marmota_model::{FieldSet, FilterExpr, Result, RowQuery, RowSink, Table, Value, ValueRef};
use marmota_sql::{quoted, where_sql};
use marmota_store::predicate::{Condition, Ready};

use super::SqlExecutor;
use super::exact::fields_of;
use crate::connection::ReadAs;
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
        self.lend(table, &sql, &Lending { columns, ..Lending::default() }, sink)
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
        let with_after = query.after.as_ref().and_then(|_| query.filter_with_after(table));
        let filter = with_after.as_ref().or(query.filter.as_ref());
        let split = self.split(table, filter)?;
        let fields = query.fields.unwrap_or_else(|| table.read_by_default());
        let read = match &split.rest {
            Some(rest) => fields.iter().chain(fields_of(table, rest).iter()).collect(),
            None => fields,
        };
        let (columns, names) = columns(table, read);
        let mut sql =
            Sql::new(self.dialect(), format!("SELECT {names} FROM {}", quoted(table.name())));
        where_sql(&mut sql, table, split.sql.as_ref());
        order_sql(&mut sql, table, &query.order_with_key(table));
        if let (Some(limit), None) = (query.limit, &split.rest) {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            sql.add(self.dialect().paging).bind(ValueRef::Int(limit));
        }
        let condition = split.rest.map(|rest| Condition::new(rest, table));
        let only = (read != fields).then_some(fields);
        self.lend(table, &sql, &Lending { columns, condition, only, limit: query.limit }, sink)
    }

    pub(super) fn count(&mut self, table: &Table, filter: Option<&FilterExpr>) -> Result<u64> {
        self.check(table)?;
        let split = self.split(table, filter)?;
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

    fn lend(
        &mut self,
        table: &Table,
        sql: &Sql,
        how: &Lending,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        if sql.parameters.len() > self.dialect().limits.parameters {
            return Err(too_many(sql.parameters.len(), self.dialect()));
        }
        let ready = how.condition.as_ref().map(|it| it.asked(table)).transpose()?;
        let (mut lent, mut wrong) = (0, None);
        let mut take = |values: &[Option<ValueRef<'_>>]| match row_of(table, &how.columns, values) {
            Ok(row) => how.lend_one(table, row, ready.as_ref(), &mut lent, sink),
            Err(error) => {
                wrong = Some(error);
                false
            }
        };
        let forms = forms(table, &how.columns);
        let read = ReadAs::Forms(&forms);
        let done = self.connection.run(&sql.text, &sql.parameters, read, &mut take);
        match wrong {
            Some(error) => Err(error),
            None => done.map(|_| lent).map_err(|failure| failure.error()),
        }
    }
}

/// How the rows of a statement are lent.
#[derive(Default)]
struct Lending {
    columns: Vec<usize>,
    /// Selects the rows.
    condition: Option<Condition>,
    /// The fields that are lent, if more were read.
    only: Option<FieldSet>,
    limit: Option<u64>,
}

impl Lending {
    /// Lends a row if it is selected. Returns false if it was the last one.
    fn lend_one(
        &self,
        table: &Table,
        mut row: Vec<ValueRef<'_>>,
        ready: Option<&Ready<'_>>,
        lent: &mut u64,
        sink: &mut dyn RowSink,
    ) -> bool {
        if ready.is_some_and(|ready| !ready.selects(&row)) {
            return true;
        }
        if let Some(only) = self.only {
            (0..table.fields().len())
                .filter(|&at| !only.contains(at))
                .for_each(|at| row[at] = ValueRef::Absent);
        }
        *lent += 1;
        sink.row(&row) == ControlFlow::Continue(()) && self.limit != Some(*lent)
    }
}
