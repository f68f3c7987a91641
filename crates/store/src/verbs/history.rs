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
    /// # Errors
    /// [`marmota_model::ErrorKind::NotFound`] if no model of the store is audited.
    pub fn history<M: Model>(&self, key: impl Into<M::Key>) -> Action<'_, ListModels<History>> {
        let key = key.into();
        self.list::<History>().filter(of_row(M::schema(), key.borrow()))
    }
}
