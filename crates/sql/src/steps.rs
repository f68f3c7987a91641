//! The steps from a table as it is to the one that a model needs, as far as
//! they are the same in any database: what is done, what is refused, and what
//! the user is told.

use marmota_model::{Field, Index, Kind, Role, Table};
use marmota_store::plan::{Change, Effect, Step};

use crate::name::{index_columns, is_ours, quoted};

/// The steps of one table, as they are found.
pub struct TableSteps<'c> {
    /// The table that a model needs.
    pub table: &'c Table,
    /// What it is called in the database.
    pub there: String,
    /// All steps so far, of other tables as well.
    pub steps: &'c mut Vec<Step>,
}

impl TableSteps<'_> {
    /// Adds a step.
    pub fn step(&mut self, change: Change, effect: Effect, statements: Vec<String>) {
        let table = self.table.name().to_owned();
        self.steps.push(Step { table, change, effect, statements });
    }

    /// Adds one that cannot be done, with the reason and the way out.
    pub fn refuse(&mut self, change: Change, why: impl Into<String>) {
        self.step(change, Effect::Refused(why.into()), Vec::new());
    }

    /// `ALTER TABLE … `, with what follows.
    #[must_use]
    pub fn alter(&self, what: &str) -> Vec<String> {
        vec![format!("ALTER TABLE {} {what}", quoted(self.table.name()))]
    }

    /// True for the name of an index that was made for the table, by either of
    /// its names.
    #[must_use]
    pub fn is_ours(&self, index: &str) -> bool {
        is_ours(index, &self.there) || is_ours(index, self.table.name())
    }

    /// Refuses a key other than the model's: `keys` are those of the database,
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
        format!(
            "it has {has} in the database, and {} {wanted} in the model: keys cannot be changed in \
             place; give the model another table name and copy the rows, or change the model back",
            field.name
        )
    }

    /// Gives the table the model's name.
    pub fn rename_table(&mut self) {
        let (from, to) = (self.there.clone(), quoted(self.table.name()));
        let sql = format!("ALTER TABLE {} RENAME TO {to}", quoted(&from));
        self.step(Change::RenameTable { from }, Effect::Safe, vec![sql]);
    }

    /// Gives a column the field's name.
    pub fn rename_column(&mut self, field: &Field, column: &str) {
        let sql = format!("RENAME COLUMN {} TO {}", quoted(column), quoted(&field.name));
        let change = Change::RenameColumn { from: column.to_owned(), to: field.name.to_string() };
        self.step(change, Effect::Safe, self.alter(&sql));
    }

    /// Adds a column. `default` is the model's as SQL, `now` the time, and
    /// `definition` makes the column's from the default that it gets.
    pub fn add_column(
        &mut self,
        position: usize,
        has_rows: bool,
        mut default: Option<String>,
        now: impl FnOnce() -> String,
        definition: impl FnOnce(Option<String>) -> String,
    ) {
        let field = &self.table.fields()[position];
        let change = Change::AddColumn(field.name.to_string());
        if !field.nullable && has_rows {
            if matches!(field.kind, Kind::Reference { .. }) {
                let why = "it is new and must refer to a row, but the table has rows: make it \
                           optional, give it values, and make it required then";
                return self.refuse(change, why);
            }
            default = match (field.role, default) {
                // What the rows had if the field had been there.
                (Role::Version, None) => Some("1".to_owned()),
                (Role::CreatedAt | Role::UpdatedAt, None) => Some(now()),
                (_, None) => {
                    let why = "it is new and must have a value, but the table has rows: give it a \
                               default for those, or make it optional";
                    return self.refuse(change, why);
                }
                (_, default) => default,
            };
        }
        let sql = format!("ADD COLUMN {}", definition(default));
        self.step(change, Effect::Safe, self.alter(&sql));
    }

    /// Has a column take NULL, or no longer, if it differs from the model in
    /// that; `count` says of how many rows a condition holds.
    ///
    /// # Errors
    /// What `count` gives.
    pub fn change_null<E>(
        &mut self,
        position: usize,
        (column, not_null): (&str, bool),
        count: impl FnOnce(&str) -> Result<i64, E>,
    ) -> Result<(), E> {
        let field = &self.table.fields()[position];
        if position == self.table.key() || not_null != field.nullable {
            return Ok(());
        }
        let (name, shown) = (field.name.to_string(), quoted(&field.name));
        if field.nullable {
            let sql = self.alter(&format!("ALTER COLUMN {shown} DROP NOT NULL"));
            self.step(Change::AllowNull(name), Effect::Safe, sql);
            return Ok(());
        }
        let nulls = count(&format!("{} IS NULL", quoted(column)))?;
        if nulls > 0 {
            let why = format!(
                "it must have a value in the model, and {nulls} rows in the database have none; \
                 give them one (UPDATE {} SET {shown}=… WHERE {shown} IS NULL), or make the field \
                 optional",
                quoted(self.table.name()),
            );
            self.refuse(Change::RequireValue(name), why);
            return Ok(());
        }
        let sql = self.alter(&format!("ALTER COLUMN {shown} SET NOT NULL"));
        self.step(Change::RequireValue(name), Effect::Safe, sql);
        Ok(())
    }

    /// Drops a column that the model has not: left alone, unless no row could be
    /// inserted without it, for which it is `needed`. It has so many values;
    /// `first` is what has to go before.
    pub fn drop_column(&mut self, name: &str, needed: bool, values: i64, mut first: Vec<String>) {
        let table = self.table.name();
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
        first.extend(self.alter(&format!("DROP COLUMN {}", quoted(name))));
        let effect = Effect::Destructive { what, way_out, needed };
        self.step(Change::DropColumn(name.to_owned()), effect, first);
    }

    /// Drops an index that the model no longer has: a unique one would go on
    /// refusing rows.
    pub fn drop_index(&mut self, name: &str) {
        // Gone already, if its column is.
        let sql = format!("DROP INDEX IF EXISTS {}", quoted(name));
        self.step(Change::DropIndex(name.to_owned()), Effect::Safe, vec![sql]);
    }

    /// Makes an index by `statement`, unless several rows have a value that is
    /// to be unique: which is `double`.
    pub fn add_index(&mut self, index: &Index, statement: String, double: Option<String>) {
        let columns = index_columns(self.table, index);
        let effect = match double {
            None => Effect::Safe,
            Some(double) => Effect::Refused(format!(
                "{} is to be unique, and more than one row has {double}; change or delete all of \
                 them but one",
                columns.join(", ")
            )),
        };
        self.step(Change::AddIndex { columns, unique: index.unique }, effect, vec![statement]);
    }
}
