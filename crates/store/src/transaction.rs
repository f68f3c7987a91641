//! Transactions and savepoints: a scope with a session of its own.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use marmota_model::{NoRows, Result, RowSink};
use parking_lot::Mutex;

use crate::action::{Action, Verb};
use crate::backoff::Backoff;
use crate::operation::{Operation, Outcome};
use crate::scope::Scope;
use crate::store::Store;

/// A transaction. It derefs to a [`Scope`], so every verb works in it, sees
/// its writes, and is undone unless [`Transaction::commit`] is carried out.
#[must_use = "a transaction that is dropped is undone"]
#[derive(Debug)]
pub struct Transaction {
    scope: Scope,
    savepoints: u32,
    hooks: Arc<Hooks>,
}

/// What [`Transaction::after_commit`] was given, each with the number of savepoints set before.
#[derive(Default)]
struct Hooks(Mutex<Vec<(u32, Hook)>>);

type Hook = Box<dyn FnOnce() + Send>;

impl Hooks {
    fn step_succeeded(&self, step: Step) {
        match step {
            Step::Commit => {
                // Taken out first: a hook may take as long as it wants.
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
    type Target = Scope;

    fn deref(&self) -> &Scope {
        &self.scope
    }
}

/// A place in a transaction to go back to.
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

/// The verb of a transaction's own steps.
pub struct Control(Step, Arc<Hooks>);

impl Verb for Control {
    type Output = ();

    fn operate(
        &mut self,
        _: &Scope,
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

    fn finish(&mut self, _: &Scope, _: &mut Outcome) -> Result<()> {
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
        _: &Scope,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        call(&mut Operation::Begin, &mut NoRows)
    }

    fn finish(&mut self, _: &Scope, _: &mut Outcome) -> Result<()> {
        Ok(())
    }
}

impl Transaction {
    /// A session of its own, on which nothing has begun: for layers that hand
    /// in operations themselves ([`Scope::submit`]), the first of which is
    /// [`Operation::Begin`]. Others use [`Store::begin`].
    ///
    /// # Errors
    /// What keeps the engine from opening a session.
    pub fn detached(store: &Store) -> Result<Self> {
        store.shared.check_open()?;
        let session = store.shared.engine.session()?;
        Ok(Self { scope: store.of_session(session), savepoints: 0, hooks: Arc::default() })
    }

    /// Says who makes the writes from here on; see [`Store::with_actor`].
    pub fn act_as(&mut self, actor: impl Into<Arc<str>>) {
        self.scope.actor = Some(actor.into());
    }

    fn step(&self, step: Step) -> Action<'_, Control> {
        Action::new(&self.scope, Control(step, Arc::clone(&self.hooks)))
    }

    /// Calls `hook` once [`Transaction::commit`] has succeeded, on the thread that finishes it; not
    /// if the transaction is undone, nor if it is undone to a savepoint that was set before. Hooks
    /// run in the order in which they were added. Where no one learns whether the commit took place
    /// ([`marmota_model::ErrorKind::Lost`], or a commit dropped while it waits), they are not called.
    ///
    /// For what others see outside of the store, such as a message: within the transaction it would
    /// be early, and wrong if the transaction runs again.
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

    /// Makes what was written permanent.
    ///
    /// # Errors
    /// What kept the engine from it; the transaction is undone then.
    pub fn commit(&self) -> Action<'_, Control> {
        self.step(Step::Commit)
    }

    /// Undoes what was written, as dropping the transaction does.
    ///
    /// # Errors
    /// What kept the engine from it.
    pub fn rollback(&self) -> Action<'_, Control> {
        self.step(Step::Rollback)
    }

    /// Sets a place to go back to.
    ///
    /// # Errors
    /// What kept the engine from it.
    pub async fn savepoint(&mut self) -> Result<Savepoint> {
        let savepoint = self.next_savepoint();
        self.step(Step::Savepoint(savepoint.0)).await?;
        Ok(savepoint)
    }

    /// [`Transaction::savepoint`] for a thread.
    ///
    /// # Errors
    /// What kept the engine from it.
    pub fn savepoint_run(&mut self) -> Result<Savepoint> {
        let savepoint = self.next_savepoint();
        self.step(Step::Savepoint(savepoint.0)).run()?;
        Ok(savepoint)
    }

    fn next_savepoint(&mut self) -> Savepoint {
        self.savepoints += 1;
        Savepoint(self.savepoints)
    }

    /// Undoes what was written since the savepoint, which can be used again.
    ///
    /// # Errors
    /// What kept the engine from it.
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Action<'_, Control> {
        self.step(Step::RollbackTo(savepoint.0))
    }

    /// Forgets the savepoint and keeps what was written since.
    ///
    /// # Errors
    /// What kept the engine from it.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a released savepoint must not be used again"
    )]
    pub fn release(&self, savepoint: Savepoint) -> Action<'_, Control> {
        self.step(Step::Release(savepoint.0))
    }
}

impl Store {
    /// Begins a transaction, waiting its turn where another one is open.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Busy`] if that took too long.
    pub async fn begin(&self) -> Result<Transaction> {
        let transaction = Transaction::detached(self)?;
        Action::new(&transaction.scope, Begin).await?;
        Ok(transaction)
    }

    /// [`Store::begin`] for a thread.
    ///
    /// # Errors
    /// As [`Store::begin`].
    pub fn begin_run(&self) -> Result<Transaction> {
        let transaction = Transaction::detached(self)?;
        Action::new(&transaction.scope, Begin).run()?;
        Ok(transaction)
    }

    /// Runs `work` in a transaction: committed if it returns `Ok`, undone if
    /// it returns an error or panics.
    ///
    /// **`work` may run more than once.** Some engines let transactions run
    /// side by side and refuse one of two that are in each other's way; nothing
    /// of it was done then, and `work` runs again from its beginning, after a
    /// pause. So it should do nothing but work on the store, and forget what
    /// it has read in an earlier run.
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
    /// `work`'s, or the engine's; [`marmota_model::ErrorKind::Conflict`] if it
    /// lost against others again and again
    /// ([`is_retryable`](marmota_model::Error::is_retryable)).
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

/// How often a transaction runs again, at most.
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

    /// Sleeps; false if that was often enough.
    fn pause(&mut self) -> bool {
        self.count += 1;
        if self.count > REPEATS_MAX {
            return false;
        }
        std::thread::sleep(self.backoff.pause());
        true
    }
}
