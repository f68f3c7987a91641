//! The steps from an existing table to the one that a model needs.
//!
//! Steps are in the order in which they can be executed: renames, changes of columns, new columns,
//! NULLs, dropped columns, references, indexes.

use std::sync::Arc;

use marmota_model::{Field, Index, Kind, OnDelete, Result, Table, Timestamp, ValueForm, ValueRef};
use marmota_sql::{TableSteps, quoted};
use marmota_store::plan::{PlanStep, StepEffect, TableChange};

use super::Preparing;
use super::definition::{self, create_index, has_fold_column, index_name, reference_name};
use super::layout::{
    Layout, LayoutColumn, LayoutIndex, LayoutReference, chars, integer_bytes, is_a,
};
use crate::dialect::{ColumnChange, Dialect};
use crate::statement::column::{compared, folded_name, is_folded, literal, name, sql_type};

/// Makes the steps for one of the tables.
pub(super) fn compare(
    run: &mut Preparing<'_>,
    tables: &[Arc<Table>],
    at: usize,
    steps: &mut Vec<PlanStep>,
) -> Result<()> {
    let table = &*tables[at];
    let mut there = table.name().to_owned();
    let mut layout = Layout::of(run, &there)?;
    let is_model = |name: &str| tables.iter().any(|other| other.name() == name);
    let was = table.schema().was.as_deref();
    if let (None, Some(was)) = (&layout, was.filter(|was| !is_model(was))) {
        layout = Layout::of(run, was)?;
        was.clone_into(&mut there);
    }
    let dialect = run.dialect();
    if dialect.definitions.folds_names {
        layout = layout.map(|layout| layout.spelled_as(table));
    }
    let mut comparison =
        Comparison { steps: TableSteps { table, there, steps: &mut *steps }, tables, dialect };
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
                let steps = TableSteps { table: other, there, steps: &mut *steps };
                Comparison { steps, tables, dialect }.add_late_reference(run, position)?;
            }
        }
    }
    Ok(())
}

/// A table being compared.
struct Comparison<'c> {
    steps: TableSteps<'c>,
    tables: &'c [Arc<Table>],
    dialect: &'static Dialect,
}

impl Comparison<'_> {
    /// Creates a table, with its references to tables before it.
    fn make_table(&mut self, before: &[Arc<Table>]) {
        let table = self.steps.table;
        if self.steps.lacks_expression(0..table.fields().len()) {
            return;
        }
        let mut statements = definition::create_table(self.dialect, table);
        for (position, field) in table.fields().iter().enumerate() {
            if let Kind::Reference { table: to, .. } = &field.kind
                && before.iter().any(|other| other.name() == to)
            {
                statements.extend(self.reference_sql(position));
            }
        }
        self.steps.step(TableChange::AddTable, StepEffect::Safe, statements);
        for index in table.indexes() {
            self.steps.add_index(&index, create_index(self.dialect, table, &index), None);
        }
    }

    /// Returns the statement that adds a reference.
    fn reference_sql(&self, position: usize) -> Option<String> {
        let definition = self.reference(position)?;
        Some(format!("ALTER TABLE {} ADD {definition}", quoted(self.steps.table.name())))
    }

    fn reference(&self, position: usize) -> Option<String> {
        let table = self.steps.table;
        let Kind::Reference { table: to, .. } = &table.fields()[position].kind else { return None };
        let target = self.tables.iter().find(|other| other.name() == to);
        let key = target.map_or_else(|| quoted("id"), |target| name(target, target.key()));
        definition::reference(table, position, &key)
    }

    /// Adds a reference to a table that is created after this one.
    fn add_late_reference(&mut self, run: &mut Preparing<'_>, position: usize) -> Result<()> {
        let field = &self.steps.table.fields()[position];
        let Kind::Reference { table: to, .. } = &field.kind else { return Ok(()) };
        let layout = Layout::of(run, &self.steps.there)?;
        if layout.is_none_or(|layout| layout.reference(&field.name, to).is_none()) {
            self.add_reference(position);
        }
        Ok(())
    }

    fn add_reference(&mut self, position: usize) {
        let field = &self.steps.table.fields()[position];
        let sql = self.reference_sql(position);
        self.steps.add_reference(field, sql.into_iter().collect());
    }

    /// Replaces a reference by one with the field's action.
    fn change_action(&mut self, position: usize, there: &LayoutReference) {
        let mut sql = self.steps.alter(&self.drop_reference(&there.name));
        sql.extend(self.reference_sql(position));
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
            self.steps.table.fields().iter().map(|field| layout.column_of(field)).collect();
        for (field, column) in self.steps.table.fields().iter().zip(&columns) {
            if let Some(column) = column.filter(|column| column.name != field.name) {
                self.rename_column(layout, field, &column.name);
            }
        }
        for position in fields.clone() {
            match columns[position] {
                Some(column) => self.change_column(layout, position, column),
                None if self.steps.lacks_expression([position]) => {}
                None => self.add_column(run, position)?,
            }
        }
        for position in fields.clone() {
            if let Some(column) = columns[position] {
                self.change_null(run, position, column)?;
            }
        }
        for column in layout.columns.iter().filter(|column| !column.name.starts_with("fold:")) {
            let known = columns.iter().flatten().any(|known| known.name == column.name);
            if !known {
                self.drop_column(run, layout, column)?;
            }
        }
        for position in fields {
            let field = &self.steps.table.fields()[position];
            let Kind::Reference { table: to, .. } = &field.kind else { continue };
            let there = columns[position].and_then(|column| layout.reference(&column.name, to));
            let wanted = self.steps.table.action_of_database(position);
            match there {
                None => self.add_reference(position),
                Some(there)
                    if there.on_delete != wanted
                        && (there.name == reference_name(self.steps.table, field)
                            || wanted != OnDelete::Restrict) =>
                {
                    self.change_action(position, there);
                }
                Some(_) => {}
            }
        }
        self.change_indexes(run, layout, &columns)
    }

    /// Returns the reason why the key in the database cannot be the model's, or `None` if it can.
    fn other_key(&self, layout: &Layout) -> Option<String> {
        let table = self.steps.table;
        let field = &table.fields()[table.key()];
        let wanted = sql_type(self.dialect, table, table.key());
        let keys: Vec<&LayoutColumn> = layout.columns.iter().filter(|c| c.is_key).collect();
        if let [key] = keys.as_slice() {
            let is_it = layout.column_of(field).is_some_and(|column| column.name == key.name);
            if is_it && is_a(self.dialect, &key.declared, &wanted) {
                return None;
            }
        }
        let keys: Vec<(&str, &str)> = keys.iter().map(|key| (&*key.name, &*key.declared)).collect();
        Some(self.steps.other_key(&keys, &wanted))
    }

    fn rename_column(&mut self, layout: &Layout, field: &Field, column: &str) {
        self.steps.rename_column(field, column);
        let folded = folded_name(column);
        if has_fold_column(self.dialect, field) && layout.named(&folded).is_some() {
            let to = quoted(&folded_name(&field.name));
            let sql = self.steps.alter(&format!("RENAME COLUMN {} TO {to}", quoted(&folded)));
            if let Some(step) = self.steps.steps.last_mut() {
                step.statements.extend(sql);
            }
        }
    }

    /// Returns the statements that give a column the model's definition, or its type if the others
    /// are changed separately.
    fn modify(&self, position: usize, with_fold: bool) -> Vec<String> {
        let (table, dialect) = (self.steps.table, self.dialect);
        let words = match dialect.definitions.modify {
            ColumnChange::Whole(words) => words,
            ColumnChange::Parts => {
                let (name, wanted) = (name(table, position), sql_type(dialect, table, position));
                let form = table.fields()[position].kind.form();
                let collation = match form {
                    ValueForm::Text | ValueForm::Json => dialect.texts.collation,
                    _ => "",
                };
                let sql = format!("ALTER COLUMN {name} TYPE {wanted}{collation}");
                return self.steps.alter(&sql);
            }
        };
        let default = table.default(position).map(|value| literal(dialect, value));
        let definition = definition::column(dialect, table, position, default);
        let mut sql = self.steps.alter(&format!("{words}{definition}"));
        if with_fold {
            let fold = definition::folded_column(dialect, table, position);
            sql.extend(self.steps.alter(&format!("{words}{fold}")));
        }
        sql
    }

    fn drop_reference(&self, name: &str) -> String {
        self.dialect.definitions.drop_reference.replace("{}", &quoted(name))
    }

    /// Returns the expression by which equal values of a unique field are found.
    fn grouped(&self, field: &Field) -> String {
        let name = quoted(&field.name);
        match is_folded(field) {
            // The column with texts in lower case may not exist yet.
            true => crate::statement::column::folded_sql(self.dialect, &name),
            false if self.dialect.texts.folded_is_binary => format!("cast({name} as binary)"),
            false => compared(self.dialect, field),
        }
    }

    /// Handles a column of another type, or one that a model cannot write to.
    fn change_column(&mut self, layout: &Layout, position: usize, column: &LayoutColumn) {
        let table = self.steps.table;
        let field = &table.fields()[position];
        let wanted = sql_type(self.dialect, table, position);
        let change = |to: &str| TableChange::ChangeColumn {
            column: field.name.to_string(),
            from: column.declared.clone(),
            to: to.to_owned(),
        };
        if self.dialect.definitions.generated.is_some() {
            if self.steps.differs_in_generation(position, column.is_generated) {
                return;
            }
        } else if column.is_generated {
            let why = "the database computes the column, so a model cannot write it: leave the field out \
                       and read the column with `sql`";
            self.steps.refuse(change(&wanted), why);
            return;
        }
        if !is_a(self.dialect, &column.declared, &wanted) {
            let why = format!(
                "the column is {} in the database, and a {} field is {wanted}; give the field \
                 another name (it is added as a new column, and you can copy the values), or change \
                 its type back",
                column.declared,
                field.kind.name(),
            );
            self.steps.refuse(change(&wanted), why);
            return;
        }
        if field.generated.as_deref() == Some("") {
            // Only the database has its definition.
            return;
        }
        let fold = layout.named(&folded_name(&column.name));
        let (dialect, declared) = (self.dialect, &column.declared);
        let is_text = chars(dialect, &wanted).is_some();
        let is_narrow = integer_bytes(dialect, declared) < integer_bytes(dialect, &wanted)
            || chars(dialect, declared) < chars(dialect, &wanted);
        let has_other_order = is_text && !dialect.texts.collations.contains(&&*column.collation);
        if position != table.key() && (is_narrow || has_other_order) {
            let to = match has_other_order {
                true => format!("{wanted}{}", dialect.texts.collation),
                false => wanted,
            };
            let sql = self.modify(position, fold.is_some() && has_fold_column(dialect, field));
            self.steps.step(change(&to), StepEffect::Safe, sql);
        }
        if has_fold_column(dialect, field) && fold.is_none() {
            let sql = definition::folded_column(dialect, table, position);
            let sql = self.steps.alter(&format!("{}{sql}", dialect.definitions.add_column));
            let to = format!("{}, without regard to the case of A to Z", column.declared);
            self.steps.step(change(&to), StepEffect::Safe, sql);
        }
    }

    fn change_null(
        &mut self,
        run: &mut Preparing<'_>,
        position: usize,
        column: &LayoutColumn,
    ) -> Result<()> {
        if column.is_generated {
            // It cannot be NOT NULL.
            return Ok(());
        }
        let there = self.steps.there.clone();
        let is_whole = matches!(self.dialect.definitions.modify, ColumnChange::Whole(_));
        let whole = is_whole.then(|| self.modify(position, false));
        self.steps.change_null(
            position,
            (&column.name, column.not_null),
            |condition| count(run, &there, condition),
            |steps, field, not_null| whole.unwrap_or_else(|| steps.standard_null(field, not_null)),
        )
    }

    fn add_column(&mut self, run: &mut Preparing<'_>, position: usize) -> Result<()> {
        let (table, dialect) = (self.steps.table, self.dialect);
        let default = table.default(position).map(|value| literal(dialect, value));
        let has_rows = count(run, &self.steps.there, "1=1")? > 0;
        let now = || literal(dialect, ValueRef::Timestamp(Timestamp::now()));
        let add = dialect.definitions.add_column;
        let definition =
            |default| format!("{add}{}", definition::column(dialect, table, position, default));
        self.steps.add_column(position, has_rows, default, now, definition);
        if has_fold_column(dialect, &table.fields()[position]) {
            let fold = definition::folded_column(dialect, table, position);
            let sql = self.steps.alter(&format!("{}{fold}", dialect.definitions.add_column));
            if let Some(step) =
                self.steps.steps.last_mut().filter(|step| !step.statements.is_empty())
            {
                step.statements.extend(sql);
            }
        }
        Ok(())
    }

    /// Handles a column that is not in the model.
    fn drop_column(
        &mut self,
        run: &mut Preparing<'_>,
        layout: &Layout,
        column: &LayoutColumn,
    ) -> Result<()> {
        let there = format!("{} IS NOT NULL", quoted(&column.name));
        let values = count(run, &self.steps.there, &there)?;
        let fold = folded_name(&column.name);
        let mut first = Vec::new();
        for reference in layout.references.iter().filter(|one| one.column == column.name) {
            first.extend(self.steps.alter(&self.drop_reference(&reference.name)));
        }
        let has_it = |index: &&LayoutIndex| {
            index.columns.iter().any(|name| *name == column.name || *name == fold)
        };
        for index in layout.indexes.iter().filter(has_it) {
            first.extend(match self.dialect.definitions.table_drops_index {
                true => self.steps.alter(&format!("DROP INDEX IF EXISTS {}", quoted(&index.name))),
                false => vec![format!("DROP INDEX IF EXISTS {}", quoted(&index.name))],
            });
        }
        if layout.named(&fold).is_some() {
            first.extend(self.steps.alter(&format!("DROP COLUMN {}", quoted(&fold))));
        }
        self.steps.drop_column(&column.name, column.is_required, values, first);
        Ok(())
    }

    fn change_indexes(
        &mut self,
        run: &mut Preparing<'_>,
        layout: &Layout,
        columns: &[Option<&LayoutColumn>],
    ) -> Result<()> {
        let table = self.steps.table;
        let wanted = table.indexes();
        let ours = |name: &str| self.steps.is_ours(name);
        let going: Vec<(String, Option<String>)> = layout
            .indexes
            .iter()
            .filter(|index| {
                ours(&index.name) && wanted.iter().all(|one| index_name(table, one) != index.name)
            })
            .map(|index| (index.name.clone(), index.columns.first().cloned()))
            .collect();
        let missing: Vec<&Index> = wanted
            .iter()
            .filter(|index| {
                let name = index_name(table, index);
                let serves = |there: &LayoutIndex| {
                    let same =
                        there.unique == index.unique && is_over(self.dialect, there, table, index);
                    there.name == name || same && !ours(&there.name)
                };
                // The index of a reference goes when another one is made.
                let of_reference = |there: &LayoutIndex| there.name.starts_with("reference:");
                !layout.indexes.iter().any(|there| serves(there) && !of_reference(there))
            })
            .collect();
        for (name, first) in going {
            self.drop_index(&name, first.as_deref());
        }
        for index in missing {
            let double = self.double(run, index, columns)?;
            self.steps.add_index(index, create_index(self.dialect, table, index), double);
        }
        Ok(())
    }

    /// Drops an index; a reference in its first column gets an index of its own.
    fn drop_index(&mut self, name: &str, first: Option<&str>) {
        let table = self.steps.table;
        if !self.dialect.definitions.table_drops_index {
            return self.steps.drop_index(name);
        }
        let is_reference = |field: &&Field| {
            matches!(field.kind, Kind::Reference { .. }) && Some(&*field.name) == first
        };
        let add = match table.fields().iter().find(is_reference) {
            Some(field) => format!(
                "ADD INDEX {} ({}), ",
                quoted(&reference_name(table, field)),
                quoted(&field.name)
            ),
            None => String::new(),
        };
        let sql = self.steps.alter(&format!("{add}DROP INDEX IF EXISTS {}", quoted(name)));
        self.steps.step(TableChange::DropIndex(name.to_owned()), StepEffect::Safe, sql);
    }

    /// Returns a value that several rows have in columns that should be unique.
    fn double(
        &self,
        run: &mut Preparing<'_>,
        index: &Index,
        columns: &[Option<&LayoutColumn>],
    ) -> Result<Option<String>> {
        // Rows of a column that is still to be added are equal only by its default, which creating
        // the index detects.
        let fields = || index.fields.iter().map(|&at| &self.steps.table.fields()[at]);
        let there = |&at: &usize| {
            columns[at].is_some_and(|column| column.name == self.steps.table.fields()[at].name)
        };
        if !index.unique || !index.fields.iter().all(there) {
            return Ok(None);
        }
        let names: Vec<String> = fields().map(|field| quoted(&field.name)).collect();
        let by: Vec<String> = fields().map(|field| self.grouped(field)).collect();
        let shown: Vec<String> = names.iter().map(|name| format!("min({name})")).collect();
        let set: Vec<String> = names.iter().map(|name| format!("{name} IS NOT NULL")).collect();
        let sql = format!(
            "SELECT {} FROM {} WHERE {} GROUP BY {} HAVING count(*)>1",
            shown.join(","),
            quoted(&self.steps.there),
            set.join(" AND "),
            by.join(",")
        );
        let mut double = None;
        run.query(&sql, names.len(), |row| {
            double = Some(marmota_model::text::excerpt(&row.join(", ")));
        })?;
        Ok(double)
    }
}

/// Returns the number of rows of a table that satisfy a condition.
fn count(run: &mut Preparing<'_>, there: &str, condition: &str) -> Result<i64> {
    let there = quoted(there);
    run.number(&format!("SELECT count(*) FROM (SELECT 1 FROM {there} WHERE {condition}) r"))
}

/// Returns true if an existing index consists of exactly these fields, as they compare.
fn is_over(dialect: &Dialect, there: &LayoutIndex, table: &Table, index: &Index) -> bool {
    there.columns.len() == index.fields.len()
        && there.columns.iter().zip(index.fields.iter()).all(|(column, &at)| {
            let field = &table.fields()[at];
            match is_folded(field) {
                true if dialect.texts.fold_column.is_some() => *column == folded_name(&field.name),
                // An expression is reported in the form that the database has chosen.
                true => *column != *field.name && column.contains(&*field.name),
                false => *column == *field.name,
            }
        })
}
