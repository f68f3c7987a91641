//! Transactions and savepoints.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use marmota_model::{NoRows, Result, RowSink};
use parking_lot::Mutex;

use crate::contract::operation::{Operation, Outcome};
use crate::runtime::backoff::Backoff;
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
#[must_use = "a dropped transaction is rolled back"]
#[derive(Debug)]
pub struct Transaction {
    store: Store,
    savepoints: u32,
    hooks: Arc<Hooks>,
}

/// The hooks of [`Transaction::after_commit`], each with the number of savepoints set before.
#[derive(Default)]
struct Hooks(Mutex<Vec<(u32, Hook)>>);

type Hook = Box<dyn FnOnce() + Send>;

impl Hooks {
    fn step_succeeded(&self, step: Step) {
        match step {
            Step::Commit => {
                // The hooks are moved out first, so that a slow hook does not hold the lock.
                let hooks = std::mem::take(&mut *self.0.lock());
                hooks.into_iter().for_each(|(_, hook)| hook());
            }
            Step::RollbackTo(number) => self.0.lock().retain(|(before, _)| *before < number),
            Step::Rollback => self.0.lock().clear(),
            Step::Savepoint(_) | Step::Release(_) => {}
        }
    }
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} hooks", self.0.lock().len())
    }
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

/// A savepoint of a transaction.
#[derive(Debug)]
pub struct Savepoint(u32);

#[derive(Clone, Copy)]
enum Step {
    Commit,
    Rollback,
    Savepoint(u32),
    Release(u32),
    RollbackTo(u32),
}

/// The verb of commits, rollbacks and savepoints.
pub struct Control(Step, Arc<Hooks>);

impl Verb for Control {
    type Output = ();

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let mut operation = match self.0 {
            Step::Commit => Operation::Commit,
            Step::Rollback => Operation::Rollback,
            Step::Savepoint(number) => Operation::Savepoint(number),
            Step::Release(number) => Operation::Release(number),
            Step::RollbackTo(number) => Operation::RollbackTo(number),
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
    /// # Errors
    /// [`marmota_model::ErrorKind::Busy`] if that took too long.
    pub async fn begin(&self) -> Result<Transaction> {
        let transaction = Transaction::detached(self)?;
        Action::new(&transaction, Begin).await?;
        Ok(transaction)
    }

    /// [`Store::begin`] for blocking callers.
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
    /// is [`Operation::Begin`](crate::operation::Operation::Begin). Other callers use
    /// [`Store::begin`].
    ///
    /// # Errors
    /// An error if the engine cannot open a session.
    pub fn detached(store: &Store) -> Result<Self> {
        Ok(Self { store: store.for_transaction()?, savepoints: 0, hooks: Arc::default() })
    }

    /// Sets the actor of the following writes; see [`Store::with_actor`].
    pub fn act_as(&mut self, actor: impl Into<Arc<str>>) {
        self.store.set_actor(actor.into());
    }

    fn step(&self, step: Step) -> Action<'_, Control> {
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
        self.hooks.0.lock().push((self.savepoints, Box::new(hook)));
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// The engine's error; then the transaction is rolled back.
    pub fn commit(&self) -> Action<'_, Control> {
        self.step(Step::Commit)
    }

    /// Rolls the transaction back, like dropping it.
    ///
    /// # Errors
    /// The engine's error.
    pub fn rollback(&self) -> Action<'_, Control> {
        self.step(Step::Rollback)
    }

    /// Sets a savepoint.
    ///
    /// # Errors
    /// The engine's error.
    pub async fn savepoint(&mut self) -> Result<Savepoint> {
        let savepoint = self.next_savepoint();
        self.step(Step::Savepoint(savepoint.0)).await?;
        Ok(savepoint)
    }

    /// [`Transaction::savepoint`] for blocking callers.
    ///
    /// # Errors
    /// The engine's error.
    pub fn savepoint_run(&mut self) -> Result<Savepoint> {
        let savepoint = self.next_savepoint();
        self.step(Step::Savepoint(savepoint.0)).run()?;
        Ok(savepoint)
    }

    fn next_savepoint(&mut self) -> Savepoint {
        self.savepoints += 1;
        Savepoint(self.savepoints)
    }

    /// Undoes the writes since the savepoint, which can be used again.
    ///
    /// # Errors
    /// The engine's error.
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Action<'_, Control> {
        self.step(Step::RollbackTo(savepoint.0))
    }

    /// Removes the savepoint and keeps the writes since then.
    ///
    /// # Errors
    /// The engine's error.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a released savepoint must not be used again"
    )]
    pub fn release(&self, savepoint: Savepoint) -> Action<'_, Control> {
        self.step(Step::Release(savepoint.0))
    }
}

/// The maximum number of times that a transaction runs again.
const REPEATS_MAX: u32 = 100;

/// The first pause between the runs of a transaction, and the longest.
const PAUSE: Duration = Duration::from_micros(400);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// The pauses between the runs of a transaction.
struct Pauses {
    count: u32,
    backoff: Backoff,
}

impl Pauses {
    const fn begin() -> Self {
        Self { count: 0, backoff: Backoff::new(PAUSE, PAUSE_MAX) }
    }

    /// Sleeps and returns true; returns false when the maximum is reached.
    fn pause(&mut self) -> bool {
        self.count += 1;
        if self.count > REPEATS_MAX {
            return false;
        }
        std::thread::sleep(self.backoff.pause());
        true
    }
}
