//! The verb that reads the history of a row.

use marmota_model::{Key, Model};

use crate::rows::history::{History, of_row};
use crate::store::Store;
use crate::verbs::action::Action;
use crate::verbs::read::ListModels;

impl Store {
    /// Lists the history of the row with this key, from the first write to the last. The row of the
    /// audited model may have been deleted.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// #[derive(Clone, Debug, PartialEq, Model)]
    /// #[model(audit)]
    /// struct City {
    ///     id: i64,
    ///     name: String,
    /// }
    ///
    /// let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let ann = store.with_actor("ann");
    /// let id = ann.insert(&City { id: 0, name: "Avaricum".to_owned() }).run()?;
    /// ann.patch::<City>(id).set(City::NAME, "Bourges").run()?;
    /// let entries = store.history::<City>(id).run()?;
    /// assert_eq!(entries.len(), 2);
    /// assert_eq!(entries[1].actor.as_deref(), Some("ann"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::NotFound`] if no model of the store is audited.
    pub fn history<M: Model>(&self, key: impl Into<M::Key>) -> Action<'_, ListModels<History>> {
        let key = key.into();
        self.list::<History>().filter(of_row(M::schema(), key.borrow()))
    }
}
