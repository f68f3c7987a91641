//! Several writes, over any tables, in one call and one transaction.

mod added;

use std::sync::Arc;

use marmota_model::{
    Column, Error, ErrorKind, FieldSet, FieldValue, Key, Model, NoRows, Record, Result, RowSink,
    Scratch, Table, Value, ValueRef,
};

pub use added::Added;

use crate::action::{Action, Verb};
use crate::operation::{BatchMode, Keys, Operation, Outcome, Write};
use crate::prepare::{self, Origin};
use crate::read::check_key;
use crate::scope::Scope;
use crate::write::{check_increment, check_version};

/// A list of writes, made by [`Scope::batch`] and carried out by
/// [`Batch::all_or_nothing`] or [`Batch::each`].
///
/// Rows are checked as they are added; the first that breaks a rule is
/// reported when the batch is carried out, before anything is written.
pub struct Batch<'s> {
    scope: &'s Scope,
    writes: Vec<Write>,
    refused: Option<Error>,
}

impl<'s> Batch<'s> {
    /// How many writes were added.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// True if none was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Adds an insert; what it gives says what to do where a row is there
    /// already, and can be used as the batch itself.
    pub fn insert<M: Model>(&mut self, model: &M) -> Added<'_, 's> {
        let (scope, mut given) = (self.scope, FieldSet::EMPTY);
        let made = self.row_of(model, |table, row| {
            given = FieldSet::present(row);
            prepare::insert(table, row, Origin::Struct, scope.stamp(table))
        });
        self.add(made.map(|(table, row)| Write::insert(table, row)));
        Added::new(self, given)
    }

    /// Adds an insert that writes over the row that is there, as
    /// [`Scope::upsert`] does.
    pub fn upsert<M: Model>(&mut self, model: &M) -> Added<'_, 's> {
        self.insert(model).or_update()
    }

    /// Adds an update of every field.
    pub fn update<M: Model>(&mut self, model: &M) -> &mut Self {
        let key = model.key().borrow().to_value();
        let (scope, mut version) = (self.scope, None);
        let made = self.row_of(model, |table, row| {
            version = table.version().and_then(|field| row[field].as_int()).filter(|&v| v != 0);
            prepare::update(table, row, Origin::Struct, scope.stamp(table))
        });
        self.add(made.map(|(table, row)| Write::Update { table, key, row, version }))
    }

    /// Adds a delete.
    pub fn delete<M: Model>(&mut self, key: impl Into<M::Key>) -> &mut Self {
        let table = self.scope.registry().of::<M>().cloned();
        let key = key.into().borrow().to_value();
        self.add(table.map(|table| Write::Delete { table, key, version: None }))
    }

    /// Adds an increment.
    pub fn increment<M: Model, T: FieldValue>(
        &mut self,
        column: Column<M, T>,
        key: impl Into<M::Key>,
        by: impl Into<Value>,
    ) -> &mut Self {
        let scope = self.scope;
        let table = scope.registry().of::<M>().cloned();
        let (key, by) = (key.into().borrow().to_value(), by.into());
        let field = column.position();
        self.add(table.and_then(|table| {
            check_increment(&table, field, by.as_ref())?;
            let stamp = scope.stamp(&table).value().to_value();
            Ok(Write::Increment { table, key, field, by, stamp })
        }))
    }

    /// Adds an insert of a record.
    pub fn insert_record(&mut self, record: &Record) -> Added<'_, 's> {
        self.insert_values(record.table(), record.values())
    }

    /// Adds an insert of a row given as values in the order of fields.
    pub fn insert_values(&mut self, table: &Arc<Table>, values: &[Value]) -> Added<'_, 's> {
        let mut row: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
        let given = FieldSet::present(&row);
        let made = prepare::insert(table, &mut row, Origin::Values, self.scope.stamp(table));
        let row = row.iter().map(ValueRef::to_value).collect();
        self.add(made.map(|()| Write::insert(Arc::clone(table), row)));
        Added::new(self, given)
    }

    /// Adds an update of the fields present in a row given as values.
    pub fn update_values(
        &mut self,
        table: &Arc<Table>,
        key: Value,
        values: &[Value],
        version: Option<i64>,
    ) -> &mut Self {
        let mut row: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
        let made =
            check_key(table, key.as_ref()).and_then(|()| check_version(table, version)).and_then(
                |()| prepare::update(table, &mut row, Origin::Values, self.scope.stamp(table)),
            );
        let row = row.iter().map(ValueRef::to_value).collect();
        let table = Arc::clone(table);
        self.add(made.map(|()| Write::Update { table, key, row, version }))
    }

    /// Adds a delete by a value as key.
    pub fn delete_value(
        &mut self,
        table: Arc<Table>,
        key: Value,
        version: Option<i64>,
    ) -> &mut Self {
        let checked = check_key(&table, key.as_ref()).and_then(|()| check_version(&table, version));
        self.add(checked.map(|()| Write::Delete { table, key, version }))
    }

    /// Adds an increment by values.
    pub fn increment_value(
        &mut self,
        table: Arc<Table>,
        key: Value,
        field: usize,
        by: Value,
    ) -> &mut Self {
        let checked = check_key(&table, key.as_ref())
            .and_then(|()| check_increment(&table, field, by.as_ref()));
        let stamp = self.scope.stamp(&table).value().to_value();
        self.add(checked.map(|()| Write::Increment { table, key, field, by, stamp }))
    }

    /// Carries out all writes, or none if one fails; gives the outcome of each.
    ///
    /// # Errors
    /// The failed write's, naming its place.
    pub fn all_or_nothing(self) -> Action<'s, Writes> {
        self.action(BatchMode::AllOrNothing)
    }

    /// Carries out the writes that can be; gives the result of each.
    ///
    /// # Errors
    /// Only what concerns the batch as a whole.
    pub fn each(self) -> Action<'s, Writes> {
        self.action(BatchMode::Each)
    }

    fn action(self, mode: BatchMode) -> Action<'s, Writes> {
        let Self { scope, writes, refused } = self;
        Action::new(scope, Writes { writes, refused, mode, results: Vec::new() })
    }

    fn row_of<M: Model>(
        &self,
        model: &M,
        prepare: impl for<'a> FnOnce(&'a Table, &mut [ValueRef<'a>]) -> Result<()>,
    ) -> Result<(Arc<Table>, Vec<Value>)> {
        let table = self.scope.registry().of::<M>()?;
        let scratch = Scratch::new();
        let mut row = vec![ValueRef::Absent; table.fields().len()];
        model.write(&mut row, &scratch);
        prepare(table, &mut row)?;
        Ok((Arc::clone(table), row.iter().map(ValueRef::to_value).collect()))
    }

    fn add(&mut self, write: Result<Write>) -> &mut Self {
        match write {
            Ok(write) => self.writes.push(write),
            Err(error) if self.refused.is_none() => {
                self.refused = Some(at(self.writes.len(), &error));
                // Later writes are still counted, so that places are right.
            }
            Err(_) => {}
        }
        self
    }
}

/// The same error with the write's place in front.
fn at(place: usize, error: &Error) -> Error {
    let mut named = Error::new(error.kind(), format!("write {place}: {}", error.message()));
    for violation in error.violations() {
        named = named.with_violation(violation.clone());
    }
    named
}

/// The verb of [`Batch::all_or_nothing`] and [`Batch::each`].
pub struct Writes {
    writes: Vec<Write>,
    refused: Option<Error>,
    mode: BatchMode,
    results: Vec<Result<Outcome>>,
}

impl Verb for Writes {
    type Output = Vec<Result<Outcome>>;

    fn operate(
        &mut self,
        _: &Scope,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        if self.writes.is_empty() {
            return Ok(());
        }
        let Self { writes, mode, results, .. } = self;
        let called = call(&mut Operation::Batch { writes, mode: *mode, results }, &mut NoRows);
        // The batch's own error is the failed write's, which has its place here.
        match (called, results.last()) {
            (Err(_), Some(Err(failed))) if self.mode == BatchMode::AllOrNothing => {
                Err(at(results.len() - 1, failed))
            }
            (called, _) => called,
        }
    }

    fn finish(&mut self, _: &Scope, _: &mut Outcome) -> Result<Vec<Result<Outcome>>> {
        if self.results.len() == self.writes.len() {
            let mut results = std::mem::take(&mut self.results);
            for (write, result) in self.writes.iter().zip(&mut results) {
                // A key that the row held is as much its key as one the engine gave.
                if let (Write::Insert { table, row, .. }, Ok(outcome)) = (write, result)
                    && outcome.keys == Keys::Known
                {
                    outcome.keys = Keys::One(row[table.key()].clone());
                }
            }
            return Ok(results);
        }
        Err(Error::new(ErrorKind::Bug, "the engine gave no result for a write of a batch"))
    }
}

impl Scope {
    /// Begins a list of writes, over any tables, to be carried out in one
    /// transaction.
    #[must_use]
    pub fn batch(&self) -> Batch<'_> {
        Batch { scope: self, writes: Vec::new(), refused: None }
    }
}
