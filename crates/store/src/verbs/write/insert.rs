//! The verbs that insert rows of a model.

use std::cell::RefCell;

use marmota_model::{
    Error, ErrorKind, FieldValue, Key, KeyKind, Model, NoRows, Result, Scratch, Value, ValueRef,
};

use super::row::{Call, RowBuffer, Structs, lost_key};
use crate::contract::operation::{Keys, Operation, Outcome};
use crate::rows::prepare::{self, ValueSource};
use crate::store::Store;
use crate::verbs::action::{Action, Verb};

/// The verb of [`Store::insert`]. [`Action::or_ignore`], [`Action::or_replace`] and
/// [`Action::or_update`] set what it does with a row that exists.
pub struct Insert<'m, M: Model> {
    pub(super) model: &'m M,
    /// The generated key, kept so that an action that waits uses the same key again.
    key: Value,
}

impl<M: Model> Unpin for Insert<'_, M> {}

impl<M: Model> Verb for Insert<'_, M> {
    type Output = M::Key;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        let table = store.registry().of::<M>()?;
        let scratch = Scratch::new();
        let mut buffer = RowBuffer::new();
        let row = buffer.row(table);
        self.model.write(row, &scratch);
        if let Value::Uuid(key) = self.key {
            row[table.key()] = ValueRef::Uuid(key);
        }
        prepare::insert(table, row, ValueSource::Struct, store.stamp(table), &scratch)?;
        let key = row[table.key()];
        if matches!(key, ValueRef::Uuid(_) | ValueRef::Int(_)) || table.has_composite_key() {
            self.key = key.to_value();
        }
        call(&mut Operation::insert(table, row), &mut NoRows)
    }

    fn finish(&mut self, store: &Store, outcome: &mut Outcome) -> Result<M::Key> {
        let given = match &outcome.keys {
            Keys::One(key) => M::Key::from_value(key),
            _ if self.key == Value::Absent => Some(self.model.key().clone()),
            _ => M::Key::from_value(&self.key),
        };
        given.ok_or_else(|| match store.registry().of::<M>() {
            Ok(table) => lost_key(table),
            Err(error) => error,
        })
    }
}

/// The verb of [`Store::insert_many`], with the same conflict actions as [`Insert`].
pub struct InsertMany<'m, M: Model> {
    pub(super) models: &'m [M],
    /// The keys that the store generated; empty if it generates none.
    keys: Vec<M::Key>,
}

impl<M: Model> Unpin for InsertMany<'_, M> {}

impl<M: Model> Verb for InsertMany<'_, M> {
    type Output = Vec<M::Key>;

    fn operate(&mut self, store: &Store, call: &mut Call<'_>) -> Result<()> {
        if self.models.is_empty() {
            return Ok(());
        }
        let table = store.registry().of::<M>()?;
        let unset = |model: &&M| model.key().is_unset();
        if M::KEY_KIND == KeyKind::Auto
            && self.models.iter().any(|model| unset(&model))
            && !self.models.iter().all(|model| unset(&model))
        {
            return Err(Error::new(
                ErrorKind::Invalid,
                "insert_many takes rows that all have a key or all have none; \
                 split them, or use a batch",
            ));
        }
        let (scratch, keys) = (Scratch::new(), RefCell::new(Vec::new()));
        let mut rows = Structs {
            table,
            models: self.models.iter(),
            scratch: &scratch,
            stamp: store.stamp(table),
            updates: false,
            given: None,
            index: 0,
            keys: table.makes_keys().then_some(&keys),
        };
        call(&mut Operation::insert_many(table, &mut rows), &mut NoRows)?;
        // A call that continues one that waited may not read the rows again.
        let keys = keys.take();
        if !keys.is_empty() {
            self.keys = keys;
        }
        Ok(())
    }

    fn finish(&mut self, store: &Store, outcome: &mut Outcome) -> Result<Vec<M::Key>> {
        let keys: Option<Vec<M::Key>> = match &outcome.keys {
            Keys::Known if !self.keys.is_empty() => Some(std::mem::take(&mut self.keys)),
            Keys::Known => Some(self.models.iter().map(|model| model.key().clone()).collect()),
            Keys::One(key) => M::Key::from_value(key).map(|key| vec![key]),
            Keys::Range { first } => (0..self.models.len() as i64)
                .map(|offset| M::Key::from_row(ValueRef::Int(first + offset)))
                .collect(),
            Keys::Each(keys) => keys.iter().map(M::Key::from_value).collect(),
            Keys::Upserted(rows) => rows.iter().map(|row| M::Key::from_value(&row.key)).collect(),
        };
        match keys {
            Some(keys) => Ok(keys),
            None => Err(lost_key(store.registry().of::<M>()?)),
        }
    }
}

impl Store {
    /// Inserts a row and returns its key. The store generates a key that is unset (0, the nil
    /// UUID), and sets `created_at`, `updated_at` and `version`. [`Action::or_ignore`],
    /// [`Action::or_replace`] and [`Action::or_update`] set the action if the row exists.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// use marmota_model::ErrorKind;
    ///
    /// let id = store.insert(&city("Bourges", 64_000)).run()?;
    /// assert_eq!(id, 1);
    /// let again = store.insert(&city("Bourges", 64_000)).run();
    /// assert_eq!(again.unwrap_err().kind(), ErrorKind::Conflict);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for broken rules, [`ErrorKind::Conflict`] for a unique value that is
    /// taken.
    pub fn insert<'s, 'm, M: Model>(&'s self, model: &'m M) -> Action<'s, Insert<'m, M>> {
        Action::new(self, Insert { model, key: Value::Absent })
    }

    /// Inserts rows, all or none, in one operation, and returns their keys.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let ids = store.insert_many(&[city("Bourges", 64_000), city("Lyon", 520_000)]).run()?;
    /// assert_eq!(ids, [1, 2]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Store::insert`], with the row's index in `models`.
    pub fn insert_many<'s, 'm, M: Model>(
        &'s self,
        models: &'m [M],
    ) -> Action<'s, InsertMany<'m, M>> {
        Action::new(self, InsertMany { models, keys: Vec::new() })
    }
}
