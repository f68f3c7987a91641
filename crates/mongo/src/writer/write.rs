//! Writes of one row, and deletes by a filter.
//!
//! MongoDB has keys and unique indexes, and writes one document atomically. All other guarantees of
//! a write need look-ups before it, in the order that all engines share (uniqueness, then
//! references), while the writer has its turn (`shared/turn.rs`). In a transaction, everything that
//! the server would refuse is looked up as well, since the server aborts the transaction when it
//! refuses a command.

use std::borrow::Cow;
use std::sync::Arc;

use marmota_model::rule::violation;
use marmota_model::{
    Currency, Error, ErrorKind, FieldSet, FilterExpr, KeyKind, Result, Value, ValueRef,
};
use marmota_store::operation::{Keys, OnConflict, Outcome, UpsertEffect, UpsertResult, Write};
use marmota_store::refusal::{not_found, stale};
use mongodb::bson::{Bson, RawDocumentBuf, doc};

use super::lookup::{is_unique_of, no_targets, refers};
use super::{Writer, borrowed};
use crate::database::number;
use crate::database::undo_steps::Undo;
use crate::database::writes::{LIST_MAX, Modified};
use crate::fault;
use crate::filter::matching;
use crate::refusal::no_transactions;
use crate::related::{each_selected, resolved};
use crate::shape::{Shape, bson_of};

/// The number of retries with another automatic key if a key is taken.
const KEY_TRIES_MAX: u32 = 3;

impl Writer {
    /// Executes a single write.
    pub(crate) async fn write(&self, write: &Write) -> Result<Outcome> {
        let shape = self.shared.shape(write.table())?;
        match write {
            Write::Insert { row, on_conflict, .. } => {
                self.insert(&shape, &borrowed(row), *on_conflict).await
            }
            Write::Update { key, row, version, .. } => {
                let row = borrowed(row);
                let _turn = self.turn(refers(&shape, &row)).await;
                self.update(&shape, key.as_ref(), &row, *version).await
            }
            Write::Increment { key, field, by, stamp, .. } => {
                let _turn = self.turn(false).await;
                self.increment(&shape, key.as_ref(), *field, by.as_ref(), stamp.as_ref()).await
            }
            Write::Delete { key, version, .. } => self.delete(&shape, key.as_ref(), *version).await,
            Write::DeleteWhere { filter, .. } => self.delete_where(&shape, filter.as_ref()).await,
            _ => Err(no_transactions("a write to an audited model")),
        }
    }

    async fn insert(
        &self,
        shape: &Shape,
        row: &[ValueRef<'_>],
        on_conflict: OnConflict,
    ) -> Result<Outcome> {
        let in_steps = on_conflict != OnConflict::Refuse || refers(shape, row);
        let _turn = self.turn(in_steps).await;
        if on_conflict != OnConflict::Refuse {
            let (placed, version) = self.put(shape, row, on_conflict, &mut None).await?;
            let rows = u64::from(placed.effect != UpsertEffect::Ignored);
            let (effect, keys) = (placed.effect, Keys::One(placed.key));
            return Ok(Outcome { rows, keys, version, effect, ..Outcome::default() });
        }
        let (key, given) = self.insert_row(shape, row).await?;
        let keys = if given { Keys::One(key) } else { Keys::Known };
        let version = shape.table.version().and_then(|version| row[version].as_int());
        Ok(Outcome { keys, version, ..Outcome::rows(1) })
    }

    /// Inserts a row that may not conflict with others. Returns its key, and true if the engine
    /// generated it.
    pub(crate) async fn insert_row(
        &self,
        shape: &Shape,
        row: &[ValueRef<'_>],
    ) -> Result<(Value, bool)> {
        let at = shape.table.key();
        let given = row[at].is_absent() && shape.table.key_kind() == KeyKind::Auto;
        if refers(shape, row) {
            let missing = self.missing_targets(shape, row, &[]).await?;
            if !missing.is_empty() {
                self.check_free(shape, row, None).await?;
                return Err(no_targets(shape, row, &missing));
            }
        }
        if !given {
            self.note_key(shape, row[at]).await?;
        }
        let mut again = 0;
        loop {
            let key = match given {
                true => Value::Int(self.take_keys(shape, 1).await?),
                false => row[at].to_value(),
            };
            let mut row = row.to_vec();
            row[at] = key.as_ref();
            // Another program may have inserted its own keys.
            if self.reads_before_write() {
                if given && again <= KEY_TRIES_MAX && self.has(shape, row[at]).await? {
                    again += 1;
                    self.raise_keys(shape).await?;
                    continue;
                }
                self.check_free(shape, &row, None).await?;
            }
            let document = shape.document(&row);
            let written = self.database().insert(shape.name(), &[document]).await?.checked()?;
            if written.taken.is_none() {
                return Ok((key, given));
            }
            let is_others = given && self.has(shape, row[at]).await?;
            if !is_others || again > KEY_TRIES_MAX {
                return Err(self.collision(shape, &row, None).await?);
            }
            again += 1;
            self.raise_keys(shape).await?;
        }
    }

    /// Inserts a row, or applies the conflict action if it exists. Also returns its version.
    /// Changes are recorded in `undo`.
    pub(crate) async fn put(
        &self,
        shape: &Shape,
        row: &[ValueRef<'_>],
        on_conflict: OnConflict,
        undo: &mut Option<Undo>,
    ) -> Result<(UpsertResult<Value>, Option<i64>)> {
        let version = shape.table.version().and_then(|version| row[version].as_int());
        let there = self.in_the_way(shape, row, None).await?;
        let Some(first) = there.first() else {
            let (key, _) = self.insert_row(shape, row).await?;
            if let Some(undo) = undo {
                undo.inserted(shape.key(key.as_ref()));
            }
            return Ok((UpsertResult { key, effect: UpsertEffect::Inserted }, version));
        };
        let key = shape.key_of(first).ok_or_else(|| fault::strange_key(shape.name()))?;
        match on_conflict {
            OnConflict::Refuse => Err(self.collision(shape, row, None).await?),
            OnConflict::Ignore => Ok((UpsertResult { key, effect: UpsertEffect::Ignored }, None)),
            OnConflict::Update { fields } => {
                let mut written = row.to_vec();
                for field in (0..row.len()).filter(|&field| !fields.contains(field)) {
                    written[field] = ValueRef::Absent;
                }
                let outcome = self.update(shape, key.as_ref(), &written, None).await?;
                if let Some(undo) = undo {
                    undo.replaced(first.clone());
                }
                Ok((UpsertResult { key, effect: UpsertEffect::Updated }, outcome.version))
            }
            OnConflict::Replace => {
                let key = self.replace(shape, row, there, undo).await?;
                Ok((UpsertResult { key, effect: UpsertEffect::Replaced }, version))
            }
        }
    }

    /// Replaces other rows with a row.
    async fn replace(
        &self,
        shape: &Shape,
        row: &[ValueRef<'_>],
        going: Vec<RawDocumentBuf>,
        undo: &mut Option<Undo>,
    ) -> Result<Value> {
        let (mut row, at) = (row.to_vec(), shape.table.key());
        let key = match row[at].is_absent() {
            true => Value::Int(self.take_keys(shape, 1).await?),
            false => row[at].to_value(),
        };
        row[at] = key.as_ref();
        let keys: Vec<Value> = going.iter().filter_map(|document| shape.key_of(document)).collect();
        let gone: Vec<&Value> = keys.iter().filter(|one| **one != key).collect();
        let missing = self.missing_targets(shape, &row, &gone).await?;
        if !missing.is_empty() {
            return Err(no_targets(shape, &row, &missing));
        }
        for one in &gone {
            let spared: Vec<Bson> = gone.iter().map(|key| shape.key(key.as_ref())).collect();
            let own = shape.key(key.as_ref());
            let spared: Vec<Bson> = spared.into_iter().chain([own]).collect();
            self.check_referrers(shape, &[shape.key(one.as_ref())], &spared, Some(one.as_ref()))
                .await?;
        }
        let ids: Vec<Bson> = keys.iter().map(|key| shape.key(key.as_ref())).collect();
        self.database().delete_keys(shape.name(), &ids).await?;
        let written =
            self.database().insert(shape.name(), &[shape.document(&row)]).await?.checked()?;
        if written.taken.is_some() {
            self.database().insert(shape.name(), &going).await?;
            return Err(self.collision(shape, &row, None).await?);
        }
        if let Some(undo) = undo {
            going.into_iter().for_each(|document| undo.replaced(document));
            undo.inserted(shape.key(key.as_ref()));
        }
        self.note_key(shape, key.as_ref()).await?;
        Ok(key)
    }

    /// Writes the present fields and increments the version.
    pub(crate) async fn update(
        &self,
        shape: &Shape,
        key: ValueRef<'_>,
        row: &[ValueRef<'_>],
        expected: Option<i64>,
    ) -> Result<Outcome> {
        if refers(shape, row) {
            let missing = self.missing_targets(shape, row, &[]).await?;
            if !missing.is_empty() {
                self.check_there(shape, key, expected).await?;
                self.check_free(shape, row, Some(key)).await?;
                return Err(no_targets(shape, row, &missing));
            }
        }
        let mut update = shape.update(row);
        let mut filter = shape.by_key(key);
        let version = shape.table.version().map(|at| shape.columns[at].name.to_string());
        if let Some(version) = &version {
            update.set.remove(version);
            update.add.insert(version, 1_i64);
            if let Some(expected) = expected {
                filter.insert(version, expected);
            }
        }
        if update.is_empty() {
            self.check_there(shape, key, expected).await?;
            return Ok(Outcome::rows(1));
        }
        if self.reads_before_write() && is_unique_of(shape, row) {
            self.check_there(shape, key, expected).await?;
            self.check_free(shape, row, Some(key)).await?;
        }
        let members = version.as_ref().map_or_else(|| doc! { "_id": 1 }, |name| doc! { name: 1 });
        let modified =
            self.database().modify(shape.name(), filter, update.into_document(), members).await?;
        match modified {
            Modified::Done(document) => {
                let version = version.map(|name| number(&document, &name) as i64);
                Ok(Outcome { version, ..Outcome::rows(1) })
            }
            Modified::Taken => {
                self.check_there(shape, key, expected).await?;
                Err(self.collision(shape, row, Some(key)).await?)
            }
            Modified::Missing => Err(self.not_written(shape, key, expected).await?),
        }
    }

    /// Adds to a field whose sum must satisfy its rules: compare-and-set, repeated while other
    /// writes intervene.
    async fn increment(
        &self,
        shape: &Shape,
        key: ValueRef<'_>,
        at: usize,
        by: ValueRef<'_>,
        stamp: ValueRef<'_>,
    ) -> Result<Outcome> {
        let table = &shape.table;
        let Some(field) = table.fields().get(at) else {
            let message = format!(
                "an increment uses field number {at}, which `{}` does not have",
                table.name()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        let refuse = |value: ValueRef<'_>, rule, message: &str| {
            Err(Error::invalid(vec![violation(field, value, rule, message)]))
        };
        let name = shape.columns[at].name.to_string();
        loop {
            let Some(current) = self.value(shape, key, at).await? else {
                return Err(not_found(table, key));
            };
            let sum = match (current.as_ref(), by) {
                (ValueRef::Int(a), ValueRef::Int(b)) => a.checked_add(b).map(Value::Int),
                (ValueRef::Currency(a), ValueRef::Currency(b)) => {
                    Currency::checked_add(a, b).map(Value::Currency)
                }
                (ValueRef::Null, _) => {
                    let message = "is null and cannot be incremented; set a value first";
                    return refuse(ValueRef::Null, "required", message);
                }
                _ => {
                    let message = "only integer and currency fields can be incremented, by a value \
                                   of the same kind";
                    return refuse(by, "type", message);
                }
            };
            let Some(sum) = sum else {
                return refuse(by, "range", "would make the sum larger than 64 bits allow");
            };
            let mut row = vec![ValueRef::Absent; shape.columns.len()];
            row[at] = sum.as_ref();
            table.validate(&row)?;
            if let Some(updated_at) = table.updated_at() {
                row[updated_at] = stamp;
            }
            if self.reads_before_write() && is_unique_of(shape, &row) {
                self.check_free(shape, &row, Some(key)).await?;
            }
            let mut update = shape.update(&row);
            let version = table.version().map(|at| shape.columns[at].name.to_string());
            if let Some(version) = &version {
                update.add.insert(version, 1_i64);
            }
            let mut filter = shape.by_key(key);
            filter.insert(&name, bson_of(current.as_ref()));
            let members =
                version.as_ref().map_or_else(|| doc! { "_id": 1 }, |name| doc! { name: 1 });
            let update = update.into_document();
            match self.database().modify(shape.name(), filter, update, members).await? {
                Modified::Done(document) => {
                    let version = version.map(|name| number(&document, &name) as i64);
                    return Ok(Outcome { version, value: sum, ..Outcome::rows(1) });
                }
                Modified::Taken => return Err(self.collision(shape, &row, Some(key)).await?),
                // Deleted, or changed since it was read.
                Modified::Missing => {}
            }
        }
    }

    async fn delete(
        &self,
        shape: &Shape,
        key: ValueRef<'_>,
        expected: Option<i64>,
    ) -> Result<Outcome> {
        let is_referred = !self.shared.referrers(shape.name()).is_empty();
        let _turn = self.turn(is_referred).await;
        if is_referred {
            self.check_there(shape, key, expected).await?;
            let own = [shape.key(key)];
            self.check_referrers(shape, &own, &own, Some(key)).await?;
        }
        let mut filter = shape.by_key(key);
        if let (Some(expected), Some(at)) = (expected, shape.table.version()) {
            filter.insert(shape.columns[at].name.to_string(), expected);
        }
        match self.database().delete(shape.name(), filter, true).await? {
            0 => Err(self.not_written(shape, key, expected).await?),
            rows => Ok(Outcome::rows(rows)),
        }
    }

    async fn delete_where(
        &self,
        shape: &Arc<Shape>,
        filter: Option<&FilterExpr>,
    ) -> Result<Outcome> {
        let is_related = filter.is_some_and(FilterExpr::has_relations);
        let is_referred = !self.shared.referrers(shape.name()).is_empty();
        let is_exact = is_related || matching(shape, filter).exact;
        let _turn = self.turn(is_related || is_referred || !is_exact).await;
        let filter = match filter {
            Some(filter) if is_related => {
                Some(Cow::Owned(resolved(&self.shared, self.database(), shape, filter).await?))
            }
            filter => filter.map(Cow::Borrowed),
        };
        let filter = filter.as_deref();
        let asked = matching(shape, filter);
        if asked.exact && !is_referred {
            let rows = self.database().delete(shape.name(), asked.document, false).await?;
            return Ok(Outcome::rows(rows));
        }
        let (at, mut keys) = (shape.table.key(), Vec::new());
        let key = FieldSet::EMPTY.with(at);
        each_selected(self.database(), shape, filter, key, None, |row| {
            keys.push(shape.key(row[at]));
            Ok(())
        })
        .await?;
        for some in keys.chunks(LIST_MAX) {
            self.check_referrers(shape, some, &keys, None).await?;
        }
        Ok(Outcome::rows(self.database().delete_keys(shape.name(), &keys).await?))
    }

    /// Refuses if the row does not exist or has another version.
    async fn check_there(
        &self,
        shape: &Shape,
        key: ValueRef<'_>,
        expected: Option<i64>,
    ) -> Result<()> {
        let Some(row) = self.row(shape, key).await? else {
            return Err(not_found(&shape.table, key));
        };
        let version = shape.table.version().and_then(|at| row[at].as_ref().as_int());
        match (version, expected) {
            (Some(version), Some(expected)) if version != expected => {
                Err(stale(&shape.table, key, version, expected))
            }
            _ => Ok(()),
        }
    }

    /// Returns the reason why the row with this key was not written.
    async fn not_written(
        &self,
        shape: &Shape,
        key: ValueRef<'_>,
        expected: Option<i64>,
    ) -> Result<Error> {
        Ok(match self.check_there(shape, key, expected).await {
            Err(error) => error,
            // It was inserted again meanwhile, with the expected version.
            Ok(()) => not_found(&shape.table, key),
        })
    }
}
