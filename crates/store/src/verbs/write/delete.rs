//! The verbs that delete rows of a model.

use std::marker::PhantomData;

use marmota_model::{Filter, FilterExpr, Key, Model, NoRows, Result};

use super::check::check_version;
use super::row::Call;
use crate::contract::operation::{Operation, Outcome};
use crate::store::Store;
use crate::verbs::action::{Action, Verb};

/// The verb of [`Store::delete`].
pub struct Delete<M: Model> {
    key: M::Key,
    version: Option<i64>,
}

impl<M: Model> Unpin for Delete<M> {}

impl<M: Model> Verb for Delete<M> {
    type Output = ();

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = store.registry().of::<M>()?;
        let (key, version) = (self.key.borrow(), self.version);
        check_version(table, version)?;
        call(&mut Operation::Delete { table, key, version }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<()> {
        Ok(())
    }
}

impl<M: Model> Action<'_, Delete<M>> {
    /// Makes the delete fail with [`ErrorKind::Stale`](marmota_model::ErrorKind::Stale) unless this
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
    /// let late = store.delete::<Page>(id).version(7).run();
    /// assert_eq!(late.unwrap_err().kind(), ErrorKind::Stale);
    /// store.delete::<Page>(id).version(1).run()?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn version(mut self, version: i64) -> Self {
        self.verb.version = Some(version);
        self
    }
}

/// The verb of [`Store::delete_where`]; its result is the number of rows.
pub struct DeleteWhere<M> {
    filter: FilterExpr,
    model: PhantomData<fn() -> M>,
}

impl<M: Model> Verb for DeleteWhere<M> {
    type Output = u64;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = store.registry().of::<M>()?;
        self.filter.check(table)?;
        call(&mut Operation::DeleteWhere { table, filter: Some(&self.filter) }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, outcome: &mut Outcome) -> Result<u64> {
        Ok(outcome.rows)
    }
}

impl Store {
    /// Deletes the row with this key.
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
    /// store.delete::<City>(id).run()?;
    /// assert!(store.delete::<City>(id).run().is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](marmota_model::ErrorKind::NotFound);
    /// [`ErrorKind::Conflict`](marmota_model::ErrorKind::Conflict) if a row refers to it.
    pub fn delete<M: Model>(&self, key: impl Into<M::Key>) -> Action<'_, Delete<M>> {
        Action::new(self, Delete { key: key.into(), version: None })
    }

    /// Deletes the rows that match a filter and returns their number.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// store.insert_many(&[city("Bourges", 64_000), city("Lyon", 520_000)]).run()?;
    /// assert_eq!(store.delete_where(City::PEOPLE.lt(100_000)).run()?, 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`](marmota_model::ErrorKind::Conflict) if a row refers to one of them;
    /// then none is deleted.
    pub fn delete_where<M: Model>(&self, filter: Filter<M>) -> Action<'_, DeleteWhere<M>> {
        Action::new(self, DeleteWhere { filter: filter.into_expr(), model: PhantomData })
    }
}
