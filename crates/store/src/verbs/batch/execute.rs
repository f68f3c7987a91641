//! The execution of a batch, once or several times with the same idempotency key.

use marmota_model::{Error, ErrorKind, NoRows, Result, RowSink, Value};

use super::{Batch, kept};
use crate::contract::operation::{
    Answered, BatchMode, Fingerprint, Keys, Link, OnceKey, Operation, Outcome, Write,
};
use crate::store::Store;
use crate::verbs::action::{Action, Verb};

impl<'s> Batch<'s> {
    /// Sets an idempotency key: a batch with this key is executed once. Its results are stored
    /// together with the writes. A batch of the same writes and the same key returns them without
    /// writing again, also after a crash. A batch that failed as a whole was not executed, and can
    /// be tried again.
    ///
    /// The store has to keep results ([`crate::StoreBuilder::idempotency`]). A different batch with
    /// the same key is refused as [`ErrorKind::Invalid`].
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::{Idempotency, Store};
    /// # #[derive(Clone, Debug, Model)]
    /// # struct City { id: i64, name: String }
    /// # let city = City { id: 0, name: "Bourges".to_owned() };
    /// let store = Store::builder(Memory::new())
    ///     .model::<City>()
    ///     .idempotency(Idempotency::default())
    ///     .open()?;
    /// for _ in 0..2 {
    ///     let mut batch = store.batch();
    ///     batch.insert(&city).idempotency_key("import-2024-05");
    ///     batch.all_or_nothing().run()?;
    /// }
    /// assert_eq!(store.count::<City>().run()?, 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn idempotency_key(&mut self, key: impl Into<String>) -> &mut Self {
        self.once = Some(key.into());
        self
    }

    /// Returns a hash that is the same whenever the same batch is made again.
    fn fingerprint(&self, mode: BatchMode) -> Fingerprint {
        let mut print = Fingerprint::default();
        print.add(format!("{mode:?} {:?}", self.links).as_bytes());
        for (place, write) in self.writes.iter().enumerate() {
            let table = write.table();
            print.add(table.name().as_bytes());
            let stamps = [table.created_at(), table.updated_at()];
            let mut row_of = |row: &[Value], key_made: bool| {
                for (field, value) in row.iter().enumerate() {
                    let is_made = key_made && field == table.key();
                    if !is_made && !stamps.contains(&Some(field)) {
                        print.add_value(value.as_ref());
                    }
                }
            };
            match write {
                Write::Insert { row, on_conflict, .. } => {
                    row_of(row, self.made_keys.contains(&place));
                    print.add(format!("insert {on_conflict:?}").as_bytes());
                }
                Write::Update { key, row, version, .. } => {
                    row_of(row, false);
                    print.add(format!("update {version:?}").as_bytes());
                    print.add_value(key.as_ref());
                }
                Write::Increment { key, field, by, .. } => {
                    print.add(format!("increment {field}").as_bytes());
                    print.add_value(key.as_ref());
                    print.add_value(by.as_ref());
                }
                Write::Delete { key, version, .. } => {
                    print.add(format!("delete {version:?}").as_bytes());
                    print.add_value(key.as_ref());
                }
                Write::DeleteWhere { filter, .. } => {
                    print.add(format!("delete where {filter:?}").as_bytes());
                }
                // These are made when a batch is executed; they are never added to one.
                Write::Cascading { .. }
                | Write::Audited { .. }
                | Write::Compared { .. }
                | Write::Guarded { .. }
                | Write::Hooked { .. } => {}
            }
        }
        print
    }

    /// Executes all writes, or none if one fails. Returns the outcome of each.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::Ref;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, visits: i64 }
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Street { id: i64, city: Ref<City>, name: String }
    /// # let city = |name: &str| City { id: 0, name: name.to_owned(), visits: 0 };
    /// # let street = |name: &str| Street { id: 0, city: Ref::new(0), name: name.to_owned() };
    /// # let store = Store::builder(Memory::new()).model::<City>().model::<Street>().open()?;
    /// let mut batch = store.batch();
    /// batch.insert(&city("Bourges")).delete::<City>(7);
    /// assert!(batch.all_or_nothing().run().is_err());
    /// assert_eq!(store.count::<City>().run()?, 0, "the insert was undone");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// That of the failed write, with its place.
    pub fn all_or_nothing(self) -> Action<'s, Writes> {
        self.action(BatchMode::AllOrNothing)
    }

    /// Executes each write that can be executed, and returns the result of each.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::Ref;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, name: String, visits: i64 }
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Street { id: i64, city: Ref<City>, name: String }
    /// # let city = |name: &str| City { id: 0, name: name.to_owned(), visits: 0 };
    /// # let street = |name: &str| Street { id: 0, city: Ref::new(0), name: name.to_owned() };
    /// # let store = Store::builder(Memory::new()).model::<City>().model::<Street>().open()?;
    /// let mut batch = store.batch();
    /// batch.insert(&city("Bourges")).delete::<City>(7);
    /// let results = batch.continue_on_error().run()?;
    /// assert!(results[0].is_ok() && results[1].is_err());
    /// assert_eq!(store.count::<City>().run()?, 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Only errors that concern the batch as a whole.
    pub fn continue_on_error(self) -> Action<'s, Writes> {
        self.action(BatchMode::Each)
    }

    fn action(self, mode: BatchMode) -> Action<'s, Writes> {
        let store = self.store;
        let key = self.once.clone().map(|key| OnceKey::new(key, &self.fingerprint(mode)));
        let made = self.into_writes().and_then(|made| Ok((made, key.transpose()?)));
        let ((writes, links), once, refused) = match made {
            Ok((made, once)) => (made, once, None),
            Err(error) => ((Vec::new(), Vec::new()), None, Some(error)),
        };
        let (results, answered) = (Vec::new(), None);
        Action::new(store, Writes { writes, links, refused, mode, once, results, answered })
    }
}

/// The verb of [`Batch::all_or_nothing`] and [`Batch::continue_on_error`]. Its result has one
/// outcome for each write, in the order in which they were added.
pub struct Writes {
    writes: Vec<Write>,
    links: Vec<Link>,
    refused: Option<Error>,
    mode: BatchMode,
    once: Option<OnceKey>,
    results: Vec<Result<Outcome>>,
    answered: Option<Answered>,
}

impl Verb for Writes {
    type Output = Vec<Result<Outcome>>;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        if self.writes.is_empty() {
            return Ok(());
        }
        let Self { writes, links, mode, once, results, answered, .. } = self;
        let mut encode = |results: &[Result<Outcome>]| kept::encode(writes, results);
        let once = match once {
            Some(key) => Some(store.once(key, &mut encode, answered)?),
            None => None,
        };
        let mut operation = Operation::Batch { writes, links, mode: *mode, once, results };
        let called = call(&mut operation, &mut NoRows);
        // The error of the batch is that of the failed write. Here its place is added.
        match (called, results.last()) {
            (Err(_), Some(Err(failed))) if self.mode == BatchMode::AllOrNothing => {
                Err(failed.at(format_args!("write {}", results.len() - 1)))
            }
            (called, _) => called,
        }
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Vec<Result<Outcome>>> {
        if let Some(Answered { bytes, repeated: true }) = &self.answered {
            return kept::decode(bytes);
        }
        if self.results.len() == self.writes.len() {
            let mut results = std::mem::take(&mut self.results);
            for (write, result) in self.writes.iter().zip(&mut results) {
                // The row already had its key, which is returned like one that the engine
                // generated.
                if let (Write::Insert { table, row, .. }, Ok(outcome)) = (write, result)
                    && outcome.keys == Keys::Known
                {
                    outcome.keys = Keys::One(row[table.key()].clone());
                }
            }
            return Ok(results);
        }
        Err(Error::new(ErrorKind::Bug, "the engine did not return a result for a write of a batch"))
    }
}
