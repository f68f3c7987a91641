//! The verbs that write to existing rows of a model.

use marmota_model::{
    Column, Comparable, FieldValue, Key, Model, NoRows, Result, Scratch, Table, Value, ValueRef,
};

use super::check::{check_increment, check_version};
use super::row::{Call, RowBuffer, Structs, lost_key};
use crate::contract::operation::{Operation, Outcome};
use crate::rows::prepare::{self, ValueSource};
use crate::store::Store;
use crate::verbs::action::{Action, Verb};

/// Returns the version that a struct was read with; `None` for 0, which no stored row has.
fn version_of(table: &Table, row: &[ValueRef<'_>]) -> Option<i64> {
    row[table.version()?].as_int().filter(|&version| version != 0)
}

/// The verb of [`Store::update`]; its result is the row's new version.
pub struct Update<'m, M> {
    model: &'m M,
}

impl<M: Model> Verb for Update<'_, M> {
    type Output = i64;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = store.registry().of::<M>()?;
        let scratch = Scratch::new();
        let mut buffer = RowBuffer::new();
        let row = buffer.row(table);
        self.model.write(row, &scratch);
        let version = version_of(table, row);
        prepare::update(table, row, ValueSource::Struct, store.stamp(table), &scratch)?;
        let key = self.model.key().borrow();
        call(&mut Operation::Update { table, key, row, version }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<i64> {
        Ok(outcome.version.unwrap_or(0))
    }
}

/// The verb of [`Store::update_many`]; its result is the number of rows.
pub struct UpdateMany<'m, M> {
    models: &'m [M],
}

impl<M: Model> Verb for UpdateMany<'_, M> {
    type Output = u64;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        if self.models.is_empty() {
            return Ok(());
        }
        let table = store.registry().of::<M>()?;
        let scratch = Scratch::new();
        let mut rows = Structs {
            table,
            models: self.models.iter(),
            scratch: &scratch,
            stamp: store.stamp(table),
            updates: true,
            given: None,
            index: 0,
            keys: None,
        };
        call(&mut Operation::UpdateMany { table, rows: &mut rows }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<u64> {
        Ok(outcome.rows)
    }
}

/// The verb of [`Store::patch`]: it writes the fields that [`Action::set`] names.
pub struct Patch<M: Model> {
    key: M::Key,
    values: Vec<(usize, Value)>,
    version: Option<i64>,
}

impl<M: Model> Unpin for Patch<M> {}

impl<M: Model> Verb for Patch<M> {
    type Output = i64;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = store.registry().of::<M>()?;
        let scratch = Scratch::new();
        let mut buffer = RowBuffer::new();
        let row = buffer.row(table);
        for (position, value) in &self.values {
            row[*position] = value.as_ref();
        }
        prepare::update(table, row, ValueSource::Values, store.stamp(table), &scratch)?;
        let (key, version) = (self.key.borrow(), self.version);
        check_version(table, version)?;
        call(&mut Operation::Update { table, key, row, version }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<i64> {
        Ok(outcome.version.unwrap_or(0))
    }
}

impl<M: Model> Action<'_, Patch<M>> {
    /// Adds a field to the patch.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let id = store.insert(&city("Bourges", 64_000)).run()?;
    /// store.patch::<City>(id).set(City::NAME, "Avaricum").set(City::PEOPLE, 40_000).run()?;
    /// assert_eq!(store.get::<City>(id).run()?.name, "Avaricum");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn set<T: FieldValue>(mut self, column: Column<M, T>, value: impl Comparable<T>) -> Self {
        self.verb.values.push((column.position(), value.into_value()));
        self
    }

    /// Makes the write fail with [`ErrorKind::Stale`](marmota_model::ErrorKind::Stale) unless this
    /// is the row's version.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::ErrorKind;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Page { id: i64, text: String, #[model(version)] version: i64 }
    /// # let page = |text: &str| Page { id: 0, text: text.to_owned(), version: 0 };
    /// # let store = Store::builder(Memory::new()).model::<Page>().open()?;
    /// let id = store.insert(&page("first")).run()?;
    /// store.patch::<Page>(id).set(Page::TEXT, "second").version(1).run()?;
    /// let late = store.patch::<Page>(id).set(Page::TEXT, "third").version(1).run();
    /// assert_eq!(late.unwrap_err().kind(), ErrorKind::Stale);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn version(mut self, version: i64) -> Self {
        self.verb.version = Some(version);
        self
    }
}

/// The verb of [`Store::increment`]; its result is the sum.
pub struct Increment<M: Model, T> {
    key: M::Key,
    column: Column<M, T>,
    by: Value,
}

impl<M: Model, T> Unpin for Increment<M, T> {}

impl<M: Model, T: FieldValue> Verb for Increment<M, T> {
    type Output = T;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = store.registry().of::<M>()?;
        let (key, by) = (self.key.borrow(), self.by.as_ref());
        let field = self.column.position();
        let stamp = store.stamp(table).value();
        check_increment(table, field, by)?;
        call(&mut Operation::Increment { table, key, field, by, stamp }, &mut NoRows)
    }

    fn finish(&mut self, store: &Store, outcome: &mut Outcome) -> Result<T> {
        match T::from_row(outcome.value.as_ref()) {
            Some(sum) => Ok(sum),
            None => Err(lost_key(store.registry().of::<M>()?)),
        }
    }
}

impl Store {
    /// Writes every field of a stored row and returns its new version (0 for a model without one).
    /// A blob that was not read is unchanged.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::ErrorKind;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Page { id: i64, text: String, #[model(version)] version: i64 }
    /// # let page = |text: &str| Page { id: 0, text: text.to_owned(), version: 0 };
    /// # let store = Store::builder(Memory::new()).model::<Page>().open()?;
    /// let id = store.insert(&page("first")).run()?;
    /// let read = store.get::<Page>(id).run()?;
    /// assert_eq!(store.update(&Page { text: "second".to_owned(), ..read.clone() }).run()?, 2);
    /// // It was written to since `read` was read.
    /// assert_eq!(store.update(&read).run().unwrap_err().kind(), ErrorKind::Stale);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](marmota_model::ErrorKind::NotFound);
    /// [`ErrorKind::Stale`](marmota_model::ErrorKind::Stale) if the model has a version and the row
    /// was written to since it was read.
    pub fn update<'s, 'm, M: Model>(&'s self, model: &'m M) -> Action<'s, Update<'m, M>> {
        Action::new(self, Update { model })
    }

    /// Writes every field of stored rows, all or none, without comparing versions.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let id = store.insert(&city("Bourges", 64_000)).run()?;
    /// let moved = City { id, people: 65_000, ..city("Bourges", 0) };
    /// assert_eq!(store.update_many(&[moved]).run()?, 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Store::update`].
    pub fn update_many<'s, 'm, M: Model>(
        &'s self,
        models: &'m [M],
    ) -> Action<'s, UpdateMany<'m, M>> {
        Action::new(self, UpdateMany { models })
    }

    /// Writes the fields set with [`Action::set`] and returns the new version.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let id = store.insert(&city("Bourges", 64_000)).run()?;
    /// store.patch::<City>(id).set(City::PEOPLE, 65_000).run()?;
    /// assert_eq!(store.get::<City>(id).run()?.people, 65_000);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Store::update`].
    pub fn patch<M: Model>(&self, key: impl Into<M::Key>) -> Action<'_, Patch<M>> {
        Action::new(self, Patch { key: key.into(), values: Vec::new(), version: None })
    }

    /// Adds to an integer or currency field, atomically, and returns the sum.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let id = store.insert(&city("Bourges", 64_000)).run()?;
    /// assert_eq!(store.increment(City::PEOPLE, id, 500).run()?, 64_500);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](marmota_model::ErrorKind::NotFound);
    /// [`ErrorKind::Invalid`](marmota_model::ErrorKind::Invalid) if the sum is out of the field's
    /// range.
    pub fn increment<M: Model, T: FieldValue>(
        &self,
        column: Column<M, T>,
        key: impl Into<M::Key>,
        by: impl Into<Value>,
    ) -> Action<'_, Increment<M, T>> {
        Action::new(self, Increment { key: key.into(), column, by: by.into() })
    }
}
