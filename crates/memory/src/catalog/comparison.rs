//! Compares a table's rows to its model, and determines the changes that the rows need.
//!
//! Indexes are not compared: they are built from the rows at each start.

use marmota_model::text::counted;
use marmota_model::{Error, ErrorKind, Result, Table, ValueForm};
use marmota_store::plan::{Destructive, Plan, PlanStep, StepEffect, TableChange};

use crate::table::table_rows::TableRows;

/// The form of a table's rows.
#[derive(Default)]
pub(crate) struct Shape {
    /// The fields that they have, with their forms if known.
    pub(crate) fields: Vec<(String, Option<ValueForm>)>,
    /// The number of rows.
    pub(crate) rows: u64,
}

impl Shape {
    /// Returns the shape of rows in memory.
    pub(crate) fn of(rows: &TableRows) -> Self {
        let mut shape = Self { rows: rows.keys.len() as u64, ..Self::default() };
        for field in rows.table.fields() {
            shape.note(&field.name, Some(field.kind.form()));
        }
        shape
    }

    /// Adds a field, unless it exists.
    pub(crate) fn note(&mut self, name: &str, form: Option<ValueForm>) {
        if self.find(name).is_none() {
            self.fields.push((name.to_owned(), form));
        }
    }

    fn find(&self, name: &str) -> Option<&(String, Option<ValueForm>)> {
        self.fields.iter().find(|(known, _)| known == name)
    }
}

/// Returns the field for a value called `name` in older rows; `None` if the value may be dropped.
///
/// # Errors
/// [`ErrorKind::Invalid`] if it may not be dropped, with an alternative.
pub(crate) fn place_of(
    table: &Table,
    name: &str,
    destructive: &Destructive,
) -> Result<Option<usize>> {
    let was = |field: &marmota_model::Field| field.was.as_deref() == Some(name);
    if let Some(place) = table.find(name).or_else(|| table.fields().iter().position(was)) {
        return Ok(Some(place));
    }
    let plan = Plan { steps: vec![drop_column(table, name, 1)] };
    match plan.to_do(destructive).next() {
        Some(_) => Ok(None),
        None => {
            let why = plan.steps[0].blocking_reason().unwrap_or_default();
            Err(Error::new(ErrorKind::Invalid, why))
        }
    }
}

/// Returns the steps that convert rows of a shape to those of a table.
pub(crate) fn plan(shape: &Shape, table: &Table) -> Plan {
    let mut plan = Plan::default();
    let mut add = |change, effect| plan.steps.push(step(table, change, effect));
    let has_rows = shape.rows > 0;
    for (position, field) in table.fields().iter().enumerate() {
        let there = shape.find(&field.name);
        let was = field.was.as_deref().and_then(|was| shape.find(was)).filter(|_| there.is_none());
        if let Some((from, _)) = was {
            let (from, to) = (from.clone(), field.name.to_string());
            add(TableChange::RenameColumn { from, to }, StepEffect::Safe);
        }
        match there.or(was) {
            Some((_, Some(form))) if has_rows && *form != field.kind.form() => {
                let (from, to) = (format!("{form:?}"), field.kind.name().to_owned());
                let why = format!(
                    "the field changes from {from} to {to}; add a field with another name instead, \
                     or change it back"
                );
                let column = field.name.to_string();
                add(TableChange::ChangeColumn { column, from, to }, StepEffect::Refused(why));
            }
            Some(_) => {}
            None => {
                let is_given = field.nullable || table.default(position).is_some();
                let effect = match is_given || !has_rows {
                    true => StepEffect::Safe,
                    false => StepEffect::Refused(
                        "the field is new and must have a value, but the table has rows: give it a \
                         default for those, or make it optional"
                            .to_owned(),
                    ),
                };
                add(TableChange::AddColumn(field.name.to_string()), effect);
            }
        }
    }
    for (name, _) in &shape.fields {
        let is_kept = |field: &marmota_model::Field| {
            field.name == *name || field.was.as_deref() == Some(&**name)
        };
        if !table.fields().iter().any(is_kept) {
            plan.steps.push(drop_column(table, name, shape.rows));
        }
    }
    plan
}

/// Makes a step of this table.
pub(crate) fn step(table: &Table, change: TableChange, effect: StepEffect) -> PlanStep {
    PlanStep { table: table.name().to_owned(), change, effect, statements: Vec::new() }
}

fn drop_column(table: &Table, name: &str, rows: u64) -> PlanStep {
    let effect = match rows {
        0 => StepEffect::Safe,
        rows => StepEffect::Destructive {
            what: format!(
                "the model has no such field; its values in up to {} would be lost",
                counted(rows, "row")
            ),
            way_out: format!(
                "add the field, or drop it (`migrate --drop {}.{name}`)",
                table.name()
            ),
            needed: true,
        },
    };
    step(table, TableChange::DropColumn(name.to_owned()), effect)
}
