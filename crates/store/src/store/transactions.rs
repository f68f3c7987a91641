//! Transactions of a store.

use marmota_model::Result;

use super::Store;
use crate::verbs::transaction::Transaction;

impl Store {
    /// Begins a transaction, and waits for its turn if another one is open.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Busy`] if that took too long.
    pub async fn begin(&self) -> Result<Transaction> {
        Transaction::begin(self).await
    }

    /// [`Store::begin`] for blocking callers.
    ///
    /// # Errors
    /// Those of [`Store::begin`].
    pub fn begin_run(&self) -> Result<Transaction> {
        Transaction::begin_run(self)
    }

    /// Runs `work` in a transaction, which is committed if `work` returns `Ok`, and rolled back if
    /// it returns an error or panics.
    ///
    /// **`work` may run more than once.** Some engines run transactions concurrently and refuse one
    /// of two that conflict. Then nothing of it was done, and `work` runs again from its beginning,
    /// after a pause. So it should only use the store, and discard data that it has read in an
    /// earlier run.
    ///
    /// ```
    /// # use marmota_model::{Kind, Field, Role, Schema, Record};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let fields = vec![Field::new("id", Kind::I64).role(Role::Key)];
    /// # let store = Store::builder(Memory::new()).schema(Schema::new("t", fields)).open()?;
    /// let table = store.table("t")?;
    /// let key = store.transaction(|own| own.insert_record(&Record::new(table.clone())).run())?;
    /// assert!(store.get_record(&table, key).run().is_ok());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `work` or the engine; [`marmota_model::ErrorKind::Conflict`] if it conflicted with
    /// others too many times ([`is_retryable`](marmota_model::Error::is_retryable)).
    pub fn transaction<T>(&self, work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        Transaction::run_work(self, work)
    }
}

impl Transaction {
    /// Creates a transaction with a separate session, in which no transaction has begun yet. It is
    /// for layers that submit operations themselves ([`crate::Scope::submit`]), of which the first
    /// is [`Operation::Begin`](crate::operation::Operation::Begin). Other callers use
    /// [`Store::begin`].
    ///
    /// # Errors
    /// An error if the engine cannot open a session.
    pub fn detached(store: &Store) -> Result<Self> {
        Self::new(store)
    }
}
