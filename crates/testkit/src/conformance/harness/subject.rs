//! The subject of the tests: an empty database of an engine, and a store on it. Promises do not
//! depend on an engine's name; the differences between engines are data in their [`Capability`].

use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use marmota_model::Result;
use marmota_store::engine::{Capability, ReadsMeanwhile};
use marmota_store::{Store, StoreBuilder};

/// Adds models and settings to a builder.
pub type AddModels = fn(StoreBuilder) -> StoreBuilder;

type Open = dyn Fn(Option<AddModels>) -> StoreBuilder + Send + Sync;

/// The server of a store that clients reach from elsewhere, as the promises of
/// [`crate::conformance::event_loops::event_loop`] see it. It keeps accounts if its engine has
/// transactions.
pub trait Served: Send + Sync {
    /// Sends a request that needs no database to the thread that serves the store, and waits for
    /// the answer: how long that thread has waited for a processor so far
    /// ([`crate::conformance::event_loops::event_loop::unscheduled`]). Zero where it is the thread
    /// that calls.
    ///
    /// # Errors
    /// Returns an error if the request fails.
    fn ping(&self) -> Result<Duration>;

    /// Logs a user in with a password. Blocks the thread.
    ///
    /// # Errors
    /// Returns the server's error.
    fn log_in(&self) -> Result<()>;
}

/// A database of an engine under test, empty at first.
pub struct Subject {
    name: &'static str,
    open: Box<Open>,
    reopens: bool,
    capability: OnceLock<Capability>,
    server: Option<Arc<dyn Served>>,
    rows_in_memory: bool,
}

impl Subject {
    /// A database that `open` opens. If the engine is [`Capability::persistent`], calling `open`
    /// again after the store was closed must open the same database.
    pub fn new(
        name: &'static str,
        open: impl Fn() -> StoreBuilder + Send + Sync + 'static,
    ) -> Self {
        Self::served(name, move |models| match models {
            Some(models) => models(open()),
            None => open(),
        })
    }

    /// A database on a server. `open` starts the server, with the given models and settings if
    /// any, and returns a builder of a client's store with the same models and settings.
    pub fn served(
        name: &'static str,
        open: impl Fn(Option<AddModels>) -> StoreBuilder + Send + Sync + 'static,
    ) -> Self {
        let (open, capability) = (Box::new(open), OnceLock::new());
        Self { name, open, reopens: false, capability, server: None, rows_in_memory: false }
    }

    /// Sets the server, which authenticates the client's operations if it keeps accounts.
    #[must_use]
    pub fn with_server(mut self, server: Arc<dyn Served>) -> Self {
        self.server = Some(server);
        self
    }

    /// Has the promises of [`crate::conformance::event_loops::event_loop`] keep their rows in the
    /// memory engine, as another database of the store, so that the SQL of this one reads them.
    #[must_use]
    pub fn with_rows_in_memory(mut self) -> Self {
        self.rows_in_memory = true;
        self
    }

    /// Changes the declared capability, for a remote store that guarantees less than its server.
    #[must_use]
    pub fn declaring(self, change: impl FnOnce(Capability) -> Capability) -> Self {
        let capability = change(self.capability().clone());
        Self { capability: OnceLock::from(capability), ..self }
    }

    /// Returns the server set by [`Subject::with_server`].
    #[must_use]
    pub fn server(&self) -> Option<Arc<dyn Served>> {
        self.server.clone()
    }

    /// Makes promises close and open the store between writes and reads, which tests the data on
    /// the disk instead of the data in memory.
    #[must_use]
    pub fn reopening(mut self) -> Self {
        self.reopens = true;
        self
    }

    /// Returns the engine's capability. Opens the database once without models, unless another
    /// subject of the module has done so ([`Declared`]).
    #[must_use]
    pub fn capability(&self) -> &Capability {
        self.capability.get_or_init(|| {
            let store = self.builder().open().unwrap();
            let capability = store.capability().clone();
            store.close().unwrap();
            capability
        })
    }

    /// Returns true after [`Subject::with_rows_in_memory`].
    pub(crate) const fn has_rows_in_memory(&self) -> bool {
        self.rows_in_memory
    }

    /// Returns true if users can log in at the store or its server. Accounts need transactions, and
    /// the client of a remote store leaves them to the server.
    pub(crate) fn keeps_accounts(&self) -> bool {
        let capability = self.capability();
        capability.transactions && (capability.guarded_writes || self.server.is_some())
    }

    /// Returns true if reads may wait while another session has a transaction open.
    #[must_use]
    pub fn makes_reads_wait(&self) -> bool {
        self.capability().reads_meanwhile != ReadsMeanwhile::Before
    }

    /// Returns the subject's name for messages.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns a builder that opens the database.
    #[must_use]
    pub fn builder(&self) -> StoreBuilder {
        (self.open)(None)
    }

    /// Returns a builder that opens the database with these models.
    #[must_use]
    pub fn builder_with(&self, models: AddModels) -> StoreBuilder {
        (self.open)(Some(models))
    }
}

/// The capability of the subjects of a module, read from a separate database, for
/// [`crate::conformance!`].
#[derive(Debug, Default)]
pub struct Declared(OnceLock<Capability>);

impl Declared {
    /// A capability that has not been read.
    #[must_use]
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Returns a subject that knows its capability.
    pub fn subject(&self, make: impl Fn() -> Subject) -> Subject {
        let capability = self.0.get_or_init(|| make().capability().clone());
        Subject { capability: OnceLock::from(capability.clone()), ..make() }
    }
}

/// A subject opened with a promise's models.
pub(crate) struct Stand<'s> {
    subject: &'s Subject,
    models: AddModels,
    store: Store,
}

impl<'s> Stand<'s> {
    pub(crate) fn open(subject: &'s Subject, models: AddModels) -> Self {
        let store = subject.builder_with(models).open().unwrap();
        Self { subject, models, store }
    }

    /// Closes and opens the database between the writes and the reads of a promise, if the subject
    /// does so.
    pub(crate) fn settle(&mut self) {
        if self.subject.reopens {
            self.reopen();
        }
    }

    /// Closes and opens the database.
    pub(crate) fn reopen(&mut self) {
        self.reopen_as(self.models).unwrap();
    }

    /// Closes the database and opens it with other models. After an error, it remains closed.
    pub(crate) fn reopen_as(&mut self, models: AddModels) -> Result<()> {
        self.store.close().unwrap();
        self.models = models;
        self.store = self.subject.builder_with(models).open()?;
        Ok(())
    }

    pub(crate) fn makes_reads_wait(&self) -> bool {
        self.subject.makes_reads_wait()
    }

    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }
}

impl Deref for Stand<'_> {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}
