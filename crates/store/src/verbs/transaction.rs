//! Transactions and savepoints.
//!
//! [`Store::transaction`] runs a closure in a transaction, and again if it conflicts with others;
//! [`Store::begin`] returns a [`Transaction`] for code that awaits. What was written in a
//! transaction is visible to others once it is committed.

mod hooks;
mod pauses;

use std::ops::Deref;
use std::sync::Arc;

use marmota_model::{NoRows, Result, RowSink};

use self::hooks::{Hooks, TransactionStep};
use self::pauses::Pauses;
use crate::contract::operation::{Operation, Outcome};
use crate::store::Store;
use crate::verbs::action::{Action, Verb};

/// A transaction. It derefs to a [`Store`] whose operations run in the transaction, so every verb
/// works in it and sees its writes, and a function that takes `&Store` also takes a transaction. It
/// is rolled back unless [`Transaction::commit`] is executed.
///
/// A clone of that store, or one with another actor or rights, is a further handle to the same
/// transaction. When the `Transaction` is dropped, it ends for all of them: their operations fail
/// with [`marmota_model::ErrorKind::Invalid`]. [`Store::begin`] on a handle of a transaction fails
/// as well; set a [savepoint](Transaction::savepoint) instead.
///
/// ```
/// # use marmota_derive::Model;
/// # use marmota_memory::Memory;
/// # use marmota_store::Store;
/// # #[derive(Clone, Debug, PartialEq, Model)]
/// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
/// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
/// # let store = Store::builder(Memory::new()).model::<City>().open()?;
/// fn rename(store: &Store, id: i64, name: &str) -> marmota_model::Result<()> {
///     store.patch::<City>(id).set(City::NAME, name).run().map(drop)
/// }
///
/// let id = store.insert(&city("Avaricum", 0)).run()?;
/// let tx = store.begin_run()?;
/// rename(&tx, id, "Bourges")?; // in the transaction
/// tx.commit().run()?;
/// rename(&store, id, "Avaricum")?; // on the store
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[must_use = "a dropped transaction is rolled back"]
#[derive(Debug)]
pub struct Transaction {
    store: Store,
    savepoints: u32,
    hooks: Arc<Hooks>,
}

impl Deref for Transaction {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.store.end_transaction();
    }
}

/// A savepoint of a transaction: a place to which [`Transaction::rollback_to`] returns.
#[derive(Debug)]
pub struct Savepoint(u32);

/// The verb of [`Transaction::commit`], [`Transaction::rollback`] and the steps with savepoints.
pub struct Control(TransactionStep, Arc<Hooks>);

impl Verb for Control {
    type Output = ();

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let mut operation = match self.0 {
            TransactionStep::Commit => Operation::Commit,
            TransactionStep::Rollback => Operation::Rollback,
            TransactionStep::Savepoint(number) => Operation::Savepoint(number),
            TransactionStep::Release(number) => Operation::Release(number),
            TransactionStep::RollbackTo(number) => Operation::RollbackTo(number),
        };
        call(&mut operation, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<()> {
        self.1.step_succeeded(self.0);
        Ok(())
    }
}

/// The verb that opens a transaction.
struct Begin;

impl Verb for Begin {
    type Output = ();

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        call(&mut Operation::Begin, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<()> {
        Ok(())
    }
}

impl Store {
    /// Begins a transaction, and waits for its turn if another one is open.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// # marmota_store::action::block_on(async {
    /// let tx = store.begin().await?;
    /// tx.insert(&city("Bourges", 64_000)).await?;
    /// tx.commit().await?;
    /// assert_eq!(store.count::<City>().await?, 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// # })?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Busy`] if that took too long.
    pub async fn begin(&self) -> Result<Transaction> {
        let transaction = Transaction::detached(self)?;
        Action::new(&transaction, Begin).await?;
        Ok(transaction)
    }

    /// [`Store::begin`] for blocking callers.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let tx = store.begin_run()?;
    /// tx.insert(&city("Bourges", 64_000)).run()?;
    /// drop(tx); // rolls back
    /// assert_eq!(store.count::<City>().run()?, 0);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Store::begin`].
    pub fn begin_run(&self) -> Result<Transaction> {
        let transaction = Transaction::detached(self)?;
        Action::new(&transaction, Begin).run()?;
        Ok(transaction)
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
    pub fn transaction<T>(&self, mut work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut pauses = Pauses::begin();
        loop {
            let mut transaction = self.begin_run()?;
            let done = work(&mut transaction)
                .and_then(|result| transaction.commit().run().map(|()| result));
            drop(transaction);
            match done {
                Err(error) if error.is_retryable() && pauses.pause() => {}
                done => return done,
            }
        }
    }
}

impl Transaction {
    /// Creates a transaction with a separate session, in which no transaction has begun yet. It is
    /// for layers that submit operations themselves ([`Store::submit`]), of which the first
    /// is [`Operation::Begin`]. Other callers use
    /// [`Store::begin`].
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// use marmota_model::NoRows;
    /// use marmota_store::Transaction;
    /// use marmota_store::operation::Operation;
    ///
    /// let tx = Transaction::detached(&store)?;
    /// tx.run(&mut Operation::Begin, &mut NoRows)?;
    /// tx.insert(&city("Bourges", 64_000)).run()?;
    /// tx.commit().run()?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error if the engine cannot open a session.
    pub fn detached(store: &Store) -> Result<Self> {
        Ok(Self { store: store.for_transaction()?, savepoints: 0, hooks: Arc::default() })
    }

    /// Sets the actor of the following writes; see [`Store::with_actor`].
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let mut tx = store.begin_run()?;
    /// tx.act_as("ann"); // the history names her
    /// tx.insert(&city("Bourges", 64_000)).run()?;
    /// tx.commit().run()?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn act_as(&mut self, actor: impl Into<Arc<str>>) {
        self.store.set_actor(actor.into());
    }

    fn step(&self, step: TransactionStep) -> Action<'_, Control> {
        Action::new(&self.store, Control(step, Arc::clone(&self.hooks)))
    }

    /// Calls `hook` once [`Transaction::commit`] has succeeded, on the thread that finishes it; not
    /// if the transaction is rolled back, nor if it is rolled back to a savepoint that was set
    /// before. Hooks run in the order in which they were added. If it is unknown whether the commit
    /// took place ([`marmota_model::ErrorKind::Lost`], or a commit dropped while it waits), they
    /// are not called.
    ///
    /// Use it for effects outside of the store, such as a message: within the transaction they
    /// would be early, and wrong if the transaction runs again.
    ///
    /// ```
    /// # use marmota_model::{Kind, Field, Role, Schema, Record};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let fields = vec![Field::new("id", Kind::I64).role(Role::Key)];
    /// # let store = Store::builder(Memory::new()).schema(Schema::new("t", fields)).open()?;
    /// # let table = store.table("t")?;
    /// store.transaction(|tx| {
    ///     let key = tx.insert_record(&Record::new(table.clone())).run()?;
    ///     tx.after_commit(move || println!("inserted {key:?}"));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn after_commit(&self, hook: impl FnOnce() + Send + 'static) {
        self.hooks.add(self.savepoints, Box::new(hook));
    }

    /// Commits the transaction.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let tx = store.begin_run()?;
    /// tx.insert(&city("Bourges", 64_000)).run()?;
    /// tx.commit().run()?;
    /// assert_eq!(store.count::<City>().run()?, 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// The engine's error; then the transaction is rolled back.
    pub fn commit(&self) -> Action<'_, Control> {
        self.step(TransactionStep::Commit)
    }

    /// Rolls the transaction back, like dropping it.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let tx = store.begin_run()?;
    /// tx.insert(&city("Bourges", 64_000)).run()?;
    /// tx.rollback().run()?;
    /// assert_eq!(store.count::<City>().run()?, 0);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// The engine's error.
    pub fn rollback(&self) -> Action<'_, Control> {
        self.step(TransactionStep::Rollback)
    }

    /// Sets a savepoint.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// # marmota_store::action::block_on(async {
    /// let mut tx = store.begin().await?;
    /// let before = tx.savepoint().await?;
    /// tx.insert(&city("Bourges", 64_000)).await?;
    /// tx.rollback_to(&before).await?;
    /// tx.commit().await?;
    /// assert_eq!(store.count::<City>().await?, 0);
    /// # Ok::<(), marmota_model::Error>(())
    /// # })?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// The engine's error.
    pub async fn savepoint(&mut self) -> Result<Savepoint> {
        let savepoint = self.next_savepoint();
        self.step(TransactionStep::Savepoint(savepoint.0)).await?;
        Ok(savepoint)
    }

    /// [`Transaction::savepoint`] for blocking callers.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let mut tx = store.begin_run()?;
    /// tx.insert(&city("Bourges", 64_000)).run()?;
    /// let before = tx.savepoint_run()?;
    /// tx.insert(&city("Lyon", 520_000)).run()?;
    /// tx.rollback_to(&before).run()?;
    /// tx.commit().run()?;
    /// assert_eq!(store.count::<City>().run()?, 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// The engine's error.
    pub fn savepoint_run(&mut self) -> Result<Savepoint> {
        let savepoint = self.next_savepoint();
        self.step(TransactionStep::Savepoint(savepoint.0)).run()?;
        Ok(savepoint)
    }

    fn next_savepoint(&mut self) -> Savepoint {
        self.savepoints += 1;
        Savepoint(self.savepoints)
    }

    /// Undoes the writes since the savepoint, which can be used again.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let mut tx = store.begin_run()?;
    /// let before = tx.savepoint_run()?;
    /// for name in ["Bourges", "Lyon"] {
    ///     tx.insert(&city(name, 1)).run()?;
    ///     tx.rollback_to(&before).run()?;
    /// }
    /// assert_eq!(tx.count::<City>().run()?, 0);
    /// # tx.commit().run()?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// The engine's error.
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Action<'_, Control> {
        self.step(TransactionStep::RollbackTo(savepoint.0))
    }

    /// Removes the savepoint and keeps the writes since then.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let mut tx = store.begin_run()?;
    /// let before = tx.savepoint_run()?;
    /// tx.insert(&city("Bourges", 64_000)).run()?;
    /// tx.release(before).run()?;
    /// tx.commit().run()?;
    /// assert_eq!(store.count::<City>().run()?, 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// The engine's error.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a released savepoint must not be used again"
    )]
    pub fn release(&self, savepoint: Savepoint) -> Action<'_, Control> {
        self.step(TransactionStep::Release(savepoint.0))
    }
}
