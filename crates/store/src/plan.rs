//! What has to change in a database for it to fit its models: steps, as data.
//!
//! An engine compares and makes the steps ([`crate::engine::Engine::plan`]);
//! opening a store carries out those that lose nothing, by the same plan. What
//! else there is waits for [`Destructive`] that allow it, or for a person.

use std::fmt;

use marmota_model::{Error, ErrorKind, Result};

/// The steps from what a database has to what its models need, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps; none if the database fits.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The table, as the model calls it.
    pub table: String,
    /// What changes.
    pub change: Change,
    /// What that does to the rows.
    pub effect: Effect,
    /// How the engine does it: statements of SQL, or none if it has no language.
    pub statements: Vec<String>,
}

/// What changes in a table. New kinds may be added.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The table is made.
    AddTable,
    /// The table gets another name.
    RenameTable {
        /// The name that it has in the database.
        from: String,
    },
    /// A column is added.
    AddColumn(String),
    /// A column gets another name.
    RenameColumn {
        /// The name that it has in the database.
        from: String,
        /// The name that it gets.
        to: String,
    },
    /// A column gets another type, comparison or reference.
    ChangeColumn {
        /// The column.
        column: String,
        /// What it is in the database.
        from: String,
        /// What it is in the model.
        to: String,
    },
    /// A column may be NULL from here on.
    AllowNull(String),
    /// A column may no longer be NULL.
    RequireValue(String),
    /// A column goes that the model has not.
    DropColumn(String),
    /// An index is made.
    AddIndex {
        /// Its columns, in order.
        columns: Vec<String>,
        /// True if no two rows may agree in all of them.
        unique: bool,
    },
    /// An index goes that the model no longer has.
    DropIndex(String),
    /// The index of the words in these columns is made, or made anew.
    AddSearch(Vec<String>),
    /// The index of words goes: no field is searched any more.
    DropSearch,
    /// The table in the database is none that a model can have.
    SchemaMismatch,
}

/// What a step does to the rows there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// They lose nothing: the step is carried out when the store is opened.
    Safe,
    /// They lose something: the step waits until it is allowed.
    Destructive {
        /// What is lost, in a sentence.
        what: String,
        /// What else could be done.
        way_out: String,
        /// False if the models can be used without the step: then the store
        /// opens, and the column stays as it is.
        needed: bool,
    },
    /// It cannot be done so; says why, and the way out.
    Refused(String),
}

/// Which steps that lose data are allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destructive {
    /// All that the models cannot be used without.
    pub needed: bool,
    /// Those of these columns, by the names `table.column`.
    pub columns: Vec<String>,
}

impl Destructive {
    fn allow(&self, step: &Step) -> bool {
        match &step.effect {
            Effect::Safe => true,
            Effect::Refused(_) => false,
            Effect::Destructive { needed, .. } => {
                let named = step.column().is_some_and(|column| {
                    let name = format!("{}.{column}", step.table);
                    self.columns.iter().any(|allowed| allowed.eq_ignore_ascii_case(&name))
                });
                named || *needed && self.needed
            }
        }
    }
}

impl Plan {
    /// The steps that are carried out with these allowed.
    pub fn to_do(&self, destructive: &Destructive) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| destructive.allow(step))
    }

    /// Refuses what stands between the database and its models, and names of
    /// columns of which nothing is to be lost.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] naming the table and the field, what would be
    /// lost, and the way out.
    pub fn check(&self, destructive: &Destructive) -> Result<()> {
        let hindrances: Vec<String> = self
            .steps
            .iter()
            .filter(|step| !destructive.allow(step))
            .filter_map(Step::blocking_reason)
            .collect();
        if let Some((first, more)) = hindrances.split_first() {
            let more = match more.len() {
                0 => String::new(),
                more => format!(" (and {more} more; `migrate --dry-run` lists them)"),
            };
            return Err(Error::new(ErrorKind::Invalid, format!("{first}{more}")));
        }
        for name in &destructive.columns {
            let is_lost = |step: &&Step| {
                let only = Destructive { needed: false, columns: vec![name.clone()] };
                step.effect != Effect::Safe && only.allow(step)
            };
            if !self.steps.iter().any(|step| is_lost(&step)) {
                let message = format!(
                    "nothing of `{}` is to be dropped: name it as table.column, as \
                     `migrate --dry-run` does",
                    marmota_model::text::excerpt(name)
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        Ok(())
    }
}

impl Step {
    /// The column that it is about, as the model calls it.
    #[must_use]
    pub fn column(&self) -> Option<&str> {
        match &self.change {
            Change::AddColumn(column)
            | Change::AllowNull(column)
            | Change::RequireValue(column)
            | Change::DropColumn(column)
            | Change::RenameColumn { to: column, .. }
            | Change::ChangeColumn { column, .. } => Some(column),
            _ => None,
        }
    }

    /// Why a store is not opened as long as this is not done; none if it is.
    #[must_use]
    pub fn blocking_reason(&self) -> Option<String> {
        let why = match &self.effect {
            Effect::Safe | Effect::Destructive { needed: false, .. } => return None,
            Effect::Refused(why) => why.clone(),
            Effect::Destructive { what, way_out, .. } => format!("{what}; {way_out}"),
        };
        Some(match self.column() {
            Some(column) => format!("field `{column}` of `{}`: {why}", self.table),
            None => format!("table `{}`: {why}", self.table),
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = &self.table;
        match &self.change {
            Change::AddTable => write!(f, "add table {table}"),
            Change::RenameTable { from } => write!(f, "rename table {from} to {table}"),
            Change::AddColumn(column) => write!(f, "add column {table}.{column}"),
            Change::RenameColumn { from, to } => write!(f, "rename column {table}.{from} to {to}"),
            Change::ChangeColumn { column, from, to } => {
                write!(f, "change column {table}.{column} from {from} to {to}")
            }
            Change::AllowNull(column) => write!(f, "let column {table}.{column} be NULL"),
            Change::RequireValue(column) => write!(f, "let column {table}.{column} not be NULL"),
            Change::DropColumn(column) => write!(f, "drop column {table}.{column}"),
            Change::AddIndex { columns, unique } => {
                let kind = if *unique { "unique index" } else { "index" };
                write!(f, "add {kind} of {table} over {}", columns.join(", "))
            }
            Change::DropIndex(name) => write!(f, "drop index {name} of {table}"),
            Change::AddSearch(columns) => {
                write!(f, "add search of {table} over {}", columns.join(", "))
            }
            Change::DropSearch => write!(f, "drop search of {table}"),
            Change::SchemaMismatch => write!(f, "table {table} does not fit"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drop_of(column: &str, needed: bool) -> Step {
        let effect =
            Effect::Destructive { what: "3 values".into(), way_out: "keep it".into(), needed };
        let (table, change) = ("person".to_owned(), Change::DropColumn(column.into()));
        Step { table, change, effect, statements: Vec::new() }
    }

    #[test]
    fn destructive_steps_are_allowed_by_name_or_where_they_are_needed() {
        let plan = Plan { steps: vec![drop_of("a", true), drop_of("b", false)] };
        let named = |names: &[&str]| Destructive {
            needed: false,
            columns: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let done =
            |destructive: &Destructive| plan.to_do(destructive).filter_map(Step::column).count();
        assert_eq!(done(&Destructive::default()), 0);
        assert_eq!(done(&Destructive { needed: true, ..Destructive::default() }), 1);
        assert_eq!(done(&named(&["person.a", "person.b"])), 2);

        let error = plan.check(&Destructive::default()).unwrap_err();
        assert_eq!(error.to_string(), "field `a` of `person`: 3 values; keep it");
        plan.check(&named(&["person.a"])).unwrap();
        let error = plan.check(&named(&["person.a", "person.c"])).unwrap_err();
        assert!(error.to_string().contains("person.c"), "{error}");
    }
}
