//! What is tested: a database of one engine, empty at first, and the store
//! on it. Promises never name an engine; what differs between engines is said
//! here, as data.

use std::ops::Deref;

use marmota_model::Result;
use marmota_store::{Store, StoreBuilder};

/// Adds models and settings to a builder.
pub type Models = fn(StoreBuilder) -> StoreBuilder;

type Open = dyn Fn(Option<Models>) -> StoreBuilder + Send + Sync;

/// One database of an engine under test, empty until something is written.
pub struct Subject {
    name: &'static str,
    open: Box<Open>,
    keeps: bool,
    settles: bool,
    reads_wait: bool,
    skips_keys: bool,
    is_oracle: bool,
    holds_rights: bool,
    transactions: bool,
}

impl Subject {
    /// A database that `open` opens. Called again after the store was closed
    /// it need not be the same one: see [`Subject::keeps`].
    pub fn new(
        name: &'static str,
        open: impl Fn() -> StoreBuilder + Send + Sync + 'static,
    ) -> Self {
        Self::served(name, move |models| match models {
            Some(models) => models(open()),
            None => open(),
        })
    }

    /// A database that a server has: `open` starts it, with the models and
    /// settings if they are given, and begins to open a store of a client's,
    /// with the same.
    pub fn served(
        name: &'static str,
        open: impl Fn(Option<Models>) -> StoreBuilder + Send + Sync + 'static,
    ) -> Self {
        let open = Box::new(open);
        Self {
            name,
            open,
            keeps: false,
            settles: false,
            reads_wait: false,
            skips_keys: false,
            is_oracle: false,
            holds_rights: true,
            transactions: true,
        }
    }

    /// Opened again after a close, the database has what was written before.
    #[must_use]
    pub fn keeps(mut self) -> Self {
        self.keeps = true;
        self
    }

    /// Promises close and open the database between what they write and what
    /// they look at; implies [`Subject::keeps`].
    #[must_use]
    pub fn settles(mut self) -> Self {
        self.settles = true;
        self.keeps()
    }

    /// Whoever reads beside an open transaction waits for its end, instead of
    /// seeing what was before.
    #[must_use]
    pub fn reads_wait(mut self) -> Self {
        self.reads_wait = true;
        self
    }

    /// Automatic keys ascend, but a key that was given to what was refused or
    /// undone is not given again.
    #[must_use]
    pub fn skips_keys(mut self) -> Self {
        self.skips_keys = true;
        self
    }

    /// Rights are held elsewhere: by the store behind it, which the promises
    /// about them concern.
    #[must_use]
    pub fn rights_elsewhere(mut self) -> Self {
        self.holds_rights = false;
        self
    }

    /// True if promises about rights concern it.
    #[must_use]
    pub const fn holds_rights(&self) -> bool {
        self.holds_rights
    }

    /// The engine has no transactions, and says so by its capability.
    #[must_use]
    pub fn without_transactions(mut self) -> Self {
        self.transactions = false;
        self
    }

    /// True if several writes take place as one.
    #[must_use]
    pub const fn has_transactions(&self) -> bool {
        self.transactions
    }

    /// It is what the others are compared with.
    #[must_use]
    pub fn oracle(mut self) -> Self {
        self.is_oracle = true;
        self
    }

    /// True if reads beside an open transaction wait.
    #[must_use]
    pub const fn makes_reads_wait(&self) -> bool {
        self.reads_wait
    }

    /// True if automatic keys may leave some out.
    #[must_use]
    pub const fn may_skip_keys(&self) -> bool {
        self.skips_keys
    }

    /// True if it is compared with itself only.
    #[must_use]
    pub const fn is_oracle(&self) -> bool {
        self.is_oracle
    }

    /// What it is called in messages.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// True if a promise about what survives a close concerns it.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        self.keeps
    }

    /// Begins to open the database.
    #[must_use]
    pub fn builder(&self) -> StoreBuilder {
        (self.open)(None)
    }

    /// Begins to open the database with these.
    #[must_use]
    pub fn builder_with(&self, models: Models) -> StoreBuilder {
        (self.open)(Some(models))
    }
}

/// A subject opened with a promise's models.
pub(crate) struct Stand<'s> {
    subject: &'s Subject,
    models: Models,
    store: Store,
}

impl<'s> Stand<'s> {
    pub(crate) fn open(subject: &'s Subject, models: Models) -> Self {
        let store = subject.builder_with(models).open().unwrap();
        Self { subject, models, store }
    }

    /// Closes and opens the database, where the subject asks for it. Between
    /// the writes and the reads of a promise.
    pub(crate) fn settle(&mut self) {
        if self.subject.settles {
            self.reopen();
        }
    }

    /// Closes and opens the database.
    pub(crate) fn reopen(&mut self) {
        self.reopen_as(self.models).unwrap();
    }

    /// Closes the database and opens it with other models; the error of that
    /// leaves it closed.
    pub(crate) fn reopen_as(&mut self, models: Models) -> Result<()> {
        self.store.close().unwrap();
        self.models = models;
        self.store = self.subject.builder_with(models).open()?;
        Ok(())
    }

    pub(crate) const fn makes_reads_wait(&self) -> bool {
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
