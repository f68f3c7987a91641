//! What a caller may do with a table or a row, and the reason of each denial, for administrators.
//!
//! The answers come from the code that decides on operations: [`Rights`] and the checks of writes
//! (`Checks`), without the write. So they cannot differ from what happens to the caller, except for
//! what hooks and the values of a new row add.

use std::sync::Arc;

use marmota_model::{
    Caller, Comparison, Error, ErrorKind, FieldSet, FilterExpr, NoRows, Result, RowSink, Table,
    Value,
};
use serde::Serialize;

use crate::batch_machine::Checks;
use crate::contract::operation::{Operation, Outcome, Write};
use crate::rights::{Access, Grant, Right, Rights, TableRights, of_caller};
use crate::store::Store;
use crate::verbs::action::Verb;

/// The rows to which a right of a caller extends. For one row it is `All` or `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessExtent {
    /// All rows of the table.
    All,
    /// The rows that a rule selects.
    Some,
    /// No row.
    None,
}

/// A grant that has the right, in a [`RightReport`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GrantReport {
    /// The place of the grant in the list that was passed.
    pub grant: usize,
    /// Its rule; `None` for all rows.
    pub rule: Option<String>,
    /// True if it extends to the row; `None` if no row was named and the rule decides.
    pub holds: Option<bool>,
}

/// One right of a caller on a table or a row; see [`Store::explain_access`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RightReport {
    /// The right.
    pub right: Right,
    /// The rows to which it extends.
    pub extent: AccessExtent,
    /// Why it extends to no row, or not to this one.
    pub reason: Option<String>,
    /// The fields of the right, if there are others that it does not extend to.
    pub fields: Option<Vec<String>>,
    /// The fields that it does not extend to.
    pub hidden: Vec<String>,
    /// The grants that have the right.
    pub grants: Vec<GrantReport>,
}

impl Store {
    /// Returns what a caller with these grants may do with a table, or with the row that has this key:
    /// a report for each right of [`Right::ALL`]. Nothing is written, and hooks are not called.
    ///
    /// `insert` of a row is the insert of a row with the same values and a new key.
    ///
    /// ```
    /// use marmota_memory::Memory;
    /// use marmota_model::{Caller, Field, Kind, Record, Role, Schema};
    /// use marmota_store::Store;
    /// use marmota_store::access::AccessExtent;
    /// use marmota_store::action::block_on;
    /// use marmota_store::rights::{Grant, Right};
    ///
    /// let fields =
    ///     vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("owner", Kind::I64)];
    /// let store = Store::builder(Memory::new()).schema(Schema::new("note", fields)).open()?;
    /// let note = store.table("note")?;
    /// let mut row = Record::new(note.clone());
    /// row.set("owner", 8)?;
    /// let key = store.insert_record(&row).run()?;
    ///
    /// let ann = Caller { id: "7".into(), name: "ann".into(), groups: vec![] };
    /// let own = Grant::new("note", &[Right::Read]).rule("owner = @user.id");
    /// let rights = block_on(store.explain_access(Some(&ann), &[own], &note, Some(&key)))?;
    /// assert_eq!(rights[0].extent, AccessExtent::None);
    /// assert_eq!(
    ///     rights[0].reason.as_deref(),
    ///     Some("no rule is true for this row: `owner = @user.id`")
    /// );
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the row does not exist, [`ErrorKind::Denied`] for a store with rights;
    /// errors of the grants and of the engine.
    pub async fn explain_access(
        &self,
        caller: Option<&Caller>,
        grants: &[Grant],
        table: &Arc<Table>,
        key: Option<&Value>,
    ) -> Result<Vec<RightReport>> {
        if self.rights().is_some() {
            let message = "the access of others is explained by a store without rights only";
            return Err(Error::new(ErrorKind::Denied, message));
        }
        let rights = Rights::new(self.registry(), caller.cloned(), grants)?;
        let row = match key {
            Some(key) => {
                let found = self.get_record(table, key.clone()).await?;
                Some(ReportedRow { key: key.clone(), values: found.values().to_vec() })
            }
            None => None,
        };
        let explained = Explained { store: self.clone(), rights, table, row };
        let mut reports = Vec::with_capacity(Right::ALL.len());
        for right in Right::ALL {
            reports.push(explained.right(caller, grants, right).await?);
        }
        Ok(reports)
    }
}

/// The row of a report.
struct ReportedRow {
    key: Value,
    values: Vec<Value>,
}

/// What a report is made of.
struct Explained<'a> {
    /// The store without rights.
    store: Store,
    rights: Arc<Rights>,
    table: &'a Arc<Table>,
    row: Option<ReportedRow>,
}

impl Explained<'_> {
    async fn right(
        &self,
        caller: Option<&Caller>,
        grants: &[Grant],
        right: Right,
    ) -> Result<RightReport> {
        let mut granted = Vec::new();
        let has_it = |grant: &Grant| grant.is_on(self.table) && grant.rights.contains(&right);
        for (place, grant) in grants.iter().enumerate().filter(|(_, grant)| has_it(grant)) {
            let holds = match (grant.filter(self.table, caller)?, &self.row) {
                (None, _) => Some(false),
                (Some(None), _) => Some(true),
                (Some(Some(_)), None) => None,
                (Some(Some(filter)), Some(row)) => Some(self.selects(filter, row).await?),
            };
            granted.push(GrantReport { grant: place, rule: grant.rule.clone(), holds });
        }
        let rights = self.rights.of(self.table)?;
        let decided = match &self.row {
            None => self.rights.admit(right, self.table).map(drop),
            Some(row) => self.row(rights, right, row).await,
        };
        let (extent, reason) = match decided {
            Err(error) => (AccessExtent::None, Some(reason(self.table, right, &granted, error)?)),
            Ok(()) if self.row.is_some() || rights.access(right).is_all() => {
                (AccessExtent::All, None)
            }
            Ok(()) => (AccessExtent::Some, None),
        };
        let all = self.table.all();
        let usable = match extent {
            AccessExtent::None => all,
            _ => self.fields(rights, right).await?,
        };
        let names = |fields: FieldSet| -> Vec<String> {
            fields.iter().map(|field| self.table.fields()[field].name.to_string()).collect()
        };
        let hidden = usable.iter().fold(all, FieldSet::without);
        let fields = (!hidden.is_empty()).then(|| names(usable));
        Ok(RightReport { right, extent, reason, fields, hidden: names(hidden), grants: granted })
    }

    /// Decides on a right to the row, as the store does for an operation.
    async fn row(&self, rights: &TableRights, right: Right, row: &ReportedRow) -> Result<()> {
        let table = Arc::clone(self.table);
        match right {
            Right::Update => {
                let absent = vec![Value::Absent; table.fields().len()];
                self.write(update_of(&table, row, absent)).await
            }
            Right::Delete => {
                self.write(Write::Delete { table, key: row.key.clone(), version: None }).await
            }
            Right::Insert => {
                let mut values = row.values.clone();
                let kept = of_caller(&table, table.all());
                for (field, value) in values.iter_mut().enumerate() {
                    if !kept.contains(field) {
                        *value = Value::Absent;
                    }
                }
                let given = rights.given_of(&values);
                self.write(Write::insert(table, values)).await?;
                self.extends(&rights.inserting(given), right, row).await
            }
            _ => {
                self.rights.admit(right, self.table)?;
                self.extends(rights.access(right), right, row).await
            }
        }
    }

    /// Executes the checks of a write, without the write.
    async fn write(&self, write: Write) -> Result<()> {
        let rights = Arc::clone(&self.rights);
        let write = Write::Guarded { write: Box::new(write), rights };
        let mut checks = Checks::begin(&write)?;
        while let Some((table, filter)) = checks.next(&write)? {
            let rows = self.store.action(CountRows { table, filter }).await?;
            checks.counted(&write, rows)?;
        }
        Ok(())
    }

    /// Checks that an access extends to the row.
    async fn extends(&self, access: &Access, right: Right, row: &ReportedRow) -> Result<()> {
        let is_there = match access {
            Access::All => true,
            Access::Denied => false,
            Access::Where(condition) => self.selects(condition.filter().clone(), row).await?,
        };
        match is_there {
            true => Ok(()),
            false => Err(self.rights.denied_row(right, self.table, row.key.as_ref())),
        }
    }

    /// Returns true if a filter selects the row.
    async fn selects(&self, filter: FilterExpr, row: &ReportedRow) -> Result<bool> {
        let (field, value) = (self.table.key(), row.key.clone());
        let it = FilterExpr::Compare { field, comparison: Comparison::Equal, value };
        let (table, filter) = (Arc::clone(self.table), Some(it.and(filter)));
        Ok(self.store.action(CountRows { table, filter }).await? > 0)
    }

    /// Returns the fields that a right extends to: in the row, or in some rows.
    async fn fields(&self, rights: &TableRights, right: Right) -> Result<FieldSet> {
        let all = self.table.all();
        let limited = match right {
            Right::Read => &rights.read_fields,
            Right::Insert => &rights.insert_fields,
            Right::Update => &rights.update_fields,
            Right::History => return Ok(rights.history_fields),
            _ => return Ok(all),
        };
        let (Some(limited), Some(row)) = (limited, &self.row) else {
            return Ok(limited.as_ref().map_or(all, |limited| limited.any));
        };
        let mut usable = limited.every;
        for field in limited.any.iter().filter(|&field| !limited.every.contains(field)) {
            let access = match right {
                Right::Read => rights.reading(FieldSet::EMPTY.with(field))?,
                Right::Insert => rights.inserting(FieldSet::EMPTY.with(field)),
                _ => rights.updating(FieldSet::EMPTY.with(field)),
            };
            if self.extends(&access, right, row).await.is_ok() {
                usable = usable.with(field);
            }
        }
        Ok(usable)
    }
}

fn update_of(table: &Arc<Table>, row: &ReportedRow, values: Vec<Value>) -> Write {
    Write::Update { table: Arc::clone(table), key: row.key.clone(), row: values, version: None }
}

/// Returns why a right was denied.
///
/// # Errors
/// An error that is not a denial.
fn reason(table: &Table, right: Right, granted: &[GrantReport], error: Error) -> Result<String> {
    let is_denial = |kind| {
        matches!(
            kind,
            ErrorKind::Denied
                | ErrorKind::Unauthenticated
                | ErrorKind::NotFound
                | ErrorKind::Invalid
        )
    };
    if !is_denial(error.kind()) {
        return Err(error);
    }
    if granted.is_empty() {
        return Ok(format!("no grant has the right `{}` on `{}`", right.name(), table.name()));
    }
    let rules = granted.iter().filter_map(|grant| grant.rule.as_deref());
    let rules: Vec<String> = rules.map(|rule| format!("`{rule}`")).collect();
    Ok(match granted.iter().all(|grant| grant.holds == Some(false)) {
        true => format!("no rule is true for this row: {}", rules.join(", ")),
        false
            if matches!(right, Right::Update | Right::Delete | Right::History)
                && error.violations().is_empty() =>
        {
            format!("`{}` needs the right `read` too: {}", right.name(), error.message())
        }
        false => error.message().to_owned(),
    })
}

/// Counts the rows of a table that a filter selects.
struct CountRows {
    table: Arc<Table>,
    filter: Option<FilterExpr>,
}

impl Verb for CountRows {
    type Output = u64;

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self { table, filter } = self;
        call(&mut Operation::Count { table, filter: filter.as_ref() }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<u64> {
        Ok(outcome.rows)
    }
}
