//! Groups of rows, and lists that are limited for each value of a field.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use marmota_model::{
    AggregateFunction, Error, ErrorKind, FieldSet, FilterExpr, GroupQuery, Kind, Result, RowQuery,
    RowSink, SortKey, Table, ValueRef,
};
use marmota_sql::{SqlWriter as _, groups_sql, list_each_sql, quoted, shape_groups, shape_order};
use marmota_store::operation::Operation;

use crate::executor::Executor;
use crate::executor::read::{by_width, columns, lend_all};
use crate::ffi::Bound;
use crate::statement::column::Column;
use crate::statement::filter_shape::{Sql, bind_filter, order_sql};
use crate::statement::key::field_sql;
use crate::statement::{Head, Verb};

impl Executor {
    /// Executes a query of groups, or a list that is limited for each value of a field.
    pub(super) fn groups_or_each(
        &mut self,
        operation: &Operation<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        match operation {
            Operation::Group { table, query, result } => self.group((table, result), query, sink),
            Operation::ListEach { table, query, by, limit } => {
                self.list_each(table, query, *by, *limit, sink)
            }
            // The store lists the rows, and ranks them itself.
            _ => {
                let message = "the engine `sqlite` does not rank rows";
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }

    fn group(
        &mut self,
        (table, result): (&Table, &Table),
        query: &GroupQuery,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let number = self.number(table)?;
        shape_groups(&mut self.shape, query);
        for (filter, of) in conditions((table, result), query) {
            self.shape.filter(of, filter)?;
        }
        let order = query.total_order();
        shape_order(&mut self.shape, order.iter().copied());
        let head = Head { verb: Verb::Group, table: number, fields: FieldSet::EMPTY, variant: 0 };
        let place = self.statement(head, |_| {
            let columns = (0..result.fields().len()).map(|at| Column::new(result, at)).collect();
            let mut sql = Sql::default();
            let grouped = |_: &Sql, field: usize| folded(table, field);
            let aggregated = |_: &Sql, function, field| aggregated(table, function, field);
            groups_sql(&mut sql, (table, result), query, grouped, aggregated, |_| {});
            order_of_groups(&mut sql, result, &order);
            if query.limit.is_some() {
                sql.push(" LIMIT ?");
            }
            (sql.0, columns)
        })?;
        let statement = self.statements.at(place);
        let mut run = self.connection.start(statement.id);
        let mut made = self.shape.made.iter();
        for (filter, of) in conditions((table, result), query) {
            bind_filter(&mut run, of, filter, &mut made)?;
        }
        if let Some(limit) = query.limit {
            run.bind(Bound::int(i64::try_from(limit).unwrap_or(i64::MAX)));
        }
        let mut is_infinite = false;
        let mut finite = |row: &[ValueRef<'_>]| {
            is_infinite =
                row.iter().any(|value| matches!(value, ValueRef::Float(it) if !it.is_finite()));
            if is_infinite { ControlFlow::Break(()) } else { sink.row(row) }
        };
        let (rows, ended) =
            by_width!(result, lend_all(result, &statement.columns, &mut run, &mut finite));
        drop(run);
        self.lent = rows;
        match ended {
            Err(error) if is_overflow(&error) => Err(query.overflow(table)),
            Ok(()) if is_infinite => Err(query.overflow(table)),
            ended => ended.map(|()| rows),
        }
    }

    fn list_each(
        &mut self,
        table: &Table,
        query: &RowQuery,
        by: usize,
        limit: u64,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let number = self.number(table)?;
        let filter = query.filter.as_ref();
        if let Some(filter) = filter {
            self.shape.filter(table, filter)?;
        }
        self.shape.order(table, &query.order);
        self.shape.bytes.push(by as u8);
        let fields = query.fields.unwrap_or_else(|| table.read_by_default());
        let variant = u32::from(query.limit.is_some());
        let head = Head { verb: Verb::ListEach, table: number, fields, variant };
        let place = self.statement(head, |_| {
            let columns = columns(table, fields);
            let field = |at: usize| field_sql(table, at);
            let names: Vec<String> =
                columns.iter().map(|column| field(usize::from(column.position))).collect();
            let (mut sql, names) = (Sql::default(), names.join(","));
            let order = |sql: &mut Sql| order_sql(sql, table, &query.order);
            let of_each = |sql: &mut Sql| {
                sql.push("?");
            };
            list_each_sql(&mut sql, table, filter, (&names, &field(by)), order, of_each);
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
        for limit in std::iter::once(limit).chain(query.limit) {
            run.bind(Bound::int(i64::try_from(limit).unwrap_or(i64::MAX)));
        }
        let (rows, ended) = by_width!(table, lend_all(table, &statement.columns, &mut run, sink));
        drop(run);
        self.lent = rows;
        ended.map(|()| rows)
    }
}

/// Returns the conditions on rows and on groups, each with the table of its fields, in the order of
/// the statement.
fn conditions<'q>(
    (table, result): (&'q Table, &'q Table),
    query: &'q GroupQuery,
) -> impl Iterator<Item = (&'q FilterExpr, &'q Table)> {
    let rows = query.filter.iter().map(move |filter| (filter, table));
    rows.chain(query.having.iter().map(move |having| (having, result)))
}

/// Returns the expression of a field whose texts are folded if their collation ignores case.
fn folded(table: &Table, field: usize) -> String {
    let (name, field) = (field_sql(table, field), &table.fields()[field]);
    if GroupQuery::folds(field) { format!("lower({name}) COLLATE NOCASE") } else { name }
}

/// Returns the expression of a computed value.
fn aggregated(table: &Table, function: AggregateFunction, position: usize) -> String {
    let (name, field) = (field_sql(table, position), &table.fields()[position]);
    match (function, &field.kind) {
        (AggregateFunction::Sum, Kind::Int { .. } | Kind::Currency) => whole_sum(&name),
        (AggregateFunction::Avg, Kind::Currency) => format!("avg({name})/10000.0"),
        (AggregateFunction::Min | AggregateFunction::Max, _) if GroupQuery::folds(field) => {
            format!("{}(lower({name})) COLLATE NOCASE", function.name())
        }
        _ => format!("{}({name})", function.name()),
    }
}

/// Returns the sum of integers that fails only if the sum itself exceeds 64 bits. SQLite's `sum`
/// also fails if the sum of the first rows does, which depends on the order of rows. So the upper
/// and lower halves are summed separately.
fn whole_sum(name: &str) -> String {
    let (high, low) = (format!("sum({name}>>32)"), format!("sum({name}&4294967295)"));
    let mut sql = String::new();
    let _ = write!(
        sql,
        "CASE WHEN {high} IS NULL THEN NULL \
         WHEN {high}+({low}>>32) BETWEEN -2147483648 AND 2147483647 \
         THEN (({high}+({low}>>32))<<32)|({low}&4294967295) \
         ELSE abs(-9223372036854775807-(count(*)>0)) END"
    );
    sql
}

/// Returns true for the error of SQLite's `abs` above.
fn is_overflow(error: &Error) -> bool {
    error.message().starts_with("integer overflow")
}

/// Writes the order of groups.
fn order_of_groups(out: &mut Sql, result: &Table, order: &[SortKey]) {
    for (position, by) in order.iter().enumerate() {
        out.push(if position == 0 { " ORDER BY " } else { "," });
        out.push(&quoted(&result.fields()[by.field].name));
        out.push(if by.descending { " DESC" } else { "" });
    }
}
