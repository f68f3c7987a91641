//! The steps from an existing table to the one that a model needs.
//!
//! Steps are in the order in which they can be executed: renames, changes of columns, new columns,
//! NULLs, dropped columns, indexes.

use marmota_model::{Collation, Index, KeyKind, Kind, OnDelete, Table, Timestamp, ValueRef};
use marmota_sql::{TableSteps, added_indexes, has_same_filter, index_name, is_implicit, quoted};
use marmota_store::plan::{PlanStep, StepEffect, TableChange};

use super::definition::{self, create_index};
use super::layout::{Layout, LayoutColumn};
use super::rebuild::{self, Conversion};
use crate::ffi::{Connection, Failure};
use crate::schema_objects::SchemaObjects;
use crate::sql_words::{sql_literal, sql_type};
use crate::statement::column::read;
use crate::statement::key::stored;

/// Makes the steps for one table. `is_model` returns true for the names of models; `counts`
/// requests the number of values that are kept.
pub(super) fn compare(
    (connection, objects): (&mut Connection, &mut SchemaObjects),
    table: &Table,
    is_model: &dyn Fn(&str) -> bool,
    counts: bool,
    steps: &mut Vec<PlanStep>,
) -> Result<(), Failure> {
    let mut there = table.name().to_owned();
    let mut layout = Layout::of(connection, objects, &there)?;
    let was = table.schema().was.as_deref();
    if let (None, Some(was)) = (&layout, was.filter(|was| !is_model(was))) {
        layout = Layout::of(connection, objects, was)?;
        was.clone_into(&mut there);
    }
    let steps = TableSteps { table, there, steps };
    let mut comparison = Comparison { steps, counts, renames: false, rebuilds: false };
    match layout {
        None => comparison.make_table(),
        Some(layout) => comparison.compare(connection, &layout)?,
    }
    Ok(())
}

/// A table being compared.
struct Comparison<'c> {
    steps: TableSteps<'c>,
    /// True if kept values are counted.
    counts: bool,
    /// True if the table or a column is renamed.
    renames: bool,
    /// True if the table is recreated, without its indexes.
    rebuilds: bool,
}

impl Comparison<'_> {
    fn make_table(&mut self) {
        let table = self.steps.table;
        if self.steps.lacks_expression(stored(table)) {
            return;
        }
        self.steps.step(
            TableChange::AddTable,
            StepEffect::Safe,
            vec![definition::create_table(table)],
        );
        for index in added_indexes(table) {
            self.steps.add_index(&index, create_index(table, &index), None);
        }
    }

    fn compare(&mut self, connection: &mut Connection, layout: &Layout) -> Result<(), Failure> {
        if !layout.is_table {
            let why =
                "the database has a view or virtual table of this name; rename one of the two";
            self.steps.refuse(TableChange::SchemaMismatch, why.to_owned());
            return Ok(());
        }
        if let Some(why) = self.other_key(layout) {
            self.steps.refuse(TableChange::SchemaMismatch, why);
            return Ok(());
        }
        if !self.steps.there.eq_ignore_ascii_case(self.steps.table.name()) {
            self.renames = true;
            self.steps.rename_table();
        }
        let fields = 0..self.steps.table.fields().len();
        let columns: Vec<Option<&LayoutColumn>> =
            fields.clone().map(|position| layout.column_of(self.steps.table, position)).collect();
        for (field, column) in self.steps.table.fields().iter().zip(&columns) {
            if let Some(column) = column.filter(|c| !c.name.eq_ignore_ascii_case(&field.name)) {
                self.renames = true;
                self.steps.rename_column(field, &column.name);
            }
        }
        let is_new = |position: &usize| columns[*position].is_none();
        let added: Vec<usize> = stored(self.steps.table).filter(is_new).collect();
        if !self.steps.lacks_expression(added.iter().copied()) {
            for &position in &added {
                self.add_column(connection, position)?;
            }
        }
        self.change_columns(connection, layout, &columns, &added)?;
        for position in fields {
            if let Some(column) = columns[position] {
                let null = (&*column.name, column.not_null);
                let there = self.steps.there.clone();
                self.steps.change_null(
                    position,
                    null,
                    |condition| count(connection, &there, condition),
                    TableSteps::standard_null,
                )?;
            }
        }
        for column in &layout.columns {
            if layout.named(self.steps.table, column).is_none() {
                self.drop_column(connection, layout, column)?;
            }
        }
        self.change_indexes(connection, layout, &columns)
    }

    /// Returns the reason why the key in the database cannot be the model's, or `None` if it can.
    fn other_key(&self, layout: &Layout) -> Option<String> {
        let table = self.steps.table;
        let field = &table.fields()[table.key()];
        let keys = layout.key_columns();
        if table.has_composite_key() {
            let wanted = table.key_fields();
            let is_it =
                |(key, field): (&&LayoutColumn, &usize)| layout.named(table, key) == Some(*field);
            if keys.len() == wanted.len() && keys.iter().zip(wanted).all(is_it) {
                return None;
            }
        } else if let [key] = keys.as_slice() {
            let rowid = key.declared.eq_ignore_ascii_case("INTEGER") && !layout.without_rowid;
            let is_it = layout.named(table, key) == Some(table.key());
            let is_fit = key.affinity() == sql_type(&field.kind);
            if is_it && is_fit && (table.key_kind() != KeyKind::Auto || rowid) {
                return None;
            }
        }
        let keys: Vec<(&str, &str)> = keys.iter().map(|key| (&*key.name, &*key.declared)).collect();
        Some(self.steps.other_key(&keys, sql_type(&field.kind)))
    }

    /// Makes a step for each column with another type, collation or reference, and for each reference
    /// to a composite key that differs. The first one recreates the table for all of them. The
    /// columns `added` exist at that time.
    fn change_columns(
        &mut self,
        connection: &mut Connection,
        layout: &Layout,
        columns: &[Option<&LayoutColumn>],
        added: &[usize],
    ) -> Result<(), Failure> {
        let first = self.steps.steps.len();
        let is_renamed = self.renames;
        let mut changes = Vec::new();
        for (position, column) in columns.iter().enumerate() {
            let Some(column) = column else { continue };
            if let Some(conversion) = self.change_column(connection, layout, position, column)? {
                changes.push((position, conversion));
            }
        }
        let of_keys = self.change_made_references(layout);
        let changed = changes.len() + of_keys;
        if changed == 0 || changed < self.steps.steps.len() - first {
            return Ok(());
        }
        let again = rebuild::attached(connection, &self.steps.there)?;
        if is_renamed && !again.is_empty() {
            let why = "the table is renamed and changed, but has triggers or indexes that the \
                       model does not have: rename the table first, and change it later";
            self.steps.steps[first].effect = StepEffect::Refused(why.to_owned());
            return Ok(());
        }
        let mut statements = {
            let table = (self.steps.table, &*self.steps.there);
            rebuild::statements(connection, table, layout, &changes, added)?
        };
        statements.extend(again);
        self.steps.steps[first].statements = statements;
        self.rebuilds = true;
        Ok(())
    }

    /// Makes the steps of references to composite keys that differ. Returns the number of those that
    /// are possible.
    fn change_made_references(&mut self, layout: &Layout) -> usize {
        let table = self.steps.table;
        let mut changes = Vec::new();
        for position in definition::made_references(table) {
            let field = &table.fields()[position];
            let Kind::Reference { table: to, .. } = &field.kind else { continue };
            let name = field.name.to_string();
            let wanted = table.action_of_database(position);
            let is_kept = !layout.strict && wanted == OnDelete::Restrict;
            match layout
                .made_reference(table, position)
                .filter(|one| one.to.eq_ignore_ascii_case(to))
            {
                None => {
                    let from = format!("does not refer to `{to}`");
                    changes.push((name, from, format!("a reference to `{to}`")));
                }
                Some(there) if there.action != wanted && !is_kept => {
                    let from = format!("{} when `{to}` is deleted", there.action.name());
                    changes.push((name, from, wanted.name().to_owned()));
                }
                Some(_) => {}
            }
        }
        if layout.strict {
            for other in layout.other_references(table) {
                let from = format!("a reference to `{}`", other.to);
                let to = format!("does not refer to `{}`", other.to);
                changes.push((other.columns.join(", "), from, to));
            }
        }
        let why = rebuild::blocking_reason(table, layout);
        let possible = if why.is_none() { changes.len() } else { 0 };
        for (column, from, to) in changes {
            let what = format!("the column {from} in the database, and {to} in the model");
            let change = TableChange::ChangeColumn { column, from, to };
            match why {
                Some(why) => {
                    self.steps.refuse(change, format!("{what}, and {why}; change it back"));
                }
                None => self.steps.step(change, StepEffect::Safe, Vec::new()),
            }
        }
        possible
    }

    /// Makes the step of one column. Returns the conversion if it is possible.
    fn change_column(
        &mut self,
        connection: &mut Connection,
        layout: &Layout,
        position: usize,
        column: &LayoutColumn,
    ) -> Result<Option<Conversion>, Failure> {
        if self.steps.differs_in_generation(position, column.generated) {
            return Ok(None);
        }
        let field = &self.steps.table.fields()[position];
        let Some((from, to)) = self.difference(connection, layout, position, column)? else {
            return Ok(None);
        };
        let way_out = "give the field another name (it is added as a new column, and you can copy \
                       the values)";
        let what = format!("the column {from} in the database, and {to} in the model");
        let change = TableChange::ChangeColumn { column: field.name.to_string(), from, to };
        let conversion = rebuild::conversion(column, &field.kind).filter(|_| !column.is_key());
        let (conversion, why) =
            match (conversion, rebuild::blocking_reason(self.steps.table, layout)) {
                (None, _) => (None, String::new()),
                (_, Some(why)) => (None, format!(", and {why}")),
                (conversion, None) => (conversion, String::new()),
            };
        let Some(conversion) = conversion else {
            self.steps.refuse(change, format!("{what}{why}; {way_out}, or change it back"));
            return Ok(None);
        };
        let lost = match &conversion.misfit {
            Some(misfit) => count(connection, &self.steps.there, misfit)?,
            None => 0,
        };
        if lost > 0 && !field.nullable && self.steps.table.default(position).is_none() {
            let why = format!(
                "{what}, {lost} values cannot be converted, and the field is required; correct \
                 them, make the field optional, or {way_out}"
            );
            self.steps.refuse(change, why);
            return Ok(None);
        }
        let effect = if column.affinity() == sql_type(&field.kind) {
            StepEffect::Safe
        } else {
            let there = count(
                connection,
                &self.steps.there,
                &format!("{} IS NOT NULL", quoted(&column.name)),
            )?;
            StepEffect::Destructive {
                what: format!(
                    "{what}; of {there} values, {} would be converted and {lost} would be lost",
                    there - lost
                ),
                way_out: format!(
                    "{way_out}, or allow the loss (`migrate --drop {}.{}`)",
                    self.steps.table.name(),
                    field.name
                ),
                needed: true,
            }
        };
        self.steps.step(change, effect, Vec::new());
        Ok(Some(conversion))
    }

    /// Returns the column's definition in the database and in the model, if they differ.
    fn difference(
        &self,
        connection: &mut Connection,
        layout: &Layout,
        position: usize,
        column: &LayoutColumn,
    ) -> Result<Option<(String, String)>, Failure> {
        let field = &self.steps.table.fields()[position];
        let wanted = sql_type(&field.kind);
        if column.affinity() != wanted && !column.takes_like_numeric(field) {
            let declared = match &*column.declared {
                "" => "has no type".to_owned(),
                declared => format!("is {declared}"),
            };
            return Ok(Some((declared, wanted.to_owned())));
        }
        let collation = connection.collation(&self.steps.there, &column.name)?;
        let wanted = match field.kind.collation() {
            Collation::Binary => "BINARY",
            Collation::NoCase => "NOCASE",
        };
        if !collation.eq_ignore_ascii_case(wanted) && column.affinity() == "TEXT" {
            return Ok(Some((format!("compares texts as {collation}"), format!("as {wanted}"))));
        }
        if let Kind::Reference { table: to, .. } = &field.kind {
            let wanted = self.steps.table.action_of_database(position);
            match layout.reference(&column.name) {
                Some((there, action)) if there.eq_ignore_ascii_case(to) => {
                    // A table of another program keeps the actions that it has.
                    if action != wanted && (layout.strict || wanted != OnDelete::Restrict) {
                        return Ok(Some((
                            format!("{} when `{to}` is deleted", action.name()),
                            wanted.name().to_owned(),
                        )));
                    }
                }
                _ => {
                    return Ok(Some((
                        format!("does not refer to `{to}`"),
                        format!("a reference to `{to}`"),
                    )));
                }
            }
        }
        Ok(None)
    }

    fn add_column(&mut self, connection: &mut Connection, position: usize) -> Result<(), Failure> {
        let table = self.steps.table;
        let default = table.default(position).map(sql_literal);
        let has_rows = has_rows(connection, &self.steps.there)?;
        let now = || Timestamp::now().micros().to_string();
        let definition =
            |default| format!("ADD COLUMN {}", definition::column(table, position, default, false));
        self.steps.add_column(position, has_rows, default, now, definition);
        Ok(())
    }

    /// Handles a column that is not in the model.
    fn drop_column(
        &mut self,
        connection: &mut Connection,
        layout: &Layout,
        column: &LayoutColumn,
    ) -> Result<(), Failure> {
        let (name, needed) = (&column.name, column.is_required());
        let values = match needed || self.counts {
            true => count(connection, &self.steps.there, &format!("{} IS NOT NULL", quoted(name)))?,
            false => 0,
        };
        // SQLite does not drop a column that an index contains.
        let first: Vec<String> = layout
            .indexes
            .iter()
            .filter(|index| index.has(name) && self.steps.is_ours(&index.name))
            .map(|index| format!("DROP INDEX IF EXISTS {}", quoted(&index.name)))
            .collect();
        self.steps.drop_column(name, needed, values, first);
        Ok(())
    }

    fn change_indexes(
        &mut self,
        connection: &mut Connection,
        layout: &Layout,
        columns: &[Option<&LayoutColumn>],
    ) -> Result<(), Failure> {
        let table = self.steps.table;
        let wanted = added_indexes(table);
        for index in &layout.indexes {
            let goes = !self.rebuilds
                && wanted.iter().all(|wanted| index_name(table, wanted) != index.name);
            if goes && self.steps.is_ours(&index.name) {
                self.steps.drop_index(&index.name);
            }
        }
        for index in wanted {
            let name = index_name(table, &index);
            let serves = layout.indexes.iter().any(|there| {
                let ours = self.steps.is_ours(&there.name);
                let names: Vec<&str> =
                    index.fields.iter().map(|&field| &*table.fields()[field].name).collect();
                (there.name == name && !self.rebuilds)
                    || (!ours
                        && there.unique == index.unique
                        && there.is_over(&names)
                        && has_same_filter(table, &index, there.condition.as_deref()))
            });
            // A table of another program gets no index that its model does not name: it only makes
            // deletes of rows that are referred to faster.
            let is_optional = !layout.strict && is_implicit(table, &index);
            if serves || is_optional {
                continue;
            }
            let double = self.double(connection, &index, columns)?;
            self.steps.add_index(&index, create_index(table, &index), double);
        }
        Ok(())
    }

    /// Returns a value that several rows have in columns that should be unique.
    fn double(
        &self,
        connection: &mut Connection,
        index: &Index,
        columns: &[Option<&LayoutColumn>],
    ) -> Result<Option<String>, Failure> {
        if !index.unique {
            return Ok(None);
        }
        // Rows of a column that is still to be added are equal only by its default, which creating
        // the index detects.
        let names: Option<Vec<String>> =
            index.fields.iter().map(|&field| Some(quoted(&columns[field]?.name))).collect();
        let Some(names) = names else { return Ok(None) };
        let mut there: Vec<String> =
            names.iter().map(|name| format!("{name} IS NOT NULL")).collect();
        let filter = definition::index_filter(self.steps.table, index, &|at| {
            // A new column is NULL.
            columns[at].map_or_else(|| "NULL".to_owned(), |column| quoted(&column.name))
        });
        there.extend(filter.map(|filter| format!("({filter})")));
        let names = names.join(",");
        let sql = format!(
            "SELECT {names} FROM {} WHERE {} GROUP BY {names} HAVING count(*)>1 LIMIT 1",
            quoted(&self.steps.there),
            there.join(" AND ")
        );
        let mut found = None;
        connection.query(&sql, |row| {
            let values: Vec<String> = index
                .fields
                .iter()
                .enumerate()
                .map(|(at, &field)| {
                    let mut value = ValueRef::Absent;
                    let form = self.steps.table.fields()[field].kind.form();
                    match read(form, row.cell(at), &mut value) {
                        true => marmota_model::text::excerpt_of(value),
                        false => "a value of another type".to_owned(),
                    }
                })
                .collect();
            found = Some(values.join(", "));
        })?;
        Ok(found)
    }
}

/// Returns the number of rows of a table that satisfy a condition.
fn count(connection: &mut Connection, there: &str, condition: &str) -> Result<i64, Failure> {
    let mut rows = 0;
    let sql = format!("SELECT count(*) FROM {} WHERE {condition}", quoted(there));
    connection.query(&sql, |row| rows = row.at(0).int())?;
    Ok(rows)
}

fn has_rows(connection: &mut Connection, there: &str) -> Result<bool, Failure> {
    let mut has = false;
    let sql = format!("SELECT 1 FROM {} LIMIT 1", quoted(there));
    connection.query(&sql, |_| has = true)?;
    Ok(has)
}
