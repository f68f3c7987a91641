//! Several writes, over any tables, in one call and one transaction.
//!
//! [`Store::batch`] returns an empty list. Writes are added to it, and checked as they are added;
//! then [`Batch::all_or_nothing`] or [`Batch::continue_on_error`] executes all of them in one
//! operation. Over a network a batch is one message. A write can refer to the row of an earlier
//! insert of the same batch by a [`RowHandle`], before its key is known.

mod added;
mod execute;
mod kept;
mod values;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use marmota_model::{
    Column, Error, ErrorKind, FieldSet, FieldValue, Key, KeyKind, Model, Result, Scratch, Table,
    Value, ValueRef,
};

pub use added::{Added, Patching, RefersTo, RowHandle};
pub use execute::Writes;

use crate::contract::operation::{Link, LinkAt, Write, complete_linked};
use crate::rows::prepare::{self, ValueSource};
use crate::store::Store;
use crate::verbs::write::{check_increment, check_version};

/// A list of writes, made by [`Store::batch`] and executed by [`Batch::all_or_nothing`] or
/// [`Batch::continue_on_error`].
///
/// Rows are checked as they are added. The first error is reported when the batch is executed,
/// before anything is written.
///
/// ```
/// # use marmota_derive::Model;
/// # use marmota_memory::Memory;
/// # use marmota_model::Ref;
/// # use marmota_store::Store;
/// # #[derive(Clone, Debug, PartialEq, Model)]
/// # struct City { id: i64, name: String, visits: i64 }
/// # #[derive(Clone, Debug, PartialEq, Model)]
/// # struct Street { id: i64, city: Ref<City>, name: String }
/// # let city = |name: &str| City { id: 0, name: name.to_owned(), visits: 0 };
/// # let street = |name: &str| Street { id: 0, city: Ref::new(0), name: name.to_owned() };
/// # let store = Store::builder(Memory::new()).model::<City>().model::<Street>().open()?;
/// let mut batch = store.batch();
/// let bourges = batch.insert(&city("Bourges")).handle();
/// batch.insert(&street("Rue Moyenne")).set_ref(Street::CITY, bourges);
/// let results = batch.all_or_nothing().run()?;
/// assert_eq!(results.len(), 2);
/// assert_eq!(store.get::<Street>(1).run()?.city, Ref::new(1));
/// # Ok::<(), marmota_model::Error>(())
/// ```
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
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::Ref;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, visits: i64 }
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Street { id: i64, city: Ref<City>, name: String }
    /// # let city = |name: &str| City { id: 0, name: name.to_owned(), visits: 0 };
    /// # let street = |name: &str| Street { id: 0, city: Ref::new(0), name: name.to_owned() };
    /// # let store = Store::builder(Memory::new()).model::<City>().model::<Street>().open()?;
    /// let mut batch = store.batch();
    /// batch.insert(&city("Bourges"));
    /// assert_eq!(batch.len(), 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Returns true if the batch has no writes.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::Ref;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, visits: i64 }
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Street { id: i64, city: Ref<City>, name: String }
    /// # let city = |name: &str| City { id: 0, name: name.to_owned(), visits: 0 };
    /// # let street = |name: &str| Street { id: 0, city: Ref::new(0), name: name.to_owned() };
    /// # let store = Store::builder(Memory::new()).model::<City>().model::<Street>().open()?;
    /// assert!(store.batch().is_empty());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Adds an insert. The result sets what to do if the row exists, and can be used as the batch
    /// itself.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::Ref;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, visits: i64 }
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Street { id: i64, city: Ref<City>, name: String }
    /// # let city = |name: &str| City { id: 0, name: name.to_owned(), visits: 0 };
    /// # let street = |name: &str| Street { id: 0, city: Ref::new(0), name: name.to_owned() };
    /// # let store = Store::builder(Memory::new()).model::<City>().model::<Street>().open()?;
    /// let mut batch = store.batch();
    /// batch.insert(&city("Bourges")).insert(&city("Lyon"));
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.count::<City>().run()?, 2);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn insert<M: Model>(&mut self, model: &M) -> Added<'_, 's, M> {
        let (store, mut given, place) = (self.store, FieldSet::EMPTY, self.writes.len());
        if M::KEY_KIND == KeyKind::Uuid && model.key().is_unset() {
            self.made_keys.push(place);
        }
        let made = self.row_of(model, |table, row, scratch| {
            given = FieldSet::present(row);
            prepare::insert(table, row, ValueSource::Struct, store.stamp(table), scratch)
        });
        self.add(made.map(|(table, row)| Write::insert(table, row)));
        Added::new(self, given)
    }

    /// Adds an insert that updates the row if it exists, like [`Store::upsert`].
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::Ref;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, visits: i64 }
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Street { id: i64, city: Ref<City>, name: String }
    /// # let city = |name: &str| City { id: 0, name: name.to_owned(), visits: 0 };
    /// # let street = |name: &str| Street { id: 0, city: Ref::new(0), name: name.to_owned() };
    /// # let store = Store::builder(Memory::new()).model::<City>().model::<Street>().open()?;
    /// let id = store.insert(&city("Bourges")).run()?;
    /// let mut batch = store.batch();
    /// batch.upsert(&City { id, ..city("Avaricum") });
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.get::<City>(id).run()?.name, "Avaricum");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn upsert<M: Model>(&mut self, model: &M) -> Added<'_, 's, M> {
        self.insert(model).or_update()
    }

    /// Adds an update of every field.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::Ref;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, visits: i64 }
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Street { id: i64, city: Ref<City>, name: String }
    /// # let city = |name: &str| City { id: 0, name: name.to_owned(), visits: 0 };
    /// # let street = |name: &str| Street { id: 0, city: Ref::new(0), name: name.to_owned() };
    /// # let store = Store::builder(Memory::new()).model::<City>().model::<Street>().open()?;
    /// let id = store.insert(&city("Bourges")).run()?;
    /// let mut batch = store.batch();
    /// batch.update(&City { id, ..city("Avaricum") });
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.get::<City>(id).run()?.name, "Avaricum");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn update<M: Model>(&mut self, model: &M) -> &mut Self {
        let key = model.key().borrow().to_value();
        let (store, mut version) = (self.store, None);
        let made = self.row_of(model, |table, row, scratch| {
            version = table.version().and_then(|field| row[field].as_int()).filter(|&v| v != 0);
            prepare::update(table, row, ValueSource::Struct, store.stamp(table), scratch)
        });
        self.add(made.map(|(table, row)| Write::Update { table, key, row, version }))
    }

    /// Adds a patch of the fields set with [`Patching::set`].
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::Ref;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, visits: i64 }
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Street { id: i64, city: Ref<City>, name: String }
    /// # let city = |name: &str| City { id: 0, name: name.to_owned(), visits: 0 };
    /// # let street = |name: &str| Street { id: 0, city: Ref::new(0), name: name.to_owned() };
    /// # let store = Store::builder(Memory::new()).model::<City>().model::<Street>().open()?;
    /// let id = store.insert(&city("Bourges")).run()?;
    /// let mut batch = store.batch();
    /// batch.patch::<City>(id).set(City::VISITS, 3);
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.get::<City>(id).run()?.visits, 3);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn patch<M: Model>(&mut self, key: impl Into<M::Key>) -> Patching<'_, 's, M> {
        self.add_patch::<M>(key.into().borrow().to_value());
        Patching::new(self)
    }

    /// Adds a patch of a row that an earlier insert of this batch makes.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::Ref;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, visits: i64 }
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Street { id: i64, city: Ref<City>, name: String }
    /// # let city = |name: &str| City { id: 0, name: name.to_owned(), visits: 0 };
    /// # let street = |name: &str| Street { id: 0, city: Ref::new(0), name: name.to_owned() };
    /// # let store = Store::builder(Memory::new()).model::<City>().model::<Street>().open()?;
    /// let mut batch = store.batch();
    /// let bourges = batch.insert(&city("Bourges")).handle();
    /// batch.patch_new(bourges).set(City::VISITS, 3);
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.get::<City>(1).run()?.visits, 3);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
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
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::Ref;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, visits: i64 }
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Street { id: i64, city: Ref<City>, name: String }
    /// # let city = |name: &str| City { id: 0, name: name.to_owned(), visits: 0 };
    /// # let street = |name: &str| Street { id: 0, city: Ref::new(0), name: name.to_owned() };
    /// # let store = Store::builder(Memory::new()).model::<City>().model::<Street>().open()?;
    /// let mut batch = store.batch();
    /// let draft = batch.insert(&city("Bourges")).handle();
    /// batch.delete_made(draft);
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.count::<City>().run()?, 0);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn delete_made<M: Model>(&mut self, made: RowHandle<M>) -> &mut Self {
        let table = self.store.registry().of::<M>().cloned();
        let key = Value::Absent;
        self.add(table.map(|table| Write::Delete { table, key, version: None }));
        self.link(LinkAt::Key, made);
        self
    }

    /// Adds an increment of a row that an earlier insert of this batch makes.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::Ref;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, visits: i64 }
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Street { id: i64, city: Ref<City>, name: String }
    /// # let city = |name: &str| City { id: 0, name: name.to_owned(), visits: 0 };
    /// # let street = |name: &str| Street { id: 0, city: Ref::new(0), name: name.to_owned() };
    /// # let store = Store::builder(Memory::new()).model::<City>().model::<Street>().open()?;
    /// let mut batch = store.batch();
    /// let bourges = batch.insert(&city("Bourges")).handle();
    /// batch.increment_made(City::VISITS, bourges, 2);
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.get::<City>(1).run()?.visits, 2);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
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
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::Ref;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, visits: i64 }
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Street { id: i64, city: Ref<City>, name: String }
    /// # let city = |name: &str| City { id: 0, name: name.to_owned(), visits: 0 };
    /// # let street = |name: &str| Street { id: 0, city: Ref::new(0), name: name.to_owned() };
    /// # let store = Store::builder(Memory::new()).model::<City>().model::<Street>().open()?;
    /// let id = store.insert(&city("Bourges")).run()?;
    /// let mut batch = store.batch();
    /// batch.delete::<City>(id);
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.count::<City>().run()?, 0);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn delete<M: Model>(&mut self, key: impl Into<M::Key>) -> &mut Self {
        let table = self.store.registry().of::<M>().cloned();
        let key = key.into().borrow().to_value();
        self.add(table.map(|table| Write::Delete { table, key, version: None }))
    }

    /// Adds an increment.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::Ref;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, visits: i64 }
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Street { id: i64, city: Ref<City>, name: String }
    /// # let city = |name: &str| City { id: 0, name: name.to_owned(), visits: 0 };
    /// # let street = |name: &str| Street { id: 0, city: Ref::new(0), name: name.to_owned() };
    /// # let store = Store::builder(Memory::new()).model::<City>().model::<Street>().open()?;
    /// let id = store.insert(&city("Bourges")).run()?;
    /// let mut batch = store.batch();
    /// batch.increment(City::VISITS, id, 2).increment(City::VISITS, id, 1);
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.get::<City>(id).run()?.visits, 3);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
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
        let scratch = Scratch::new();
        let mut values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        let (stamp, mut violations) = (self.store.stamp(table), Vec::new());
        let origin = ValueSource::Values;
        prepare::update_into(table, &mut values, origin, stamp, &scratch, &mut violations);
        let links: Vec<Link> =
            self.links.iter().filter(|link| link.write == place).copied().collect();
        complete_linked(table, &links, &mut values, &mut violations);
        prepare::finish(violations)?;
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
        prepare: impl for<'a> FnOnce(&'a Table, &mut [ValueRef<'a>], &'a Scratch) -> Result<()>,
    ) -> Result<(Arc<Table>, Vec<Value>)> {
        let table = self.store.registry().of::<M>()?;
        let scratch = Scratch::new();
        let mut row = vec![ValueRef::Absent; table.fields().len()];
        model.write(&mut row, &scratch);
        prepare(table, &mut row, &scratch)?;
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

impl Store {
    /// Returns an empty list of writes, for any tables, to be executed in one transaction.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::Ref;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, visits: i64 }
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Street { id: i64, city: Ref<City>, name: String }
    /// # let city = |name: &str| City { id: 0, name: name.to_owned(), visits: 0 };
    /// # let street = |name: &str| Street { id: 0, city: Ref::new(0), name: name.to_owned() };
    /// # let store = Store::builder(Memory::new()).model::<City>().model::<Street>().open()?;
    /// let mut batch = store.batch();
    /// batch.insert(&city("Bourges")).insert(&city("Lyon"));
    /// let results = batch.all_or_nothing().run()?;
    /// assert!(results.iter().all(|result| result.is_ok()));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
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
