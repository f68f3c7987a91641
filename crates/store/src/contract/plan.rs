//! Plans: the changes that a database needs to fit its models, as data.
//!
//! An engine compares the two and makes the steps ([`crate::engine::Engine::plan`]). Opening a
//! store executes those steps of the same plan that lose no data. The others wait for a
//! [`Destructive`] that allows them, or for a person.

use std::fmt;

use marmota_model::{Error, ErrorKind, Result, SearchLanguage, Table};

/// The steps from the current state of a database to the one that its models need, in order.
///
/// ```
/// use marmota_store::plan::{TableChange, Destructive, StepEffect, Plan, PlanStep};
///
/// let step = PlanStep {
///     table: "person".into(),
///     change: TableChange::DropColumn("nickname".into()),
///     effect: StepEffect::Destructive {
///         what: "3 values are lost".into(),
///         way_out: "keep the field".into(),
///         needed: false,
///     },
///     statements: vec!["ALTER TABLE person DROP COLUMN nickname".into()],
/// };
/// let plan = Plan { steps: vec![step] };
/// // The store can be opened; the column stays until its loss is allowed.
/// plan.check(&Destructive::default())?;
/// assert_eq!(plan.to_do(&Destructive::default()).count(), 0);
/// let allowed = Destructive { columns: vec!["person.nickname".into()], ..Destructive::default() };
/// assert_eq!(plan.to_do(&allowed).count(), 1);
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps; empty if the database fits.
    pub steps: Vec<PlanStep>,
}

/// One step of a [`Plan`].
///
/// Its `Display` is a short sentence, as `migrate --dry-run` prints it.
///
/// ```
/// use marmota_store::plan::{TableChange, PlanStep, StepEffect};
/// let change = TableChange::AddColumn("year".into());
/// let step =
///     PlanStep { table: "person".into(), change, effect: StepEffect::Safe, statements: Vec::new() };
/// assert_eq!(step.to_string(), "add column person.year");
/// assert_eq!(step.column(), Some("year"));
/// assert_eq!(step.blocking_reason(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    /// The table's name in the model.
    pub table: String,
    /// The change.
    pub change: TableChange,
    /// The effect on the rows.
    pub effect: StepEffect,
    /// The SQL statements with which the engine executes it; empty if the engine has no SQL.
    pub statements: Vec<String>,
}

/// A change of a table. New kinds may be added.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableChange {
    /// The table is created.
    AddTable,
    /// The table is renamed.
    RenameTable {
        /// The name that it has in the database.
        from: String,
    },
    /// A column is added.
    AddColumn(String),
    /// A column is renamed.
    RenameColumn {
        /// The name that it has in the database.
        from: String,
        /// Its new name.
        to: String,
    },
    /// A column gets another type, comparison or reference.
    ChangeColumn {
        /// The column.
        column: String,
        /// Its type in the database.
        from: String,
        /// Its type in the model.
        to: String,
    },
    /// A column becomes nullable.
    AllowNull(String),
    /// A column becomes NOT NULL.
    RequireValue(String),
    /// A column is dropped, because the model does not have it.
    DropColumn(String),
    /// An index is created.
    AddIndex {
        /// Its columns, in order.
        columns: Vec<String>,
        /// True if no two rows may have the same values in all of them.
        unique: bool,
        /// The filter of a partial index.
        filter: Option<String>,
    },
    /// An index is dropped, because the model no longer has it.
    DropIndex(String),
    /// The full-text index is created or rebuilt.
    AddSearch {
        /// Its columns, in order.
        columns: Vec<String>,
        /// The language in which searches find other forms of a word.
        language: Option<SearchLanguage>,
    },
    /// The full-text index is dropped: no field is searched any more.
    DropSearch,
    /// No model can have the form of the table in the database.
    SchemaMismatch,
}

/// The effect of a step on existing rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepEffect {
    /// No data is lost: the step is executed when the store is opened.
    Safe,
    /// Data is lost: the step waits until it is allowed.
    Destructive {
        /// The data that is lost, in one sentence.
        what: String,
        /// An alternative.
        way_out: String,
        /// False if the models can be used without the step: then the store opens, and the column
        /// stays as it is.
        needed: bool,
    },
    /// The step cannot be executed; the text has the reason and an alternative.
    Refused(String),
}

/// The destructive steps that are allowed.
///
/// Default: none is allowed. Names are compared without regard to ASCII case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destructive {
    /// Allows all steps without which the models cannot be used.
    pub needed: bool,
    /// Allows the steps of these columns, named `table.column`.
    pub columns: Vec<String>,
}

impl Destructive {
    /// Returns true if a step is executed: one without loss always, one with loss if it is named or
    /// needed and allowed, a refused one never.
    fn allow(&self, step: &PlanStep) -> bool {
        match &step.effect {
            StepEffect::Safe => true,
            StepEffect::Refused(_) => false,
            StepEffect::Destructive { needed, .. } => {
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
    /// Returns the steps that are executed if these destructive steps are allowed.
    pub fn to_do(&self, destructive: &Destructive) -> impl Iterator<Item = &PlanStep> {
        self.steps.iter().filter(|step| destructive.allow(step))
    }

    /// Returns an error for steps that prevent the use of the models, and for allowed columns that
    /// lose no data.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the table and the field, the data that would be lost, and an
    /// alternative.
    pub fn check(&self, destructive: &Destructive) -> Result<()> {
        let hindrances: Vec<String> = self
            .steps
            .iter()
            .filter(|step| !destructive.allow(step))
            .filter_map(PlanStep::blocking_reason)
            .collect();
        if let Some((first, more)) = hindrances.split_first() {
            let more = match more.len() {
                0 => String::new(),
                more => format!(" (and {more} more; `migrate --dry-run` lists them)"),
            };
            return Err(Error::new(ErrorKind::Invalid, format!("{first}{more}")));
        }
        for name in &destructive.columns {
            let is_lost = |step: &&PlanStep| {
                let only = Destructive { needed: false, columns: vec![name.clone()] };
                step.effect != StepEffect::Safe && only.allow(step)
            };
            if !self.steps.iter().any(|step| is_lost(&step)) {
                let message = format!(
                    "`{}` is not a table or column that would be dropped: write table.column, as \
                     `migrate --dry-run` lists it",
                    marmota_model::text::excerpt(name)
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        Ok(())
    }
}

impl TableChange {
    /// Returns the change that gives a table the full-text index of its model.
    #[must_use]
    pub fn search_of(table: &Table) -> Self {
        let name = |field: usize| table.fields()[field].name.to_string();
        let columns: Vec<String> = table.search_fields().map(name).collect();
        match columns.is_empty() {
            true => Self::DropSearch,
            false => Self::AddSearch { columns, language: table.schema().search_language },
        }
    }
}

impl PlanStep {
    /// Returns the column that changes, by its name in the model.
    #[must_use]
    pub fn column(&self) -> Option<&str> {
        match &self.change {
            TableChange::AddColumn(column)
            | TableChange::AllowNull(column)
            | TableChange::RequireValue(column)
            | TableChange::DropColumn(column)
            | TableChange::RenameColumn { to: column, .. }
            | TableChange::ChangeColumn { column, .. } => Some(column),
            _ => None,
        }
    }

    /// Returns the reason why a store cannot be opened without this step; `None` if it can.
    #[must_use]
    pub fn blocking_reason(&self) -> Option<String> {
        let why = match &self.effect {
            StepEffect::Safe | StepEffect::Destructive { needed: false, .. } => return None,
            StepEffect::Refused(why) => why.clone(),
            StepEffect::Destructive { what, way_out, .. } => format!("{what}; {way_out}"),
        };
        Some(match self.column() {
            Some(column) => format!("field `{column}` of `{}`: {why}", self.table),
            None => format!("table `{}`: {why}", self.table),
        })
    }
}

impl fmt::Display for PlanStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = &self.table;
        match &self.change {
            TableChange::AddTable => write!(f, "add table {table}"),
            TableChange::RenameTable { from } => write!(f, "rename table {from} to {table}"),
            TableChange::AddColumn(column) => write!(f, "add column {table}.{column}"),
            TableChange::RenameColumn { from, to } => {
                write!(f, "rename column {table}.{from} to {to}")
            }
            TableChange::ChangeColumn { column, from, to } => {
                write!(f, "change column {table}.{column} from {from} to {to}")
            }
            TableChange::AllowNull(column) => write!(f, "allow NULL in column {table}.{column}"),
            TableChange::RequireValue(column) => write!(f, "make column {table}.{column} NOT NULL"),
            TableChange::DropColumn(column) => write!(f, "drop column {table}.{column}"),
            TableChange::AddIndex { columns, unique, filter } => {
                let kind = if *unique { "unique index" } else { "index" };
                write!(f, "add {kind} of {table} over {}", columns.join(", "))?;
                filter.as_ref().map_or(Ok(()), |filter| write!(f, " where {filter}"))
            }
            TableChange::DropIndex(name) => write!(f, "drop index {name} of {table}"),
            TableChange::AddSearch { columns, language } => {
                write!(f, "add search of {table} over {}", columns.join(", "))?;
                language.map_or(Ok(()), |language| write!(f, " in {}", language.name()))
            }
            TableChange::DropSearch => write!(f, "drop search of {table}"),
            TableChange::SchemaMismatch => write!(f, "table {table} does not match its model"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drop_of(column: &str, needed: bool) -> PlanStep {
        let effect =
            StepEffect::Destructive { what: "3 values".into(), way_out: "keep it".into(), needed };
        let (table, change) = ("person".to_owned(), TableChange::DropColumn(column.into()));
        PlanStep { table, change, effect, statements: Vec::new() }
    }

    #[test]
    fn destructive_steps_are_allowed_by_name_or_where_they_are_needed() {
        let plan = Plan { steps: vec![drop_of("a", true), drop_of("b", false)] };
        let named = |names: &[&str]| Destructive {
            needed: false,
            columns: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let done = |destructive: &Destructive| {
            plan.to_do(destructive).filter_map(PlanStep::column).count()
        };
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
