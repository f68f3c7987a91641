//! After-commit hooks: functions that are called for each committed change of a model, at least
//! once, also after a crash.
//!
//! A hook has a name, under which the database keeps its cursor: the last commit that it has
//! handled. One thread of one process calls a hook, in the order of the commits. If a call fails,
//! it is repeated after a pause; after [`HookOptions::attempts`] calls the change is kept as a dead
//! letter, and the hook continues. A running hook keeps its store open.
//!
//! | file | subject |
//! |---|---|
//! | `cursor.rs` | the durable cursor, and the lease that lets one process call a hook |
//! | `dead_letter.rs` | changes that a hook has failed on |
//! | `worker.rs` | the thread of a hook |

pub(crate) mod cursor;
pub(crate) mod dead_letter;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Model, Result, Table, Value, ValueRef};

pub use self::dead_letter::DeadLetter;
use self::worker::{Signal, Worker};
use crate::contract::change::{Change, ChangeKind, Commit, Position};
use crate::store::Store;

/// A change of a row of one model, as a hook gets it.
///
/// Blobs are empty in both rows: read the row for its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelChange<M> {
    /// The position of the commit. A hook that must not repeat an effect remembers it.
    pub position: Position,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The row before the change; `None` for an insert.
    pub before: Option<M>,
    /// The row after the change; `None` for a delete.
    pub after: Option<M>,
    /// The actor of the write, if it had one.
    pub actor: Option<Arc<str>>,
}

/// The options of a hook.
///
/// Default: 5 attempts, with pauses from 100 ms to 10 s, doubled each time.
///
/// ```
/// use std::time::Duration;
/// use marmota_store::hook::HookOptions;
/// let options = HookOptions::default().attempts(3).pause(Duration::from_millis(10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookOptions {
    attempts: u32,
    pause: Duration,
}

impl Default for HookOptions {
    fn default() -> Self {
        Self { attempts: 5, pause: Duration::from_millis(100) }
    }
}

impl HookOptions {
    /// Sets how often a hook is called for a change before the change becomes a dead letter. At
    /// least 1. Default: 5.
    #[must_use]
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = if attempts == 0 { 1 } else { attempts };
        self
    }

    /// Sets the first pause between two attempts; each further one is twice as long, up to 10 s.
    /// Default: 100 ms.
    #[must_use]
    pub const fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }
}

/// A running hook. Dropping it stops the hook, after the call in progress.
///
/// The hook continues where it was when it is registered again under its name, also by another
/// process.
#[must_use = "dropping a hook stops it"]
pub struct Hook {
    name: String,
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl Store {
    /// Calls a function for each committed change of a model, at least once, in the order of the
    /// commits, on a thread of its own.
    ///
    /// The store has to record changes ([`StoreBuilder::changes`](crate::StoreBuilder::changes)). A
    /// hook that is new under its `name` gets the changes after this call. If several processes
    /// register a hook under one name, one of them calls it at a time.
    ///
    /// The function may block. A returned error and a panic are failures: the call is repeated, see
    /// [`HookOptions`].
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # use marmota_store::change::ChangeRetention;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let store = Store::builder(Memory::new())
    /// #     .model::<City>()
    /// #     .changes(ChangeRetention::default())
    /// #     .open()?;
    /// use std::sync::mpsc::channel;
    ///
    /// let (sender, names) = channel();
    /// let hook = store.after_commit::<City>("announce", move |change| {
    ///     if let Some(city) = &change.after {
    ///         let _ = sender.send(city.name.clone());
    ///     }
    ///     Ok(())
    /// })?;
    /// store.insert(&City { id: 0, name: "Bourges".to_owned(), people: 64_000 }).run()?;
    /// assert_eq!(names.recv().unwrap(), "Bourges");
    /// hook.stop();
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the store records no changes, [`ErrorKind::Invalid`] for a
    /// name that is empty or longer than 100 bytes, [`ErrorKind::Denied`] for a handle with rights.
    pub fn after_commit<M: Model>(
        &self,
        name: &str,
        hook: impl FnMut(&ModelChange<M>) -> Result<()> + Send + 'static,
    ) -> Result<Hook> {
        self.after_commit_with(name, HookOptions::default(), hook)
    }

    /// Like [`Store::after_commit`], with options.
    ///
    /// # Errors
    /// Those of [`Store::after_commit`].
    pub fn after_commit_with<M: Model>(
        &self,
        name: &str,
        options: HookOptions,
        mut hook: impl FnMut(&ModelChange<M>) -> Result<()> + Send + 'static,
    ) -> Result<Hook> {
        let table = Arc::clone(self.registry().of::<M>()?);
        let call = move |commit: &Commit, change: Option<&Change>| {
            let Some(change) = change else { return Ok(()) };
            let read = |row: &Option<Vec<Value>>| {
                let row = row
                    .as_ref()
                    .map(|row| -> Vec<ValueRef<'_>> { row.iter().map(Value::as_ref).collect() });
                row.map(|row| M::read(&row)).transpose()
            };
            hook(&ModelChange {
                position: commit.position,
                kind: change.kind,
                before: read(&change.before)?,
                after: read(&change.after)?,
                actor: change.actor.clone(),
            })
        };
        self.start_hook(name, Some(table), options, call)
    }

    /// Calls a function for each commit, with the changes of all tables: for programs that know
    /// their tables at run time only. Everything else is as for [`Store::after_commit_with`].
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # use marmota_store::change::ChangeRetention;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let store = Store::builder(Memory::new())
    /// #     .model::<City>()
    /// #     .changes(ChangeRetention::default())
    /// #     .open()?;
    /// use std::sync::mpsc::channel;
    ///
    /// use marmota_store::hook::HookOptions;
    ///
    /// let (sender, tables) = channel();
    /// let hook = store.after_each_commit("announce", HookOptions::default(), move |commit| {
    ///     for change in &commit.changes {
    ///         let _ = sender.send(change.table.name().to_owned());
    ///     }
    ///     Ok(())
    /// })?;
    /// store.insert(&City { id: 0, name: "Bourges".to_owned(), people: 64_000 }).run()?;
    /// assert_eq!(tables.recv().unwrap(), "city");
    /// hook.stop();
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Store::after_commit`].
    pub fn after_each_commit(
        &self,
        name: &str,
        options: HookOptions,
        mut hook: impl FnMut(&Commit) -> Result<()> + Send + 'static,
    ) -> Result<Hook> {
        self.start_hook(name, None, options, move |commit, _| hook(commit))
    }

    /// Starts the thread of a hook: for each change of a table, or for each commit.
    fn start_hook(
        &self,
        name: &str,
        table: Option<Arc<Table>>,
        options: HookOptions,
        call: impl FnMut(&Commit, Option<&Change>) -> Result<()> + Send + 'static,
    ) -> Result<Hook> {
        /// The maximum length of a name in bytes.
        const NAME_BYTES_MAX: usize = 100;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            let message = format!("the name of a hook must have 1 to {NAME_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let signal = Arc::new(Signal::default());
        let worker = Worker::new(self, name, table, options, Arc::clone(&signal))?;
        let thread = std::thread::Builder::new().name(format!("marmota-{name}"));
        let started = thread.spawn(move || worker.run(call)).map_err(|error| {
            let message = format!("no thread can be started for the hook `{name}`: {error}");
            Error::new(ErrorKind::Io, message).with_source(error)
        })?;
        Ok(Hook { name: name.to_owned(), signal, thread: Some(started) })
    }
}

impl Hook {
    /// Stops the hook: the call in progress ends first, and the cursor is saved.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.signal.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the hook itself is caught.
            let _ = thread.join();
        }
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").field("name", &self.name).finish_non_exhaustive()
    }
}
