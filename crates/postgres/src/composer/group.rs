//! Groups of rows, lists that are limited for each value of a field, and estimates as calls.

use marmota_model::{
    AggregateFunction, FieldSet, FilterExpr, GroupQuery, Kind, Result, RowQuery, Table, ValueRef,
};
use marmota_sql::{groups_sql, list_each_sql, shape_groups, shape_order, where_sql};

use super::Composer;
use super::read::{columns_of, relate};
use crate::commands::command_batch::{CommandBatch, Role};
use crate::statement::column::{Column, name};
use crate::statement::filter_shape::{order_sql, put_filter, shape_filter};
use crate::statement::sql_words::quoted;
use crate::statement::sql_writer::Sql;
use crate::statement::{Text, Verb};
use crate::wire::value::{self, PgType};

impl Composer {
    pub(crate) fn group(
        &mut self,
        commands: &mut CommandBatch,
        (table, result): (&Table, &Table),
        query: &GroupQuery,
    ) -> Result<()> {
        let number = self.tables.number(table)?;
        self.shape.clear();
        shape_groups(&mut self.shape, query);
        for (filters, of) in [(&query.filter, table), (&query.having, result)] {
            if let Some(filter) = filters {
                shape_filter(&mut self.shape, of, filter)?;
            }
        }
        let order = query.total_order();
        shape_order(&mut self.shape, order.iter().copied());
        let text = self.texts.find(Verb::Group, number, FieldSet::EMPTY, 0, &self.shape, || {
            let columns = (0..result.fields().len()).map(|at| Column::new(result, at)).collect();
            let mut sql = Sql::on(self.catalog.collated(number));
            relate(&mut sql, &self.catalog, &self.tables, query.filter.as_ref());
            let grouped = |sql: &Sql, field: usize| sql.sorted(table, field);
            let aggregated = |sql: &Sql, function, field| aggregated(sql, table, function, field);
            groups_sql(&mut sql, (table, result), query, grouped, aggregated, Sql::sort_by_bytes);
            order_sql(&mut sql, result, &order);
            if query.limit.is_some() {
                sql.push(" LIMIT ").parameter(PgType::Int8.oid());
            }
            Text::new(sql.text, sql.types, columns)
        });
        commands.call(Role::Main(0), text, |out| {
            let mut count = 0;
            for (filter, of) in query.filter.iter().map(|filter| (filter, table)) {
                count += put_filter(out, of, filter)?;
            }
            for (filter, of) in query.having.iter().map(|having| (having, result)) {
                count += put_filter(out, of, filter)?;
            }
            Ok(count + put_limits(out, query.limit))
        })
    }

    pub(crate) fn list_each(
        &mut self,
        commands: &mut CommandBatch,
        table: &Table,
        query: &RowQuery,
        (by, limit): (usize, u64),
    ) -> Result<()> {
        let number = self.tables.number(table)?;
        let (filter, order) = (query.filter.as_ref(), query.order_with_key(table));
        self.shape.clear();
        if let Some(filter) = filter {
            shape_filter(&mut self.shape, table, filter)?;
        }
        shape_order(&mut self.shape, order.iter().copied());
        self.shape.push(by as u8);
        let fields = query.fields.unwrap_or_else(|| table.read_by_default());
        let limited = u32::from(query.limit.is_some());
        let text = self.texts.find(Verb::ListEach, number, fields, limited, &self.shape, || {
            let mut sql = Sql::on(self.catalog.collated(number));
            relate(&mut sql, &self.catalog, &self.tables, filter);
            let (columns, names) = columns_of(table, fields);
            let order_by = |sql: &mut Sql| order_sql(sql, table, &order);
            let of_each = |sql: &mut Sql| {
                sql.parameter(PgType::Int8.oid());
            };
            list_each_sql(&mut sql, table, filter, (&names, &name(table, by)), order_by, of_each);
            order_sql(&mut sql, table, &order);
            if query.limit.is_some() {
                sql.push(" LIMIT ").parameter(PgType::Int8.oid());
            }
            Text::new(sql.text, sql.types, columns)
        });
        commands.call(Role::Main(0), text, |out| {
            let count = filter.map_or(Ok(0), |filter| put_filter(out, table, filter))?;
            Ok(count + put_limits(out, std::iter::once(limit).chain(query.limit)))
        })
    }

    pub(crate) fn estimate(
        &mut self,
        commands: &mut CommandBatch,
        table: &Table,
        filter: Option<&FilterExpr>,
    ) -> Result<()> {
        let number = self.tables.number(table)?;
        self.shape.clear();
        if let Some(filter) = filter {
            shape_filter(&mut self.shape, table, filter)?;
        }
        let text = self.texts.find(Verb::Estimate, number, FieldSet::EMPTY, 0, &self.shape, || {
            let mut sql = Sql::on(self.catalog.collated(number));
            relate(&mut sql, &self.catalog, &self.tables, filter);
            sql.push("EXPLAIN (FORMAT JSON) SELECT 1 FROM ").push(&quoted(table.name()));
            where_sql(&mut sql, table, filter);
            Text::new(sql.text, sql.types, Box::default())
        });
        commands.call(Role::Main(0), text, |out| {
            filter.map_or(Ok(0), |filter| put_filter(out, table, filter))
        })
    }
}

/// Returns the number of rows that a plan in JSON expects.
pub(crate) fn expected_rows(plan: &[u8]) -> Option<u64> {
    const MEMBER: &str = "\"Plan Rows\":";
    let plan = std::str::from_utf8(plan).ok()?;
    let (_, rest) = plan.split_once(MEMBER)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Appends limits as parameters. Returns their number.
fn put_limits(out: &mut Vec<u8>, limits: impl IntoIterator<Item = u64>) -> u16 {
    let mut count = 0;
    for limit in limits {
        let limit = ValueRef::Int(i64::try_from(limit).unwrap_or(i64::MAX));
        // An integer always fits a bigint.
        let _ = value::put(out, PgType::Int8, limit);
        count += 1;
    }
    count
}

/// Returns the expression of a computed value.
fn aggregated(sql: &Sql, table: &Table, function: AggregateFunction, position: usize) -> String {
    let own = name(table, position);
    match (function, &table.fields()[position].kind) {
        // The sum of bigints is a numeric.
        (AggregateFunction::Sum, Kind::Int { .. }) => format!("sum({own})::int8"),
        // The range of an amount is smaller than that of its column.
        (AggregateFunction::Sum, Kind::Currency) => {
            format!("((sum({own})*10000)::int8*0.0001)::numeric(19,4)")
        }
        (AggregateFunction::Avg, Kind::Int { .. }) => {
            format!("sum({own})::float8/count({own})")
        }
        (AggregateFunction::Avg, Kind::Currency) => {
            format!("(sum({own})*10000)::float8/count({own})/10000")
        }
        (AggregateFunction::Min | AggregateFunction::Max, _) => {
            format!("{}({})", function.name(), sql.sorted(table, position))
        }
        _ => format!("{}({own})", function.name()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_expected_rows_are_those_of_the_first_plan() {
        let plan = br#"[{"Plan": {"Node Type": "Seq Scan", "Plan Rows": 1200, "Plan Width": 4}}]"#;
        assert_eq!(super::expected_rows(plan), Some(1200));
        assert_eq!(super::expected_rows(b"[]"), None);
    }
}
