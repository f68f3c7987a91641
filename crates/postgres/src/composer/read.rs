//! Get, list and count as calls.

use std::convert::Infallible;

use marmota_model::{FieldSet, FilterExpr, Result, RowQuery, Table, ValueRef};
use marmota_sql::{shape_order, where_sql};
use marmota_store::tables::KnownTables;

use super::{Catalog, Composer, by_key};
use crate::commands::command_batch::{CommandBatch, Role};
use crate::statement::column::{Column, name};
use crate::statement::filter_shape::{order_sql, put_filter, shape_filter};
use crate::statement::key::put_key;
use crate::statement::sql_words::quoted;
use crate::statement::sql_writer::Sql;
use crate::statement::{Text, Verb};
use crate::wire::value::{self, PgType};

impl Composer {
    pub(crate) fn get(
        &mut self,
        commands: &mut CommandBatch,
        table: &Table,
        key: ValueRef<'_>,
        fields: FieldSet,
    ) -> Result<()> {
        let number = self.tables.number(table)?;
        let text = self.texts.find(Verb::Get, number, fields, 0, &[], || {
            let (mut sql, columns) = select(table, fields, FieldSet::EMPTY);
            by_key(&mut sql, table);
            Text::new(sql.text, sql.types, columns)
        });
        commands.call(Role::Main(0), text, |out| put_key(out, table, key))
    }

    pub(crate) fn list(
        &mut self,
        commands: &mut CommandBatch,
        table: &Table,
        query: &RowQuery,
    ) -> Result<()> {
        let number = self.tables.number(table)?;
        let with_after = query.after.as_ref().and_then(|_| query.filter_with_after(table));
        let filter = with_after.as_ref().or(query.filter.as_ref());
        let order = query.order_with_key(table);
        self.shape.clear();
        if let Some(filter) = filter {
            shape_filter(&mut self.shape, table, filter)?;
        }
        shape_order(&mut self.shape, order.iter().copied());
        let fields = query.fields.unwrap_or_else(|| table.read_by_default());
        let limited = u32::from(query.limit.is_some());
        let text = self.texts.find(Verb::List, number, fields, limited, &self.shape, || {
            let (mut sql, columns) = select(table, fields, self.catalog.collated(number));
            relate(&mut sql, &self.catalog, &self.tables, filter);
            where_sql(&mut sql, table, filter);
            order_sql(&mut sql, table, &order);
            if query.limit.is_some() {
                sql.push(" LIMIT ").parameter(PgType::Int8.oid());
            }
            Text::new(sql.text, sql.types, columns)
        });
        commands.call(Role::Main(0), text, |out| {
            let mut count = filter.map_or(Ok(0), |filter| put_filter(out, table, filter))?;
            if let Some(limit) = query.limit {
                let limit = ValueRef::Int(i64::try_from(limit).unwrap_or(i64::MAX));
                // An integer always fits a bigint.
                let _ = value::put(out, PgType::Int8, limit);
                count += 1;
            }
            Ok(count)
        })
    }

    pub(crate) fn count(
        &mut self,
        commands: &mut CommandBatch,
        table: &Table,
        filter: Option<&FilterExpr>,
    ) -> Result<()> {
        self.filtered(commands, Role::Main(0), Verb::Count, table, filter)
    }

    pub(crate) fn delete_where(
        &mut self,
        commands: &mut CommandBatch,
        role: Role,
        table: &Table,
        filter: Option<&FilterExpr>,
    ) -> Result<()> {
        self.filtered(commands, role, Verb::DeleteWhere, table, filter)
    }

    fn filtered(
        &mut self,
        commands: &mut CommandBatch,
        role: Role,
        verb: Verb,
        table: &Table,
        filter: Option<&FilterExpr>,
    ) -> Result<()> {
        let number = self.tables.number(table)?;
        self.shape.clear();
        if let Some(filter) = filter {
            shape_filter(&mut self.shape, table, filter)?;
        }
        let text = self.texts.find(verb, number, FieldSet::EMPTY, 0, &self.shape, || {
            let mut sql = Sql::on(self.catalog.collated(number));
            relate(&mut sql, &self.catalog, &self.tables, filter);
            sql.push(if verb == Verb::Count { "SELECT count(*) FROM " } else { "DELETE FROM " });
            sql.push(&quoted(table.name()));
            where_sql(&mut sql, table, filter);
            Text::new(sql.text, sql.types, Box::default())
        });
        commands
            .call(role, text, |out| filter.map_or(Ok(0), |filter| put_filter(out, table, filter)))
    }
}

/// Prepares SQL for a filter's conditions on related rows.
pub(super) fn relate(
    sql: &mut Sql,
    catalog: &Catalog,
    tables: &KnownTables,
    filter: Option<&FilterExpr>,
) {
    let Some(filter) = filter else { return };
    let Ok(()) = filter.each_related(&mut |name| -> std::result::Result<(), Infallible> {
        if let Some(number) = tables.number_of(name) {
            sql.relate(name, catalog.collated(number));
        }
        Ok(())
    });
}

fn select(table: &Table, fields: FieldSet, collated: FieldSet) -> (Sql, Box<[Column]>) {
    let mut sql = Sql::on(collated);
    let (columns, names) = columns_of(table, fields);
    sql.push("SELECT ").push(&names).push(" FROM ").push(&quoted(table.name()));
    (sql, columns)
}

/// Returns the columns of a statement that reads these fields, and their names in SQL.
pub(super) fn columns_of(table: &Table, fields: FieldSet) -> (Box<[Column]>, String) {
    let known = fields.iter().filter(|&position| position < table.fields().len());
    let columns: Box<[Column]> = known.map(|position| Column::new(table, position)).collect();
    let names: Vec<String> =
        columns.iter().map(|column| name(table, usize::from(column.position))).collect();
    (columns, names.join(","))
}
