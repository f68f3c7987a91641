//! The steps from a table as it is to the one that a model needs.
//!
//! Steps are in the order in which they can be carried out: names first, then
//! what columns are, columns that are new, NULLs, columns that go, indexes.

use marmota_model::{Collation, Field, Index, KeyKind, Kind, Role, Table, Timestamp, ValueRef};
use marmota_store::plan::{Change, Effect, Step};

use super::definition::{self, create_index, index_columns, index_name, is_ours};
use super::layout::{Layout, LayoutColumn};
use super::rebuild::{self, Conversion};
use crate::column::{Column, sql_literal, sql_type};
use crate::ffi::{Connection, Failure};
use crate::shape::quoted;

/// Makes the steps for one table. `is_model` tells names that are a model's;
/// `counts` asks how many values are left alone.
pub(super) fn compare(
    connection: &mut Connection,
    table: &Table,
    is_model: &dyn Fn(&str) -> bool,
    counts: bool,
    steps: &mut Vec<Step>,
) -> Result<(), Failure> {
    let mut there = table.name().to_owned();
    let mut layout = Layout::of(connection, &there)?;
    let was = table.schema().was.as_deref();
    if let (None, Some(was)) = (&layout, was.filter(|was| !is_model(was))) {
        layout = Layout::of(connection, was)?;
        was.clone_into(&mut there);
    }
    let mut comparison =
        Comparison { table, there, steps, counts, renames: false, rebuilds: false };
    match layout {
        None => comparison.make_table(),
        Some(layout) => comparison.compare(connection, &layout)?,
    }
    Ok(())
}

/// A table that is compared.
struct Comparison<'c> {
    table: &'c Table,
    /// What it is called in the database.
    there: String,
    steps: &'c mut Vec<Step>,
    /// True if values are counted that are left alone.
    counts: bool,
    /// True if the table or a column gets another name.
    renames: bool,
    /// True if the table is made anew, without its indexes.
    rebuilds: bool,
}

impl Comparison<'_> {
    fn step(&mut self, change: Change, effect: Effect, statements: Vec<String>) {
        let table = self.table.name().to_owned();
        self.steps.push(Step { table, change, effect, statements });
    }

    fn refuse(&mut self, change: Change, why: String) {
        self.step(change, Effect::Refused(why), Vec::new());
    }

    /// `ALTER TABLE … `, with what follows.
    fn alter(&self, what: &str) -> Vec<String> {
        vec![format!("ALTER TABLE {} {what}", quoted(self.table.name()))]
    }

    fn make_table(&mut self) {
        let table = self.table;
        self.step(Change::AddTable, Effect::Keeps, vec![definition::create_table(table)]);
        for index in table.indexes() {
            self.add_index(&index, Effect::Keeps);
        }
    }

    fn add_index(&mut self, index: &Index, effect: Effect) {
        let columns = index_columns(self.table, index);
        let change = Change::AddIndex { columns, unique: index.unique };
        self.step(change, effect, vec![create_index(self.table, index)]);
    }

    fn compare(&mut self, connection: &mut Connection, layout: &Layout) -> Result<(), Failure> {
        if !layout.is_table {
            let why = "the database has a view or virtual table of this name; rename one";
            self.refuse(Change::Misfit, why.to_owned());
            return Ok(());
        }
        if let Some(why) = self.other_key(layout) {
            self.refuse(Change::Misfit, why);
            return Ok(());
        }
        if !self.there.eq_ignore_ascii_case(self.table.name()) {
            let (from, to) = (self.there.clone(), quoted(self.table.name()));
            let sql = format!("ALTER TABLE {} RENAME TO {to}", quoted(&from));
            self.renames = true;
            self.step(Change::RenameTable { from }, Effect::Keeps, vec![sql]);
        }
        let fields = 0..self.table.fields().len();
        let columns: Vec<Option<&LayoutColumn>> =
            fields.clone().map(|position| layout.column_of(self.table, position)).collect();
        for (field, column) in self.table.fields().iter().zip(&columns) {
            self.rename_column(field, *column);
        }
        self.change_columns(connection, layout, &columns)?;
        for position in fields.clone() {
            if columns[position].is_none() {
                self.add_column(connection, position)?;
            }
        }
        for position in fields {
            if let Some(column) = columns[position] {
                self.change_null(connection, position, column)?;
            }
        }
        for column in &layout.columns {
            if layout.named(self.table, column).is_none() {
                self.drop_column(connection, layout, column)?;
            }
        }
        self.change_indexes(connection, layout, &columns)
    }

    /// Why the key in the database cannot be the model's; none if it can.
    fn other_key(&self, layout: &Layout) -> Option<String> {
        let table = self.table;
        let field = &table.fields()[table.key()];
        let keys: Vec<&LayoutColumn> = layout.columns.iter().filter(|c| c.is_key).collect();
        if let [key] = keys.as_slice() {
            let rowid = key.declared.eq_ignore_ascii_case("INTEGER") && !layout.without_rowid;
            let is_it = layout.named(table, key) == Some(table.key());
            let is_fit = key.affinity() == sql_type(&field.kind);
            if is_it && is_fit && (table.key_kind() != KeyKind::Auto || rowid) {
                return None;
            }
        }
        let has: Vec<String> =
            keys.iter().map(|key| format!("{} {}", key.name, key.declared)).collect();
        let has = if has.is_empty() {
            "no key".to_owned()
        } else {
            format!("the key {}", has.join(", "))
        };
        let wants = format!("{} {}", field.name, sql_type(&field.kind));
        Some(format!(
            "it has {has} in the database, and {wants} in the model: keys cannot be changed in \
             place; give the model another table name and copy the rows, or change the model back"
        ))
    }

    fn rename_column(&mut self, field: &Field, column: Option<&LayoutColumn>) {
        let Some(column) = column else { return };
        if column.name.eq_ignore_ascii_case(&field.name) {
            return;
        }
        let sql = format!("RENAME COLUMN {} TO {}", quoted(&column.name), quoted(&field.name));
        self.renames = true;
        let change = Change::RenameColumn { from: column.name.clone(), to: field.name.to_string() };
        self.step(change, Effect::Keeps, self.alter(&sql));
    }

    /// Columns of another type, comparison or reference: a step for each, the
    /// first of which makes the table anew for all of them.
    fn change_columns(
        &mut self,
        connection: &mut Connection,
        layout: &Layout,
        columns: &[Option<&LayoutColumn>],
    ) -> Result<(), Failure> {
        let first = self.steps.len();
        let is_renamed = self.renames;
        let mut changes = Vec::new();
        for (position, column) in columns.iter().enumerate() {
            let Some(column) = column else { continue };
            if let Some(conversion) = self.change_column(connection, layout, position, column)? {
                changes.push((position, conversion));
            }
        }
        if changes.is_empty() || changes.len() < self.steps.len() - first {
            return Ok(());
        }
        let again = rebuild::attached(connection, &self.there)?;
        if is_renamed && !again.is_empty() {
            let why = "it is renamed and changed, and the table has triggers or indexes of its \
                       own: rename it first, and change it when that is done";
            self.steps[first].effect = Effect::Refused(why.to_owned());
            return Ok(());
        }
        let mut statements =
            rebuild::statements(connection, self.table, &self.there, layout, &changes)?;
        statements.extend(again);
        self.steps[first].statements = statements;
        self.rebuilds = true;
        Ok(())
    }

    /// Makes the step of one column; gives the conversion if it can be done.
    fn change_column(
        &mut self,
        connection: &mut Connection,
        layout: &Layout,
        position: usize,
        column: &LayoutColumn,
    ) -> Result<Option<Conversion>, Failure> {
        let field = &self.table.fields()[position];
        let Some((from, to)) = self.difference(connection, layout, field, column)? else {
            return Ok(None);
        };
        let way_out = "give the field another name (it is added, and values can be copied)";
        let what = format!("the column {from} in the database, and {to} in the model");
        let change = Change::ChangeColumn { column: field.name.to_string(), from, to };
        let conversion = rebuild::conversion(column, &field.kind).filter(|_| !column.is_key);
        let (conversion, why) = match (conversion, rebuild::hindrance(layout)) {
            (None, _) => (None, String::new()),
            (_, Some(why)) => (None, format!(", and {why}")),
            (conversion, None) => (conversion, String::new()),
        };
        let Some(conversion) = conversion else {
            self.refuse(change, format!("{what}{why}; {way_out}, or change it back"));
            return Ok(None);
        };
        let lost = match &conversion.misfit {
            Some(misfit) => self.count(connection, misfit)?,
            None => 0,
        };
        if lost > 0 && !field.nullable && self.table.default(position).is_none() {
            let why = format!(
                "{what}, {lost} values cannot be converted, and it must have one; correct them, \
                 make the field optional, or {way_out}"
            );
            self.refuse(change, why);
            return Ok(None);
        }
        let effect = if column.affinity() == sql_type(&field.kind) {
            Effect::Keeps
        } else {
            let there = self.count(connection, &format!("{} IS NOT NULL", quoted(&column.name)))?;
            Effect::Loses {
                what: format!(
                    "{what}; of its {there} values {} would be converted and {lost} lost",
                    there - lost
                ),
                way_out: format!(
                    "{way_out}, or allow it (`migrate --drop {}.{}`)",
                    self.table.name(),
                    field.name
                ),
                needed: true,
            }
        };
        self.step(change, effect, Vec::new());
        Ok(Some(conversion))
    }

    /// What a column is in the database and in the model, if that differs.
    fn difference(
        &self,
        connection: &mut Connection,
        layout: &Layout,
        field: &Field,
        column: &LayoutColumn,
    ) -> Result<Option<(String, String)>, Failure> {
        let wanted = sql_type(&field.kind);
        if column.affinity() != wanted {
            let declared = match &*column.declared {
                "" => "is of no type".to_owned(),
                declared => format!("is {declared}"),
            };
            return Ok(Some((declared, wanted.to_owned())));
        }
        let collation = connection.collation(&self.there, &column.name)?;
        let wanted = match field.kind.collation() {
            Collation::Binary => "BINARY",
            Collation::NoCase => "NOCASE",
        };
        if !collation.eq_ignore_ascii_case(wanted) && column.affinity() == "TEXT" {
            return Ok(Some((format!("compares texts as {collation}"), format!("as {wanted}"))));
        }
        if let Kind::Reference { table: to, .. } = &field.kind
            && !layout.reference(&column.name).is_some_and(|there| there.eq_ignore_ascii_case(to))
        {
            return Ok(Some((
                format!("does not refer to `{to}`"),
                format!("a reference to `{to}`"),
            )));
        }
        Ok(None)
    }

    fn add_column(&mut self, connection: &mut Connection, position: usize) -> Result<(), Failure> {
        let field = &self.table.fields()[position];
        let change = Change::AddColumn(field.name.to_string());
        let mut default = self.table.default(position).map(sql_literal);
        if !field.nullable && !self.is_empty(connection)? {
            if matches!(field.kind, Kind::Reference { .. }) {
                let why = "it is new and must refer to a row, but the table has rows: make it \
                           optional, give it values, and make it required then";
                self.refuse(change, why.to_owned());
                return Ok(());
            }
            default = match (field.role, default) {
                // What the rows had if the field had been there.
                (Role::Version, None) => Some("1".to_owned()),
                (Role::CreatedAt | Role::UpdatedAt, None) => {
                    Some(Timestamp::now().micros().to_string())
                }
                (_, None) => {
                    let why = "it is new and must have a value, but the table has rows: give it a \
                               default for those, or make it optional";
                    self.refuse(change, why.to_owned());
                    return Ok(());
                }
                (_, default) => default,
            };
        }
        let column = definition::column(self.table, position, default);
        self.step(change, Effect::Keeps, self.alter(&format!("ADD COLUMN {column}")));
        Ok(())
    }

    /// A column that is to take NULL, or no longer.
    fn change_null(
        &mut self,
        connection: &mut Connection,
        position: usize,
        column: &LayoutColumn,
    ) -> Result<(), Failure> {
        let field = &self.table.fields()[position];
        if column.is_key || column.not_null != field.nullable {
            return Ok(());
        }
        let (name, quoted_name) = (field.name.to_string(), quoted(&field.name));
        if field.nullable {
            let sql = self.alter(&format!("ALTER COLUMN {quoted_name} DROP NOT NULL"));
            self.step(Change::AllowNull(name), Effect::Keeps, sql);
            return Ok(());
        }
        let nulls = self.count(connection, &format!("{} IS NULL", quoted(&column.name)))?;
        if nulls > 0 {
            let why = format!(
                "it must have a value in the model, and {nulls} rows in the database have none; \
                 give them one (UPDATE {} SET {name}=… WHERE {name} IS NULL), or make the field \
                 optional",
                self.table.name(),
            );
            self.refuse(Change::RequireValue(name), why);
            return Ok(());
        }
        let sql = self.alter(&format!("ALTER COLUMN {quoted_name} SET NOT NULL"));
        self.step(Change::RequireValue(name), Effect::Keeps, sql);
        Ok(())
    }

    /// A column that the model has not: left alone, unless no row could be
    /// inserted without it.
    fn drop_column(
        &mut self,
        connection: &mut Connection,
        layout: &Layout,
        column: &LayoutColumn,
    ) -> Result<(), Failure> {
        let (name, table) = (column.name.clone(), self.table.name());
        let change = Change::DropColumn(name.clone());
        let needed = column.is_required();
        let values = match needed || self.counts {
            true => self.count(connection, &format!("{} IS NOT NULL", quoted(&name)))?,
            false => 0,
        };
        let what = match needed {
            true => format!(
                "the column is NOT NULL without a default in the database, and the model has no \
                 such field, so that no row could be inserted; its {values} values would be lost"
            ),
            false => format!("the model has no such field; its {values} values would be lost"),
        };
        let way_out = format!(
            "add the field, or drop the column (ALTER TABLE {table} DROP COLUMN {name}, or \
             `migrate --drop {table}.{name}`)"
        );
        // SQLite drops no column that an index is over.
        let mut statements: Vec<String> = layout
            .indexes
            .iter()
            .filter(|index| index.has(&name) && is_ours(&index.name, &self.there))
            .map(|index| format!("DROP INDEX IF EXISTS {}", quoted(&index.name)))
            .collect();
        statements.extend(self.alter(&format!("DROP COLUMN {}", quoted(&name))));
        self.step(change, Effect::Loses { what, way_out, needed }, statements);
        Ok(())
    }

    fn change_indexes(
        &mut self,
        connection: &mut Connection,
        layout: &Layout,
        columns: &[Option<&LayoutColumn>],
    ) -> Result<(), Failure> {
        let table = self.table;
        let wanted = table.indexes();
        // Ours that the model no longer has: a unique one would go on refusing.
        for index in &layout.indexes {
            let goes = !self.rebuilds
                && wanted.iter().all(|wanted| index_name(table, wanted) != index.name);
            if goes && (is_ours(&index.name, &self.there) || is_ours(&index.name, table.name())) {
                let sql = format!("DROP INDEX IF EXISTS {}", quoted(&index.name));
                self.step(Change::DropIndex(index.name.clone()), Effect::Keeps, vec![sql]);
            }
        }
        for index in wanted {
            let name = index_name(table, &index);
            let serves = layout.indexes.iter().any(|there| {
                let ours = is_ours(&there.name, &self.there) || is_ours(&there.name, table.name());
                let names: Vec<&str> =
                    index.fields.iter().map(|&field| &*table.fields()[field].name).collect();
                (there.name == name && !self.rebuilds)
                    || (!ours && there.unique == index.unique && there.is_over(&names))
            });
            if serves {
                continue;
            }
            let effect = match self.duplicate(connection, &index, columns)? {
                None => Effect::Keeps,
                Some((names, value)) => Effect::Refused(format!(
                    "{names} is to be unique, and more than one row has {value}; change or delete \
                     all of them but one"
                )),
            };
            self.add_index(&index, effect);
        }
        Ok(())
    }

    /// A value that several rows have in columns that are to be unique.
    fn duplicate(
        &self,
        connection: &mut Connection,
        index: &Index,
        columns: &[Option<&LayoutColumn>],
    ) -> Result<Option<(String, String)>, Failure> {
        if !index.unique {
            return Ok(None);
        }
        // Rows of a column that is yet to come are alike only by its default,
        // which the making of the index finds out.
        let names: Option<Vec<String>> =
            index.fields.iter().map(|&field| Some(quoted(&columns[field]?.name))).collect();
        let Some(names) = names else { return Ok(None) };
        let there: Vec<String> = names.iter().map(|name| format!("{name} IS NOT NULL")).collect();
        let names = names.join(",");
        let sql = format!(
            "SELECT {names} FROM {} WHERE {} GROUP BY {names} HAVING count(*)>1 LIMIT 1",
            quoted(&self.there),
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
                    match Column::new(self.table, field).read(row, at, &mut value) {
                        true => marmota_model::text::excerpt_of(value),
                        false => "a value of another type".to_owned(),
                    }
                })
                .collect();
            found = Some((names.clone(), values.join(", ")));
        })?;
        Ok(found)
    }

    /// How many rows satisfy a condition.
    fn count(&self, connection: &mut Connection, condition: &str) -> Result<i64, Failure> {
        let mut rows = 0;
        let sql = format!("SELECT count(*) FROM {} WHERE {condition}", quoted(&self.there));
        connection.query(&sql, |row| rows = row.at(0).int())?;
        Ok(rows)
    }

    fn is_empty(&self, connection: &mut Connection) -> Result<bool, Failure> {
        let mut empty = true;
        let sql = format!("SELECT 1 FROM {} LIMIT 1", quoted(&self.there));
        connection.query(&sql, |_| empty = false)?;
        Ok(empty)
    }
}
