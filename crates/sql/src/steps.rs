//! The steps that change a table to fit a model, as far as they are the same in all databases: the
//! changes, the refusals, and the messages for the user.

use marmota_model::text::counted;
use marmota_model::{Field, Index, Kind, OnDelete, Role, Table};
use marmota_store::plan::{PlanStep, StepEffect, TableChange};

use crate::index_name::{index_columns, is_ours};
use crate::name::quoted;

/// The collected steps of one table.
pub struct TableSteps<'c> {
    /// The table that a model needs.
    pub table: &'c Table,
    /// The table's name in the database.
    pub there: String,
    /// All steps so far, including those of other tables.
    pub steps: &'c mut Vec<PlanStep>,
}

impl TableSteps<'_> {
    /// Adds a step.
    pub fn step(&mut self, change: TableChange, effect: StepEffect, statements: Vec<String>) {
        let table = self.table.name().to_owned();
        self.steps.push(PlanStep { table, change, effect, statements });
    }

    /// Adds a step that cannot be executed, with the reason and an alternative.
    pub fn refuse(&mut self, change: TableChange, why: impl Into<String>) {
        self.step(change, StepEffect::Refused(why.into()), Vec::new());
    }

    /// Returns `ALTER TABLE … ` with the given rest.
    #[must_use]
    pub fn alter(&self, what: &str) -> Vec<String> {
        vec![format!("ALTER TABLE {} {what}", quoted(self.table.name()))]
    }

    /// Returns true if this is the name of an index that was created for the table, under either of
    /// its names.
    #[must_use]
    pub fn is_ours(&self, index: &str) -> bool {
        is_ours(index, &self.there) || is_ours(index, self.table.name())
    }

    /// Returns the reason to refuse a key other than the model's: `keys` are those of the database,
    /// by name and type.
    #[must_use]
    pub fn other_key(&self, keys: &[(&str, &str)], wanted: &str) -> String {
        let field = &self.table.fields()[self.table.key()];
        let has: Vec<String> =
            keys.iter().map(|(name, declared)| format!("{name} {declared}")).collect();
        let has = match has.is_empty() {
            true => "no key".to_owned(),
            false => format!("the key {}", has.join(", ")),
        };
        let fields = self.table.key_fields().iter().map(|&at| &*self.table.fields()[at].name);
        let wanted = match self.table.has_composite_key() {
            true => fields.collect::<Vec<_>>().join(", "),
            false => format!("{} {wanted}", field.name),
        };
        format!(
            "the table has {has} in the database, and {wanted} in the model: the key of a table \
             cannot be changed; give the model another table name and copy the rows, or change the \
             model back"
        )
    }

    /// Adds a refusal if a column of these fields has to be created, but only the database has its
    /// SQL expression. Returns true if it did.
    pub fn lacks_expression(&mut self, new: impl IntoIterator<Item = usize>) -> bool {
        let table = self.table;
        let is_unknown = |field: &&Field| field.generated.as_deref() == Some("");
        let fields = new.into_iter().map(|position| &table.fields()[position]);
        let unknown: Vec<&Field> = fields.filter(is_unknown).collect();
        for field in &unknown {
            let why = "the database has no such column, and the model has no expression for it: \
                       give one (`generated = \"…\"`), or remove the field";
            self.refuse(TableChange::AddColumn(field.name.to_string()), why);
        }
        !unknown.is_empty()
    }

    /// Adds a refusal if the database computes the column of a field, but the model does not say so,
    /// or the other way round. Returns true if it did.
    pub fn differs_in_generation(&mut self, position: usize, is_generated: bool) -> bool {
        let field = &self.table.fields()[position];
        let (plain, generated) = ("a plain column".to_owned(), "a generated column".to_owned());
        let (from, to, why) = match (is_generated, field.generated.is_some()) {
            (true, false) => (
                generated,
                plain,
                "the database computes the column (GENERATED ALWAYS), so the store cannot write \
                 it: add `generated` to the field, or make the column a plain one",
            ),
            (false, true) => (
                plain,
                generated,
                "the column is a plain one in the database, and generated in the model: drop it, so \
                 that it is created again, or give the field another name",
            ),
            _ => return false,
        };
        let column = field.name.to_string();
        self.refuse(TableChange::ChangeColumn { column, from, to }, why);
        true
    }

    /// Renames the table to the model's name.
    pub fn rename_table(&mut self) {
        let (from, to) = (self.there.clone(), quoted(self.table.name()));
        let sql = format!("ALTER TABLE {} RENAME TO {to}", quoted(&from));
        self.step(TableChange::RenameTable { from }, StepEffect::Safe, vec![sql]);
    }

    /// Renames a column to the field's name.
    pub fn rename_column(&mut self, field: &Field, column: &str) {
        let sql = format!("RENAME COLUMN {} TO {}", quoted(column), quoted(&field.name));
        let change =
            TableChange::RenameColumn { from: column.to_owned(), to: field.name.to_string() };
        self.step(change, StepEffect::Safe, self.alter(&sql));
    }

    /// Adds the reference of a field to another table.
    pub fn add_reference(&mut self, field: &Field, statements: Vec<String>) {
        let Kind::Reference { table: to, .. } = &field.kind else { return };
        let (from, to) = (format!("does not refer to `{to}`"), format!("a reference to `{to}`"));
        let change = TableChange::ChangeColumn { column: field.name.to_string(), from, to };
        self.step(change, StepEffect::Safe, statements);
    }

    /// Replaces a reference by one with the field's action. `there` has the other action, and the
    /// table that it refers to.
    pub fn change_action(
        &mut self,
        position: usize,
        there: (OnDelete, &str),
        statements: Vec<String>,
    ) {
        let from = format!("{} when `{}` is deleted", there.0.name(), there.1);
        let column = self.table.fields()[position].name.to_string();
        let to = self.table.action_of_database(position).name().to_owned();
        let change = TableChange::ChangeColumn { column, from, to };
        self.step(change, StepEffect::Safe, statements);
    }

    /// Adds a column. `default` is the model's default as SQL, `now` returns the current time, and
    /// `definition` makes the clause of `ALTER TABLE` from the default that the column gets.
    pub fn add_column(
        &mut self,
        position: usize,
        has_rows: bool,
        mut default: Option<String>,
        now: impl FnOnce() -> String,
        definition: impl FnOnce(Option<String>) -> String,
    ) {
        let field = &self.table.fields()[position];
        let change = TableChange::AddColumn(field.name.to_string());
        // The database computes the values of all rows.
        if !field.nullable && has_rows && field.generated.is_none() {
            if matches!(field.kind, Kind::Reference { .. }) {
                let why = "the field is new and must refer to a row, but the table has rows: make \
                           it optional, write its values, and then make it required";
                return self.refuse(change, why);
            }
            default = match (field.role, default) {
                // These are the values that the rows would have if the field had existed.
                (Role::Version, None) => Some("1".to_owned()),
                (Role::CreatedAt | Role::UpdatedAt, None) => Some(now()),
                (_, None) => {
                    let why = "the field is new and must have a value, but the table has rows: \
                               give it a default for those, or make it optional";
                    return self.refuse(change, why);
                }
                (_, default) => default,
            };
        }
        self.step(change, StepEffect::Safe, self.alter(&definition(default)));
    }

    /// Returns the statement that makes a column NOT NULL, or nullable, in standard SQL.
    #[must_use]
    pub fn standard_null(&self, field: &Field, not_null: bool) -> Vec<String> {
        let action = if not_null { "SET" } else { "DROP" };
        self.alter(&format!("ALTER COLUMN {} {action} NOT NULL", quoted(&field.name)))
    }

    /// Makes a column nullable or NOT NULL, if it differs from the model; `count` returns the
    /// number of rows that match a condition, and `sql` the statements, such as
    /// [`Self::standard_null`].
    ///
    /// # Errors
    /// Those of `count`.
    pub fn change_null<E>(
        &mut self,
        position: usize,
        (column, not_null): (&str, bool),
        count: impl FnOnce(&str) -> Result<i64, E>,
        sql: impl FnOnce(&Self, &Field, bool) -> Vec<String>,
    ) -> Result<(), E> {
        let field = &self.table.fields()[position];
        if position == self.table.key() || not_null != field.nullable {
            return Ok(());
        }
        let (name, shown) = (field.name.to_string(), quoted(&field.name));
        if field.nullable {
            let sql = sql(self, field, false);
            self.step(TableChange::AllowNull(name), StepEffect::Safe, sql);
            return Ok(());
        }
        let nulls = count(&format!("{} IS NULL", quoted(column)))?;
        if nulls > 0 {
            let why = format!(
                "the field must have a value in the model, but has none in {} of the database: set \
                 one (UPDATE {} SET {shown}=… WHERE {shown} IS NULL), or make the \
                 field optional",
                counted(nulls.unsigned_abs(), "row"),
                quoted(self.table.name()),
            );
            self.refuse(TableChange::RequireValue(name), why);
            return Ok(());
        }
        let sql = sql(self, field, true);
        self.step(TableChange::RequireValue(name), StepEffect::Safe, sql);
        Ok(())
    }

    /// Drops a column that the model does not have. The step is optional, unless no row could be
    /// inserted without it (`needed`). `values` is the number of its values; `first` has the
    /// statements to run before.
    pub fn drop_column(&mut self, name: &str, needed: bool, values: i64, mut first: Vec<String>) {
        let table = self.table.name();
        let why = match needed {
            true => {
                "the column is NOT NULL without a default in the database, but the model has no \
                 such field, so rows could not be inserted"
            }
            false => "the model has no such field",
        };
        let what = match values {
            1 => format!("{why}; its value in 1 row would be lost"),
            values => format!("{why}; its values in {values} rows would be lost"),
        };
        let way_out = format!(
            "add the field, or drop the column (ALTER TABLE {table} DROP COLUMN {name}, or \
             `migrate --drop {table}.{name}`)"
        );
        first.extend(self.alter(&format!("DROP COLUMN {}", quoted(name))));
        let effect = StepEffect::Destructive { what, way_out, needed };
        self.step(TableChange::DropColumn(name.to_owned()), effect, first);
    }

    /// Drops an index that the model no longer has: a unique one would continue to refuse rows.
    pub fn drop_index(&mut self, name: &str) {
        // If its column was dropped, the index is already gone.
        let sql = format!("DROP INDEX IF EXISTS {}", quoted(name));
        self.step(TableChange::DropIndex(name.to_owned()), StepEffect::Safe, vec![sql]);
    }

    /// Creates an index with `statement`, unless several rows have the same value in a unique
    /// index; `double` is that value.
    pub fn add_index(&mut self, index: &Index, statement: String, double: Option<String>) {
        let columns = index_columns(self.table, index);
        let effect = match double {
            None => StepEffect::Safe,
            Some(double) => StepEffect::Refused(format!(
                "{} must be unique{}, but several rows have {double}; change or delete all but \
                 one of them",
                columns.join(", "),
                index
                    .filter
                    .as_deref()
                    .map_or_else(String::new, |filter| { format!(" where {filter}") })
            )),
        };
        let filter = index.filter.as_deref().map(str::to_owned);
        let change = TableChange::AddIndex { columns, unique: index.unique, filter };
        self.step(change, effect, vec![statement]);
    }
}
