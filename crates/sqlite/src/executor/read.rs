//! Get, list and count; each returns the number of rows.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use marmota_model::{FieldSet, FilterExpr, Result, RowQuery, RowSink, Table, ValueRef};
use marmota_sql::quoted;
use marmota_sql::{SqlWriter as _, where_sql};

use crate::executor::Executor;
use crate::fault;
use crate::ffi::{Bound, Cells, Run};
use crate::statement::column::{Column, lend};
use crate::statement::filter_shape::{Sql, bind_filter, order_sql, with_after};
use crate::statement::key::{bind_key, field_sql, key_condition};
use crate::statement::{Head, Verb};

/// The number of rows that a statement returned, and its result.
pub(crate) type Lent = (u64, Result<()>);

/// Calls a function that is generic over the width of its row buffer with the smallest sufficient
/// width: a buffer is cleared for each row.
macro_rules! by_width {
    ($table:expr, $function:ident($($argument:expr),*)) => {
        match $table.fields().len() {
            0..=8 => $function::<8>($($argument),*),
            9..=16 => $function::<16>($($argument),*),
            17..=32 => $function::<32>($($argument),*),
            _ => $function::<{ FieldSet::CAPACITY }>($($argument),*),
        }
    };
}

pub(super) use by_width;

impl Executor {
    pub(crate) fn get(
        &mut self,
        table: &Table,
        key: &ValueRef<'_>,
        fields: FieldSet,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let number = self.number(table)?;
        let head = Head { verb: Verb::Get, table: number, fields, variant: 0 };
        let place = self.statement(head, |_| {
            let columns = columns(table, fields);
            let mut sql = select(table, &columns);
            let _ = write!(sql, " WHERE {}", key_condition(table));
            (sql, columns)
        })?;
        let statement = self.statements.at(place);
        let values = table.key_values(*key);
        let mut run = self.connection.start(statement.id);
        bind_key(&mut run, key, &values);
        // Keys are unique, so a second step is not needed.
        if !run.step().map_err(|failure| fault::of(&failure))? {
            return Ok(0);
        }
        by_width!(table, lend_one(table, &statement.columns, &run, sink))?;
        Ok(1)
    }

    pub(crate) fn list(
        &mut self,
        table: &Table,
        query: &RowQuery,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let number = self.number(table)?;
        let with_after = query.after.as_ref().and_then(|_| with_after(table, query));
        let filter = with_after.as_ref().or(query.filter.as_ref());
        if let Some(filter) = filter {
            self.shape.filter(table, filter)?;
        }
        self.shape.order(table, &query.order);
        let fields = query.fields.unwrap_or_else(|| table.read_by_default());
        let variant = u32::from(query.limit.is_some());
        let head = Head { verb: Verb::List, table: number, fields, variant };
        let place = self.statement(head, |_| {
            let columns = columns(table, fields);
            let mut sql = Sql(select(table, &columns));
            where_sql(&mut sql, table, filter);
            order_sql(&mut sql, table, &query.order);
            if query.limit.is_some() {
                sql.push(" LIMIT ?");
            }
            (sql.0, columns)
        })?;
        let statement = self.statements.at(place);
        let mut run = self.connection.start(statement.id);
        if let Some(filter) = filter {
            bind_filter(&mut run, table, filter, &mut self.shape.made.iter())?;
        }
        if let Some(limit) = query.limit {
            run.bind(Bound::int(i64::try_from(limit).unwrap_or(i64::MAX)));
        }
        let (rows, ended) = by_width!(table, lend_all(table, &statement.columns, &mut run, sink));
        drop(run);
        self.lent = rows;
        ended.map(|()| rows)
    }

    pub(crate) fn count(&mut self, table: &Table, filter: Option<&FilterExpr>) -> Result<u64> {
        let number = self.number(table)?;
        if let Some(filter) = filter {
            self.shape.filter(table, filter)?;
        }
        let fields = FieldSet::EMPTY;
        let head = Head { verb: Verb::Count, table: number, fields, variant: 0 };
        let place = self.statement(head, |_| {
            let mut sql = Sql(format!("SELECT count(*) FROM {}", quoted(table.name())));
            where_sql(&mut sql, table, filter);
            (sql.0, Box::default())
        })?;
        let mut run = self.connection.start(self.statements.at(place).id);
        if let Some(filter) = filter {
            bind_filter(&mut run, table, filter, &mut self.shape.made.iter())?;
        }
        run.step().map_err(|failure| fault::of(&failure))?;
        Ok(u64::try_from(run.row(&mut Cells::<1>::new()).at(0).int()).unwrap_or(0))
    }
}

fn lend_one<const N: usize>(
    table: &Table,
    plan: &[Column],
    run: &Run<'_, '_>,
    sink: &mut dyn RowSink,
) -> Result<()> {
    lend::<N, _>(table, plan, run.row(&mut Cells::new()), |row| sink.row(row)).map(|_| ())
}

pub(super) fn lend_all<const N: usize>(
    table: &Table,
    plan: &[Column],
    run: &mut Run<'_, '_>,
    sink: &mut dyn RowSink,
) -> Lent {
    let (mut rows, mut cells) = (0, Cells::new());
    loop {
        match run.step() {
            Ok(true) => {}
            Ok(false) => return (rows, Ok(())),
            Err(failure) => return (rows, Err(fault::of(&failure))),
        }
        rows += 1;
        match lend::<N, _>(table, plan, run.row(&mut cells), |row| sink.row(row)) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return (rows, Ok(())),
            Err(error) => return (rows, Err(error)),
        }
    }
}

/// Returns the columns of a statement that reads these fields.
pub(super) fn columns(table: &Table, fields: FieldSet) -> Box<[Column]> {
    let known = fields.iter().filter(|&position| position < table.fields().len());
    known.map(|position| Column::new(table, position)).collect()
}

fn select(table: &Table, columns: &[Column]) -> String {
    let names: Vec<String> =
        columns.iter().map(|column| field_sql(table, usize::from(column.position))).collect();
    let names = if names.is_empty() { "1".to_owned() } else { names.join(",") };
    format!("SELECT {names} FROM {}", quoted(table.name()))
}
