//! A write that was just added to a batch, and its options.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use marmota_model::{
    Column, Comparable, FieldSet, FieldValue, Model, Record, Ref, Result, Table, Value,
};

use super::Batch;
use crate::contract::operation::{Link, LinkAt, OnConflict, Write};

/// An insert that was just added to a [`Batch`]. It can be used as the batch, to add the next
/// write. `M` is the model, or [`Record`] for a row of values.
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
/// // The result of `insert` can be used as the batch.
/// batch.insert(&city("Bourges")).or_ignore().insert(&city("Lyon"));
/// batch.all_or_nothing().run()?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub struct Added<'b, 's, M = Record> {
    batch: &'b mut Batch<'s>,
    /// The fields for which the caller gave a value.
    given: FieldSet,
    model: PhantomData<fn() -> M>,
}

/// A handle of the row that an insert of a batch makes, or that exists already. Later writes of the
/// same batch can refer to the row before its key is known.
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
/// for name in ["Rue Moyenne", "Rue Bourbonnoux"] {
///     batch.insert(&street(name)).set_ref(Street::CITY, bourges);
/// }
/// batch.all_or_nothing().run()?;
/// assert_eq!(store.count::<Street>().filter(Street::CITY.eq(Ref::new(1))).run()?, 2);
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub struct RowHandle<M> {
    batch: u64,
    place: usize,
    model: PhantomData<fn() -> M>,
}

impl<M> Clone for RowHandle<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for RowHandle<M> {}

impl<M> std::fmt::Debug for RowHandle<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the row of write {}", self.place)
    }
}

impl<M> RowHandle<M> {
    pub(super) const fn batch(&self) -> u64 {
        self.batch
    }

    pub(super) const fn place(&self) -> usize {
        self.place
    }
}

/// A field that refers to rows of `T`: a [`Ref`], optional or not.
pub trait RefersTo<T: Model>: FieldValue {}

impl<T: Model> RefersTo<T> for Ref<T> {}
impl<T: Model> RefersTo<T> for Option<Ref<T>> {}

impl<'b, 's, M> Added<'b, 's, M> {
    pub(super) const fn new(batch: &'b mut Batch<'s>, given: FieldSet) -> Self {
        Self { batch, given, model: PhantomData }
    }

    /// Leaves an existing row as it is: [`OnConflict::Ignore`].
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
    /// batch.insert(&City { id, ..city("Avaricum") }).or_ignore();
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.get::<City>(id).run()?.name, "Bourges");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn or_ignore(self) -> Self {
        self.over(OnConflict::Ignore)
    }

    /// Replaces the conflicting rows by this row: [`OnConflict::Replace`].
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
    /// batch.insert(&City { id, ..city("Avaricum") }).or_replace();
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.get::<City>(id).run()?.name, "Avaricum");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn or_replace(self) -> Self {
        self.over(OnConflict::Replace)
    }

    /// Writes this row over the existing one: [`OnConflict::Update`].
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
    /// batch.insert(&City { id, ..city("Avaricum") }).or_update();
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.get::<City>(id).run()?.name, "Avaricum");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn or_update(self) -> Self {
        self.over(OnConflict::UPDATE)
    }

    fn over(self, way: OnConflict) -> Self {
        // A batch that has refused a write is not executed.
        if self.batch.refused.is_none()
            && let Some(Write::Insert { table, on_conflict, .. }) = self.batch.writes.last_mut()
        {
            *on_conflict = way.with_given(table, self.given);
        }
        self
    }

    /// Returns a handle of the row that it makes, or that exists, for later writes to refer to.
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
    /// batch.increment_made(City::VISITS, bourges, 1);
    /// batch.all_or_nothing().run()?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn handle(&self) -> RowHandle<M> {
        let (batch, place) = (self.batch.number, self.batch.len().saturating_sub(1));
        RowHandle { batch, place, model: PhantomData }
    }
}

impl<M: Model> Added<'_, '_, M> {
    /// Sets a reference to a row that an earlier write of the batch makes. The value of that field
    /// in the struct is ignored. For a reference to a composite key, these are the fields that it is
    /// computed of.
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
    /// batch.all_or_nothing().run()?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn set_ref<T: Model>(self, column: Column<M, impl RefersTo<T>>, to: RowHandle<T>) -> Self {
        self.batch.link(LinkAt::Field(column.position()), to);
        self
    }
}

impl Added<'_, '_, Record> {
    /// [`Added::set_ref`] for a row of values, which has to have some value in each field that is set.
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
    /// use marmota_model::Record;
    /// let (cities, streets) = (store.table("city")?, store.table("street")?);
    /// let (mut bourges, mut street) = (Record::new(cities), Record::new(streets));
    /// bourges.set("name", "Bourges")?;
    /// bourges.set("visits", 0)?;
    /// street.set("name", "Rue Moyenne")?;
    /// street.set("city", 1)?;
    /// let mut batch = store.batch();
    /// let bourges = batch.insert_record(&bourges).handle();
    /// batch.insert_record(&street).set_ref_at(1, bourges);
    /// batch.all_or_nothing().run()?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn set_ref_at(self, field: usize, to: RowHandle<Record>) -> Self {
        self.batch.link(LinkAt::Field(field), to);
        self
    }
}

impl<'s, M> Deref for Added<'_, 's, M> {
    type Target = Batch<'s>;

    fn deref(&self) -> &Batch<'s> {
        self.batch
    }
}

impl<'s, M> DerefMut for Added<'_, 's, M> {
    fn deref_mut(&mut self) -> &mut Batch<'s> {
        self.batch
    }
}

/// A patch that was just added to a [`Batch`]. It can be used as the batch, to add the next write.
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
/// batch.patch::<City>(id).set(City::NAME, "Avaricum").set(City::VISITS, 1).delete::<Street>(1);
/// assert_eq!(batch.len(), 2);
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub struct Patching<'b, 's, M> {
    batch: &'b mut Batch<'s>,
    model: PhantomData<fn() -> M>,
}

impl<'b, 's, M: Model> Patching<'b, 's, M> {
    pub(super) const fn new(batch: &'b mut Batch<'s>) -> Self {
        Self { batch, model: PhantomData }
    }

    /// Adds a field to the patch.
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
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn set<T: FieldValue>(self, column: Column<M, T>, value: impl Comparable<T>) -> Self {
        if self.batch.refused.is_none()
            && let Some(Write::Update { row, .. }) = self.batch.writes.last_mut()
        {
            row[column.position()] = value.into_value();
        }
        self
    }

    /// Makes the write fail with [`marmota_model::ErrorKind::Stale`] unless this is the row's
    /// version.
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
    /// // City has no version field.
    /// batch.patch::<City>(1).set(City::VISITS, 3).version(2);
    /// assert!(batch.all_or_nothing().run().is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn version(self, expected: i64) -> Self {
        if self.batch.refused.is_none()
            && let Some(Write::Update { version, .. }) = self.batch.writes.last_mut()
        {
            *version = Some(expected);
        }
        self
    }

    /// Sets a reference to a row that an earlier write of the batch makes.
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
    /// store.insert(&city("Lyon")).run()?;
    /// store.insert(&Street { city: Ref::new(1), ..street("Rue Moyenne") }).run()?;
    /// let mut batch = store.batch();
    /// let bourges = batch.insert(&city("Bourges")).handle();
    /// batch.patch::<Street>(1).set_ref(Street::CITY, bourges);
    /// batch.all_or_nothing().run()?;
    /// assert_eq!(store.get::<Street>(1).run()?.city, Ref::new(2));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn set_ref<T: Model>(self, column: Column<M, impl RefersTo<T>>, to: RowHandle<T>) -> Self {
        self.batch.link(LinkAt::Field(column.position()), to);
        self
    }
}

impl<'s, M> Deref for Patching<'_, 's, M> {
    type Target = Batch<'s>;

    fn deref(&self) -> &Batch<'s> {
        self.batch
    }
}

impl<'s, M> DerefMut for Patching<'_, 's, M> {
    fn deref_mut(&mut self) -> &mut Batch<'s> {
        self.batch
    }
}

impl Batch<'_> {
    /// Records that the last write takes a key that an earlier one makes.
    pub(super) fn link<T>(&mut self, at: LinkAt, to: RowHandle<T>) {
        if self.refused.is_some() {
            return;
        }
        let checked = self.checked_link(at, to);
        match checked {
            Ok(link) => {
                self.links.push(link);
                self.reserve(at);
            }
            Err(error) => self.refuse(self.writes.len().saturating_sub(1), &error),
        }
    }

    /// Gives the fields that a link sets some value, if they have none, so that the steps of the
    /// write can be planned. A key that is made of them is removed.
    fn reserve(&mut self, at: LinkAt) {
        let Some(Write::Insert { table, row, .. } | Write::Update { table, row, .. }) =
            self.writes.last_mut()
        else {
            return;
        };
        at.reserve(table, |field, value| {
            if row[field] == Value::Absent || field == table.key() {
                row[field] = value.to_value();
            }
        });
    }

    fn checked_link<T>(&self, at: LinkAt, to: RowHandle<T>) -> Result<Link> {
        let Some((last, before)) = self.writes.split_last() else {
            return Err(super::of_another_batch());
        };
        if to.batch() != self.number {
            return Err(super::of_another_batch());
        }
        let link = Link { write: before.len(), at, result: to.place() };
        let table: &Table = last.table();
        link.check(table, before).map(|()| link)
    }
}
