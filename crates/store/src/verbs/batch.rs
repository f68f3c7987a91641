//! Several writes, over any tables, in one call and one transaction.

mod added;
mod kept;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use marmota_model::{
    Column, Error, ErrorKind, FieldSet, FieldValue, Key, KeyKind, Model, NoRows, Record, Result,
    RowSink, Scratch, Table, Value, ValueRef,
};

pub use added::{Added, Patching, RefersTo, RowHandle};

use crate::contract::operation::{
    Answered, BatchMode, Fingerprint, Keys, Link, LinkAt, OnceKey, Operation, Outcome, Write,
};
use crate::rows::prepare::{self, ValueSource};
use crate::store::Store;
use crate::verbs::action::{Action, Verb};
use crate::verbs::read::check_key;
use crate::verbs::write::{check_increment, check_version};

/// A list of writes, made by [`Store::batch`] and executed by [`Batch::all_or_nothing`] or
/// [`Batch::continue_on_error`].
///
/// Rows are checked as they are added. The first error is reported when the batch is executed,
/// before anything is written.
pub struct Batch<'s> {
    store: &'s Store,
    /// Identifies this batch among others.
    number: u64,
    writes: Vec<Write>,
    links: Vec<Link>,
    /// The places of patches, which are checked once they are complete.
    patches: Vec<usize>,
    /// Inserts whose key was generated here, so that the key differs when the batch is made again.
    made_keys: Vec<usize>,
    /// See [`Batch::idempotency_key`].
    once: Option<String>,
    /// The place of the first write that was refused, and why.
    refused: Option<(usize, Error)>,
}

impl<'s> Batch<'s> {
    /// Returns the number of writes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Returns true if the batch has no writes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Adds an insert. The result sets what to do if the row exists, and can be used as the batch
    /// itself.
    pub fn insert<M: Model>(&mut self, model: &M) -> Added<'_, 's, M> {
        let (store, mut given, place) = (self.store, FieldSet::EMPTY, self.writes.len());
        if M::KEY_KIND == KeyKind::Uuid && model.key().is_unset() {
            self.made_keys.push(place);
        }
        let made = self.row_of(model, |table, row| {
            given = FieldSet::present(row);
            prepare::insert(table, row, ValueSource::Struct, store.stamp(table))
        });
        self.add(made.map(|(table, row)| Write::insert(table, row)));
        Added::new(self, given)
    }

    /// Adds an insert that updates the row if it exists, like [`Store::upsert`].
    pub fn upsert<M: Model>(&mut self, model: &M) -> Added<'_, 's, M> {
        self.insert(model).or_update()
    }

    /// Adds an update of every field.
    pub fn update<M: Model>(&mut self, model: &M) -> &mut Self {
        let key = model.key().borrow().to_value();
        let (store, mut version) = (self.store, None);
        let made = self.row_of(model, |table, row| {
            version = table.version().and_then(|field| row[field].as_int()).filter(|&v| v != 0);
            prepare::update(table, row, ValueSource::Struct, store.stamp(table))
        });
        self.add(made.map(|(table, row)| Write::Update { table, key, row, version }))
    }

    /// Adds a patch of the fields set with [`Patching::set`].
    pub fn patch<M: Model>(&mut self, key: impl Into<M::Key>) -> Patching<'_, 's, M> {
        self.add_patch::<M>(key.into().borrow().to_value());
        Patching::new(self)
    }

    /// Adds a patch of a row that an earlier insert of this batch makes.
    pub fn patch_new<M: Model>(&mut self, made: RowHandle<M>) -> Patching<'_, 's, M> {
        self.add_patch::<M>(Value::Absent);
        self.link(LinkAt::Key, made);
        Patching::new(self)
    }

    fn add_patch<M: Model>(&mut self, key: Value) {
        let place = self.writes.len();
        let made = self.store.registry().of::<M>().map(|table| {
            let row = vec![Value::Absent; table.fields().len()];
            Write::Update { table: Arc::clone(table), key, row, version: None }
        });
        self.add(made);
        self.patches.push(place);
    }

    /// Adds a delete of a row that an earlier insert of this batch makes.
    pub fn delete_made<M: Model>(&mut self, made: RowHandle<M>) -> &mut Self {
        let table = self.store.registry().of::<M>().cloned();
        let key = Value::Absent;
        self.add(table.map(|table| Write::Delete { table, key, version: None }));
        self.link(LinkAt::Key, made);
        self
    }

    /// Adds an increment of a row that an earlier insert of this batch makes.
    pub fn increment_made<M: Model, T: FieldValue>(
        &mut self,
        column: Column<M, T>,
        made: RowHandle<M>,
        by: impl Into<Value>,
    ) -> &mut Self {
        self.add_increment(column, Value::Absent, by.into());
        self.link(LinkAt::Key, made);
        self
    }

    /// Adds a delete.
    pub fn delete<M: Model>(&mut self, key: impl Into<M::Key>) -> &mut Self {
        let table = self.store.registry().of::<M>().cloned();
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
        self.add_increment(column, key.into().borrow().to_value(), by.into());
        self
    }

    fn add_increment<M: Model, T: FieldValue>(
        &mut self,
        column: Column<M, T>,
        key: Value,
        by: Value,
    ) {
        let store = self.store;
        let table = store.registry().of::<M>().cloned();
        let field = column.position();
        self.add(table.and_then(|table| {
            check_increment(&table, field, by.as_ref())?;
            let stamp = store.stamp(&table).value().to_value();
            Ok(Write::Increment { table, key, field, by, stamp })
        }));
    }

    /// Adds an insert of a record.
    pub fn insert_record(&mut self, record: &Record) -> Added<'_, 's> {
        self.insert_values(record.table(), record.values())
    }

    /// Adds an insert of a row given as values in the order of fields.
    pub fn insert_values(&mut self, table: &Arc<Table>, values: &[Value]) -> Added<'_, 's> {
        let mut row: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
        let given = FieldSet::present(&row);
        if table.key_kind() == KeyKind::Uuid && !given.contains(table.key()) {
            self.made_keys.push(self.writes.len());
        }
        let made = prepare::insert(table, &mut row, ValueSource::Values, self.store.stamp(table));
        let row = row.iter().map(ValueRef::to_value).collect();
        self.add(made.map(|()| Write::insert(Arc::clone(table), row)));
        Added::new(self, given)
    }

    /// Adds an update of the fields that have a value in a row given as values.
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
                |()| prepare::update(table, &mut row, ValueSource::Values, self.store.stamp(table)),
            );
        let row = row.iter().map(ValueRef::to_value).collect();
        let table = Arc::clone(table);
        self.add(made.map(|()| Write::Update { table, key, row, version }))
    }

    /// Adds a delete with the key as a value.
    pub fn delete_value(
        &mut self,
        table: Arc<Table>,
        key: Value,
        version: Option<i64>,
    ) -> &mut Self {
        let checked = check_key(&table, key.as_ref()).and_then(|()| check_version(&table, version));
        self.add(checked.map(|()| Write::Delete { table, key, version }))
    }

    /// Adds an increment with the key and the amount as values.
    pub fn increment_value(
        &mut self,
        table: Arc<Table>,
        key: Value,
        field: usize,
        by: Value,
    ) -> &mut Self {
        let checked = check_key(&table, key.as_ref())
            .and_then(|()| check_increment(&table, field, by.as_ref()));
        let stamp = self.store.stamp(&table).value().to_value();
        self.add(checked.map(|()| Write::Increment { table, key, field, by, stamp }))
    }

    /// Sets an idempotency key: a batch with this key is executed once. Its results are stored
    /// together with the writes. A batch of the same writes and the same key returns them without
    /// writing again, also after a crash. A batch that failed as a whole was not executed, and can
    /// be tried again.
    ///
    /// The store has to keep results ([`crate::StoreBuilder::idempotency`]). A different batch with
    /// the same key is refused as [`ErrorKind::Invalid`].
    pub fn idempotency_key(&mut self, key: impl Into<String>) -> &mut Self {
        self.once = Some(key.into());
        self
    }

    /// Returns a hash that is the same whenever the same batch is made again.
    fn fingerprint(&self, mode: BatchMode) -> Fingerprint {
        let mut print = Fingerprint::default();
        print.add(format!("{mode:?} {:?}", self.links).as_bytes());
        for (place, write) in self.writes.iter().enumerate() {
            let table = write.table();
            print.add(table.name().as_bytes());
            let stamps = [table.created_at(), table.updated_at()];
            let mut row_of = |row: &[Value], key_made: bool| {
                for (field, value) in row.iter().enumerate() {
                    let is_made = key_made && field == table.key();
                    if !is_made && !stamps.contains(&Some(field)) {
                        print.add_value(value.as_ref());
                    }
                }
            };
            match write {
                Write::Insert { row, on_conflict, .. } => {
                    row_of(row, self.made_keys.contains(&place));
                    print.add(format!("insert {on_conflict:?}").as_bytes());
                }
                Write::Update { key, row, version, .. } => {
                    row_of(row, false);
                    print.add(format!("update {version:?}").as_bytes());
                    print.add_value(key.as_ref());
                }
                Write::Increment { key, field, by, .. } => {
                    print.add(format!("increment {field}").as_bytes());
                    print.add_value(key.as_ref());
                    print.add_value(by.as_ref());
                }
                Write::Delete { key, version, .. } => {
                    print.add(format!("delete {version:?}").as_bytes());
                    print.add_value(key.as_ref());
                }
                Write::DeleteWhere { filter, .. } => {
                    print.add(format!("delete where {filter:?}").as_bytes());
                }
                // These are made when a batch is executed; they are never added to one.
                Write::Audited { .. } | Write::Compared { .. } | Write::Guarded { .. } => {}
            }
        }
        print
    }

    /// Executes all writes, or none if one fails. Returns the outcome of each.
    ///
    /// # Errors
    /// That of the failed write, with its place.
    pub fn all_or_nothing(self) -> Action<'s, Writes> {
        self.action(BatchMode::AllOrNothing)
    }

    /// Executes each write that can be executed, and returns the result of each.
    ///
    /// # Errors
    /// Only errors that concern the batch as a whole.
    pub fn continue_on_error(self) -> Action<'s, Writes> {
        self.action(BatchMode::Each)
    }

    fn action(self, mode: BatchMode) -> Action<'s, Writes> {
        let store = self.store;
        let key = self.once.clone().map(|key| OnceKey::new(key, &self.fingerprint(mode)));
        let made = self.into_writes().and_then(|made| Ok((made, key.transpose()?)));
        let ((writes, links), once, refused) = match made {
            Ok((made, once)) => (made, once, None),
            Err(error) => ((Vec::new(), Vec::new()), None, Some(error)),
        };
        let (results, answered) = (Vec::new(), None);
        Action::new(store, Writes { writes, links, refused, mode, once, results, answered })
    }

    /// Returns the checked writes and the links between them.
    pub(crate) fn into_writes(mut self) -> Result<(Vec<Write>, Vec<Link>)> {
        for place in std::mem::take(&mut self.patches) {
            if let Err(error) = self.check_patch(place) {
                self.refuse(place, &error);
            }
        }
        match self.refused {
            None => Ok((self.writes, self.links)),
            Some((_, error)) => Err(error),
        }
    }

    fn check_patch(&mut self, place: usize) -> Result<()> {
        let Some(Write::Update { table, row, version, .. }) = self.writes.get_mut(place) else {
            return Ok(());
        };
        check_version(table, *version)?;
        let mut values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        prepare::update(table, &mut values, ValueSource::Values, self.store.stamp(table))?;
        let ready = values.iter().map(ValueRef::to_value).collect();
        *row = ready;
        Ok(())
    }

    /// Records an error at a place, unless there is an earlier one.
    fn refuse(&mut self, place: usize, error: &Error) {
        if self.refused.as_ref().is_none_or(|(known, _)| place < *known) {
            self.refused = Some((place, error.at(format_args!("write {place}"))));
        }
    }

    fn row_of<M: Model>(
        &self,
        model: &M,
        prepare: impl for<'a> FnOnce(&'a Table, &mut [ValueRef<'a>]) -> Result<()>,
    ) -> Result<(Arc<Table>, Vec<Value>)> {
        let table = self.store.registry().of::<M>()?;
        let scratch = Scratch::new();
        let mut row = vec![ValueRef::Absent; table.fields().len()];
        model.write(&mut row, &scratch);
        prepare(table, &mut row)?;
        Ok((Arc::clone(table), row.iter().map(ValueRef::to_value).collect()))
    }

    fn add(&mut self, write: Result<Write>) -> &mut Self {
        match write {
            Ok(write) => self.writes.push(write),
            // The places of the following writes are wrong, but they are not executed.
            Err(error) if self.refused.is_none() => self.refuse(self.writes.len(), &error),
            Err(_) => {}
        }
        self
    }
}

#[cold]
fn of_another_batch() -> Error {
    let message = "it refers to a row that another batch inserts; run that batch first, and use the key of \
         the row";
    Error::new(ErrorKind::Invalid, message)
}

/// The verb of [`Batch::all_or_nothing`] and [`Batch::continue_on_error`].
pub struct Writes {
    writes: Vec<Write>,
    links: Vec<Link>,
    refused: Option<Error>,
    mode: BatchMode,
    once: Option<OnceKey>,
    results: Vec<Result<Outcome>>,
    answered: Option<Answered>,
}

impl Verb for Writes {
    type Output = Vec<Result<Outcome>>;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        if self.writes.is_empty() {
            return Ok(());
        }
        let Self { writes, links, mode, once, results, answered, .. } = self;
        let mut encode = |results: &[Result<Outcome>]| kept::encode(writes, results);
        let once = match once {
            Some(key) => Some(store.once(key, &mut encode, answered)?),
            None => None,
        };
        let mut operation = Operation::Batch { writes, links, mode: *mode, once, results };
        let called = call(&mut operation, &mut NoRows);
        // The error of the batch is that of the failed write. Here its place is added.
        match (called, results.last()) {
            (Err(_), Some(Err(failed))) if self.mode == BatchMode::AllOrNothing => {
                Err(failed.at(format_args!("write {}", results.len() - 1)))
            }
            (called, _) => called,
        }
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Vec<Result<Outcome>>> {
        if let Some(Answered { bytes, repeated: true }) = &self.answered {
            return kept::decode(bytes);
        }
        if self.results.len() == self.writes.len() {
            let mut results = std::mem::take(&mut self.results);
            for (write, result) in self.writes.iter().zip(&mut results) {
                // The row already had its key, which is returned like one that the engine
                // generated.
                if let (Write::Insert { table, row, .. }, Ok(outcome)) = (write, result)
                    && outcome.keys == Keys::Known
                {
                    outcome.keys = Keys::One(row[table.key()].clone());
                }
            }
            return Ok(results);
        }
        Err(Error::new(ErrorKind::Bug, "the engine did not return a result for a write of a batch"))
    }
}

impl Store {
    /// Returns an empty list of writes, for any tables, to be executed in one transaction.
    #[must_use]
    pub fn batch(&self) -> Batch<'_> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Batch {
            store: self,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            writes: Vec::new(),
            links: Vec::new(),
            patches: Vec::new(),
            made_keys: Vec::new(),
            once: None,
            refused: None,
        }
    }
}
