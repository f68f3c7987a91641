//! The steps from an existing table to the one that a model needs.
//!
//! Steps are in the order in which they can be executed: renames, changes of columns, new columns,
//! NULLs, dropped columns, references, indexes.

use std::sync::Arc;

use marmota_model::{
    Field, FieldSet, Index, KeyKind, Kind, OnDelete, Result, Table, Timestamp, ValueRef,
};
use marmota_sql::{TableSteps, added_indexes, has_same_filter, is_implicit, quoted};
use marmota_store::plan::{PlanStep, StepEffect, TableChange};

use super::Preparing;
use super::definition::{self, create_index, index_name};
use super::layout::{Layout, LayoutColumn, LayoutIndex, LayoutReference};
use crate::statement::column::{compared, is_folded, pg_type};
use crate::statement::index_filter::index_filter;
use crate::statement::sql_words::{sql_literal, sql_type};
use crate::wire::value::PgType;

/// Makes the steps for one of the tables.
pub(super) fn compare(
    run: &mut Preparing<'_>,
    tables: &[Arc<Table>],
    at: usize,
    steps: &mut Vec<PlanStep>,
) -> Result<()> {
    let table = &*tables[at];
    let mut there = table.name().to_owned();
    let mut layout = Layout::of(run, table, &there)?;
    let is_model = |name: &str| tables.iter().any(|other| other.name() == name);
    let was = table.schema().was.as_deref();
    if let (None, Some(was)) = (&layout, was.filter(|was| !is_model(was))) {
        layout = Layout::of(run, table, was)?;
        was.clone_into(&mut there);
    }
    let mut comparison = Comparison { steps: TableSteps { table, there, steps } };
    match layout {
        None => comparison.make_table(&tables[..=at]),
        Some(layout) => comparison.compare(run, &layout)?,
    }
    // References of tables that refer to each other in a circle are added when all of them exist.
    for other in &tables[..at] {
        for position in 0..other.fields().len() {
            let refers = |field: &Field| matches!(&field.kind, Kind::Reference { table: to, .. } if to == table.name());
            if refers(&other.fields()[position]) {
                let there = other.name().to_owned();
                let mut late = Comparison { steps: TableSteps { table: other, there, steps } };
                late.add_late_reference(run, position)?;
            }
        }
    }
    Ok(())
}

/// A table being compared.
struct Comparison<'c> {
    steps: TableSteps<'c>,
}

const fn integer_bytes(pg_type: PgType) -> Option<u8> {
    match pg_type {
        PgType::Int2 => Some(2),
        PgType::Int4 => Some(4),
        PgType::Int8 => Some(8),
        _ => None,
    }
}

impl Comparison<'_> {
    /// Creates a table, with its references to tables before it.
    fn make_table(&mut self, before: &[Arc<Table>]) {
        let table = self.steps.table;
        if self.steps.lacks_expression(0..table.fields().len()) {
            return;
        }
        let mut statements = vec![definition::create_table(table)];
        for (position, field) in table.fields().iter().enumerate() {
            if let Kind::Reference { table: to, .. } = &field.kind
                && before.iter().any(|other| other.name() == to)
            {
                statements.extend(definition::add_reference(table, position));
            }
        }
        self.steps.step(TableChange::AddTable, StepEffect::Safe, statements);
        for index in added_indexes(table) {
            self.steps.add_index(&index, create_index(table, &index, FieldSet::EMPTY), None);
        }
    }

    /// Adds a reference to a table that is created after this one.
    fn add_late_reference(&mut self, run: &mut Preparing<'_>, position: usize) -> Result<()> {
        let layout = Layout::of(run, self.steps.table, &self.steps.there)?;
        if layout.is_none_or(|layout| layout.reference(self.steps.table, position).is_none()) {
            self.add_reference(position);
        }
        Ok(())
    }

    fn add_reference(&mut self, position: usize) {
        let field = &self.steps.table.fields()[position];
        let sql = definition::add_reference(self.steps.table, position);
        self.steps.add_reference(field, sql.into_iter().collect());
    }

    /// Replaces a reference by one with the field's action.
    fn change_action(&mut self, position: usize, there: &LayoutReference) {
        let mut sql = self.steps.alter(&format!("DROP CONSTRAINT {}", quoted(&there.name)));
        sql.extend(definition::add_reference(self.steps.table, position));
        self.steps.change_action(position, (there.on_delete, &there.to), sql);
    }

    fn compare(&mut self, run: &mut Preparing<'_>, layout: &Layout) -> Result<()> {
        if !layout.is_table {
            let why = "the database has a view or another object of this name; rename one of the \
                       two";
            self.steps.refuse(TableChange::SchemaMismatch, why);
            return Ok(());
        }
        if let Some(why) = self.other_key(layout) {
            self.steps.refuse(TableChange::SchemaMismatch, why);
            return Ok(());
        }
        if self.steps.there != self.steps.table.name() {
            self.steps.rename_table();
        }
        let fields = 0..self.steps.table.fields().len();
        let columns: Vec<Option<&LayoutColumn>> =
            fields.clone().map(|position| layout.column_at(self.steps.table, position)).collect();
        let is_own = self.is_own(&columns);
        for (field, column) in self.steps.table.fields().iter().zip(&columns) {
            if let Some(column) = column.filter(|column| column.name != field.name) {
                self.steps.rename_column(field, &column.name);
            }
        }
        for position in fields.clone() {
            if let Some(column) = columns[position] {
                self.change_column(position, column, is_own);
            }
        }
        let is_new =
            |&position: &usize| columns[position].is_none() && !self.steps.table.is_made(position);
        let new: Vec<usize> = fields.clone().filter(is_new).collect();
        if !self.steps.lacks_expression(new.iter().copied()) {
            for position in new {
                self.add_column(run, position)?;
            }
        }
        for position in fields.clone() {
            if let Some(column) = columns[position] {
                let null = (&*column.name, column.not_null);
                let there = self.steps.there.clone();
                self.steps.change_null(
                    position,
                    null,
                    |condition| count(run, &there, condition),
                    TableSteps::standard_null,
                )?;
            }
        }
        for column in &layout.columns {
            let known = columns.iter().flatten().any(|known| known.name == column.name);
            if !known {
                self.drop_column(run, column)?;
            }
        }
        for position in fields {
            let field = &self.steps.table.fields()[position];
            if !matches!(field.kind, Kind::Reference { .. }) {
                continue;
            }
            let wanted = self.steps.table.action_of_database(position);
            match layout.reference(self.steps.table, position) {
                None => self.add_reference(position),
                // A table of another program keeps the actions that it has.
                Some(there)
                    if there.on_delete != wanted && (is_own || wanted != OnDelete::Restrict) =>
                {
                    self.change_action(position, there);
                }
                Some(_) => {}
            }
        }
        self.drop_references(layout);
        self.change_indexes(run, layout, &columns)
    }

    /// Drops the foreign keys of several columns that were made for a field that the model does not
    /// have any more.
    fn drop_references(&mut self, layout: &Layout) {
        let table = self.steps.table;
        let known: Vec<&LayoutReference> =
            table.made_fields().iter().filter_map(|at| layout.reference(table, at)).collect();
        for there in layout.references.iter().filter(|one| one.columns.len() > 1) {
            let is_known = known.iter().any(|known| known.name == there.name);
            if is_known || !definition::is_own_reference(&there.name, &self.steps.there) {
                continue;
            }
            let column = there.columns.join(", ");
            let (from, to) = (format!("a reference to `{}`", there.to), "no reference".to_owned());
            let change = TableChange::ChangeColumn { column, from, to };
            let sql =
                self.steps.alter(&format!("DROP CONSTRAINT IF EXISTS {}", quoted(&there.name)));
            self.steps.step(change, StepEffect::Safe, sql);
        }
    }

    /// Returns the reason why the key in the database cannot be the model's, or `None` if it can.
    fn other_key(&self, layout: &Layout) -> Option<String> {
        let table = self.steps.table;
        let field = &table.fields()[table.key()];
        let wanted = pg_type(&field.kind);
        let keys = layout.key_columns();
        if table.has_composite_key() {
            let wanted = table.key_fields();
            let is_it = |(key, &field): (&&LayoutColumn, &usize)| {
                layout.column_at(table, field).is_some_and(|column| column.name == key.name)
            };
            if keys.len() == wanted.len() && keys.iter().zip(wanted).all(is_it) {
                return None;
            }
        } else if let [key] = keys.as_slice() {
            let is_it = layout.column_of(field).is_some_and(|column| column.name == key.name);
            if is_it && key.is_a(wanted) {
                return None;
            }
        }
        let keys: Vec<(&str, &str)> = keys.iter().map(|key| (&*key.name, &*key.declared)).collect();
        Some(self.steps.other_key(&keys, sql_type(wanted)))
    }

    /// Returns true for a table that Marmota created: its key and texts have the types of models. A
    /// table of another program is not changed, since that program may rely on it.
    fn is_own(&self, columns: &[Option<&LayoutColumn>]) -> bool {
        let table = self.steps.table;
        let key_is_own = table.key_kind() != KeyKind::Auto
            || columns[table.key()]
                .is_some_and(|key| key.is_identity && key.integer_bytes() == Some(8));
        let mut texts =
            table.fields().iter().zip(columns).filter_map(|(field, column)| {
                column.filter(|_| pg_type(&field.kind) == PgType::Text)
            });
        key_is_own && texts.all(|column| column.declared == "text" && column.is_by_bytes)
    }

    /// Handles a column of another type, or one that a model cannot write to.
    fn change_column(&mut self, position: usize, column: &LayoutColumn, is_own: bool) {
        if self.steps.differs_in_generation(position, column.is_generated) {
            return;
        }
        let field = &self.steps.table.fields()[position];
        let wanted = pg_type(&field.kind);
        let name = quoted(&field.name);
        let change = |to: &str| TableChange::ChangeColumn {
            column: field.name.to_string(),
            from: column.declared.clone(),
            to: to.to_owned(),
        };
        if column.is_always_identity && position != self.steps.table.key() {
            let table = quoted(self.steps.table.name());
            let why = format!(
                "PostgreSQL numbers the column (GENERATED ALWAYS AS IDENTITY), so a model cannot \
                 write it: leave the field out and read the column with `sql`, or ALTER TABLE \
                 {table} ALTER COLUMN {name} DROP IDENTITY"
            );
            let from = format!("{}, an identity", column.declared);
            let change = TableChange::ChangeColumn {
                column: field.name.to_string(),
                from,
                to: column.declared.clone(),
            };
            self.steps.refuse(change, why);
            return;
        }
        match (column.integer_bytes(), integer_bytes(wanted)) {
            // A wider column holds all values of a narrower one.
            (Some(there), Some(wanted)) if there >= wanted => {}
            // Values that do not fit are refused when they are written.
            (Some(_), Some(_)) if !is_own || position == self.steps.table.key() => {}
            (Some(_), Some(_)) => {
                let sql =
                    self.steps.alter(&format!("ALTER COLUMN {name} TYPE {}", sql_type(wanted)));
                self.steps.step(change(sql_type(wanted)), StepEffect::Safe, sql);
            }
            _ if !column.is_a(wanted) => {
                let why = format!(
                    "the column is {} in the database, and a {} field is {}; give the field \
                     another name (it is added as a new column, and you can copy the values), or \
                     change its type back",
                    column.declared,
                    field.kind.name(),
                    sql_type(wanted)
                );
                self.steps.refuse(change(sql_type(wanted)), why);
            }
            _ if wanted == PgType::Text && !column.is_deterministic => {
                let why = format!(
                    "the column's collation treats different texts as equal, but a model compares \
                     texts byte by byte: ALTER TABLE {} ALTER COLUMN {name} TYPE text COLLATE \"C\"",
                    quoted(self.steps.table.name()),
                );
                self.steps.refuse(change("text COLLATE \"C\""), why);
            }
            _ => {}
        }
    }

    fn add_column(&mut self, run: &mut Preparing<'_>, position: usize) -> Result<()> {
        let table = self.steps.table;
        let default = table.default(position).map(sql_literal);
        let has_rows = count(run, &self.steps.there, "true LIMIT 1")? > 0;
        let now = || sql_literal(ValueRef::Timestamp(Timestamp::now()));
        let definition =
            |default| format!("ADD COLUMN {}", definition::column(table, position, default));
        self.steps.add_column(position, has_rows, default, now, definition);
        Ok(())
    }

    /// Handles a column that is not in the model.
    fn drop_column(&mut self, run: &mut Preparing<'_>, column: &LayoutColumn) -> Result<()> {
        let there = format!("{} IS NOT NULL", quoted(&column.name));
        let values = count(run, &self.steps.there, &there)?;
        self.steps.drop_column(&column.name, column.is_required, values, Vec::new());
        Ok(())
    }

    fn change_indexes(
        &mut self,
        run: &mut Preparing<'_>,
        layout: &Layout,
        columns: &[Option<&LayoutColumn>],
    ) -> Result<()> {
        let table = self.steps.table;
        let wanted = added_indexes(table);
        let ours = |name: &str| self.steps.is_ours(name);
        let going: Vec<String> = layout
            .indexes
            .iter()
            .map(|index| &index.name)
            .filter(|name| ours(name) && wanted.iter().all(|one| index_name(table, one) != **name))
            .cloned()
            .collect();
        let missing: Vec<&Index> = wanted
            .iter()
            .filter(|index| {
                let name = index_name(table, index);
                let serves = |there: &LayoutIndex| {
                    let same = there.unique == index.unique
                        && is_over(there, table, index)
                        && has_same_filter(table, index, there.condition.as_deref());
                    there.name == name || same && !ours(&there.name)
                };
                // A table of another program gets no index that its model does not name: it only
                // makes deletes of rows that are referred to faster.
                let is_optional = !self.is_own(columns) && is_implicit(table, index);
                !is_optional && !layout.indexes.iter().any(serves)
            })
            .collect();
        for name in going {
            self.steps.drop_index(&name);
        }
        for index in missing {
            let double = self.double(run, index, columns)?;
            let statement = create_index(table, index, collated(columns));
            self.steps.add_index(index, statement, double);
        }
        Ok(())
    }

    /// Returns a value that several rows have in columns that should be unique.
    fn double(
        &self,
        run: &mut Preparing<'_>,
        index: &Index,
        columns: &[Option<&LayoutColumn>],
    ) -> Result<Option<String>> {
        // Rows of a column that is still to be added are equal only by its default, which creating
        // the index detects; the same applies to a column of another type.
        let fits = |&field: &usize| {
            columns[field].is_some_and(|c| {
                let wanted = pg_type(&self.steps.table.fields()[field].kind);
                c.name == self.steps.table.fields()[field].name && c.is_a(wanted)
            })
        };
        let filter = self.steps.table.index_filter(index);
        let used = filter.as_ref().map_or(FieldSet::EMPTY, |one| one.fields(self.steps.table));
        if !index.unique || !index.fields.iter().all(fits) || !used.iter().all(|at| fits(&at)) {
            return Ok(None);
        }
        let fields = || index.fields.iter().map(|&field| &self.steps.table.fields()[field]);
        let collated = collated(columns);
        let by = index
            .fields
            .iter()
            .map(|&at| compared(&self.steps.table.fields()[at], collated.contains(at)));
        let by: Vec<String> = by.collect();
        let shown: Vec<String> =
            fields().map(|field| format!("min({}::text)", quoted(&field.name))).collect();
        let mut there: Vec<String> =
            fields().map(|field| format!("{} IS NOT NULL", quoted(&field.name))).collect();
        let filter = filter.map(|filter| index_filter(self.steps.table, &filter, collated));
        there.extend(filter.map(|filter| format!("({filter})")));
        let sql = format!(
            "SELECT concat_ws(', ',{}) FROM {} WHERE {} GROUP BY {} HAVING count(*)>1 LIMIT 1",
            shown.join(","),
            quoted(&self.steps.there),
            there.join(" AND "),
            by.join(",")
        );
        let mut double = None;
        run.query(&sql, |row| double = Some(marmota_model::text::excerpt(row.text(0))))?;
        Ok(double)
    }
}

/// Returns the fields whose columns sort texts by the rules of a language.
pub(super) fn collated(columns: &[Option<&LayoutColumn>]) -> FieldSet {
    let is_collated = |column: &&LayoutColumn| !column.is_by_bytes;
    columns
        .iter()
        .enumerate()
        .filter(|(_, column)| column.as_ref().is_some_and(is_collated))
        .map(|(position, _)| position)
        .collect()
}

/// Returns the number of rows of a table that satisfy a condition.
fn count(run: &mut Preparing<'_>, there: &str, condition: &str) -> Result<i64> {
    let there = quoted(there);
    run.number(&format!("SELECT count(*) FROM (SELECT 1 FROM {there} WHERE {condition}) r"))
}

/// Returns true if an existing index consists of exactly these fields, as they compare.
fn is_over(there: &LayoutIndex, table: &Table, index: &Index) -> bool {
    there.columns.len() == index.fields.len()
        && there.columns.iter().zip(index.fields.iter()).all(|(column, &field)| {
            let field = &table.fields()[field];
            let folded = *column == format!("lower({})", field.name)
                || *column == format!("lower({})", quoted(&field.name));
            if is_folded(field) { folded } else { *column == *field.name }
        })
}
