//! Writes of many rows, all or nothing. If a row fails, the rows before it are undone by their
//! transaction or, if the server has none, row by row: then other clients may have seen them
//! meanwhile.

use std::collections::{HashMap, HashSet};

use marmota_model::{Error, KeyKind, Result, Value, ValueRef};
use marmota_store::operation::{Keys, OnConflict, Outcome, UpsertEffect, UpsertResult};
use marmota_store::refusal::{mixed_keys, not_found};
use mongodb::bson::{Bson, RawDocumentBuf, doc};

use super::lookup::{is_unique_of, no_targets, references, refers, unique_sets};
use super::{Writer, borrowed};
use crate::database::Find;
use crate::database::undo_steps::Undo;
use crate::database::writes::LIST_MAX;
use crate::shape::Shape;

/// The number of a refused row, and the error.
type Refused = (usize, Error);

impl Writer {
    pub(crate) async fn insert_many(
        &self,
        shape: &Shape,
        rows: &[Vec<Value>],
        on_conflict: OnConflict,
    ) -> Result<Outcome> {
        let _turn = self.turn(true).await;
        if on_conflict != OnConflict::Refuse {
            return self.put_many(shape, rows, on_conflict).await;
        }
        let at = shape.table.key();
        let is_auto = shape.table.key_kind() == KeyKind::Auto;
        let given = is_auto && rows.first().is_some_and(|row| row[at] == Value::Absent);
        if let Some(other) = rows.iter().position(|row| (row[at] == Value::Absent) != given) {
            return Err(mixed_keys(other));
        }
        let mut rows = rows.to_vec();
        let mut first = None;
        if given {
            let start =
                self.take_keys(shape, i64::try_from(rows.len()).unwrap_or(i64::MAX)).await?;
            first = Some(start);
            for (row, key) in rows.iter_mut().zip(start..) {
                row[at] = Value::Int(key);
            }
        } else if is_auto
            && let Some(key) = rows.iter().filter_map(|row| row[at].as_ref().as_int()).max()
        {
            self.note_key(shape, ValueRef::Int(key)).await?;
        }
        let mut undo = Undo::default();
        let done = self.insert_all(shape, &rows, &mut undo).await;
        self.keep(shape, done, undo).await?;
        let keys = first.map_or(Keys::Known, |first| Keys::Range { first });
        Ok(Outcome { keys, ..Outcome::rows(rows.len() as u64) })
    }

    /// Undoes the rows written so far, unless all were written.
    async fn keep(
        &self,
        shape: &Shape,
        done: Result<Result<(), Refused>>,
        undo: Undo,
    ) -> Result<()> {
        let error = match done {
            Ok(Ok(())) => return Ok(()),
            Ok(Err((row, error))) => error.at(format_args!("row {row}")),
            Err(error) => error,
        };
        self.undo(undo, shape).await?;
        Err(error)
    }

    async fn insert_all(
        &self,
        shape: &Shape,
        rows: &[Vec<Value>],
        undo: &mut Undo,
    ) -> Result<Result<(), Refused>> {
        let lost = self.first_without_target(shape, rows, true).await?;
        let end = lost.as_ref().map_or(rows.len(), |(row, _)| *row);
        if self.reads_before_write()
            && let Some(refused) = self.first_taken(shape, &rows[..end]).await?
        {
            return Ok(Err(refused));
        }
        let documents: Vec<RawDocumentBuf> =
            rows[..end].iter().map(|row| shape.document(&borrowed(row))).collect();
        let mut done = 0;
        for part in self.database().parts(&documents) {
            let written = self.database().insert(shape.name(), part).await?;
            let taken = written.taken.map(|at| at.unwrap_or(0));
            let failed = written.failed.as_ref().map(|(at, _)| *at);
            let count = taken.or(failed).unwrap_or(part.len());
            for row in &rows[done..done + count] {
                undo.inserted(shape.key(row[shape.table.key()].as_ref()));
            }
            done += count;
            if let Some((_, error)) = written.failed {
                return Ok(Err((done, error)));
            }
            if taken.is_some() {
                let row = borrowed(&rows[done]);
                return Ok(Err((done, self.collision(shape, &row, None).await?)));
            }
        }
        let Some((row, missing)) = lost else { return Ok(Ok(())) };
        let values = borrowed(&rows[row]);
        let there = self.in_the_way(shape, &values, None).await?;
        let error = match there.is_empty() {
            true => no_targets(shape, &values, &missing),
            false => self.collision(shape, &values, None).await?,
        };
        Ok(Err((row, error)))
    }

    /// Returns the first row with references to missing rows, and the fields of those references.
    /// Rows that are inserted together may refer to each other.
    async fn first_without_target(
        &self,
        shape: &Shape,
        rows: &[Vec<Value>],
        together: bool,
    ) -> Result<Option<(usize, Vec<usize>)>> {
        let mut sought: HashMap<String, Vec<Bson>> = HashMap::new();
        for row in rows {
            for (_, to, value) in references(shape, &borrowed(row)) {
                let Some(target) = self.shared.named(to) else { continue };
                let (list, value) = (sought.entry(to.to_owned()).or_default(), target.key(value));
                if !list.contains(&value) {
                    list.push(value);
                }
            }
        }
        if sought.is_empty() {
            return Ok(None);
        }
        let mut there: HashMap<String, Vec<Bson>> = HashMap::new();
        for (table, keys) in sought {
            let target = self.shared.named(&table);
            let found = there.entry(table.clone()).or_default();
            for keys in keys.chunks(LIST_MAX) {
                let Some(target) = &target else { continue };
                // Other clients must not delete them before the transaction ends.
                if self.reads_before_write() {
                    self.database().hold_keys(target.name(), keys).await?;
                }
                let documents = self.with_keys(target, keys, true).await?;
                let keys =
                    documents.iter().filter_map(|document| document.get("_id").ok().flatten());
                found.extend(keys.filter_map(|key| Bson::try_from(key).ok()));
            }
        }
        if together {
            let own = there.entry(shape.name().to_owned()).or_default();
            own.extend(rows.iter().map(|row| shape.key(row[shape.table.key()].as_ref())));
        }
        for (number, row) in rows.iter().enumerate() {
            let row = borrowed(row);
            let missing = references(shape, &row).filter(|(_, to, value)| {
                let key = self.shared.named(to).map(|target| target.key(*value));
                there.get(*to).is_none_or(|keys| key.is_none_or(|key| !keys.contains(&key)))
            });
            let missing: Vec<usize> = missing.map(|(at, ..)| at).collect();
            if !missing.is_empty() {
                return Ok(Some((number, missing)));
            }
        }
        Ok(None)
    }

    /// Returns the documents with these keys, or only their keys.
    async fn with_keys(
        &self,
        shape: &Shape,
        keys: &[Bson],
        only_keys: bool,
    ) -> Result<Vec<RawDocumentBuf>> {
        let find = Find {
            collection: shape.name().to_owned(),
            filter: doc! { "_id": { "$in": keys } },
            projection: only_keys.then(|| doc! { "_id": 1 }),
            ..Find::default()
        };
        self.database().fetch(&find).await
    }

    async fn put_many(
        &self,
        shape: &Shape,
        rows: &[Vec<Value>],
        on_conflict: OnConflict,
    ) -> Result<Outcome> {
        let is_by_key = unique_sets(shape).len() == 1
            && on_conflict != OnConflict::Replace
            && rows.iter().all(|row| {
                row[shape.table.key()] != Value::Absent && !refers(shape, &borrowed(row))
            });
        if is_by_key {
            return self.put_by_key(shape, rows, on_conflict).await;
        }
        let (mut placed, mut count) = (Vec::with_capacity(rows.len()), 0);
        let mut undo = Some(Undo::default());
        for (number, row) in rows.iter().enumerate() {
            match self.put(shape, &borrowed(row), on_conflict, &mut undo).await {
                Ok((row, _)) => {
                    count += u64::from(row.effect != UpsertEffect::Ignored);
                    placed.push(row);
                }
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => {
                    self.undo(undo.unwrap_or_default(), shape).await?;
                    return Err(error.at(format_args!("row {number}")));
                }
            }
        }
        Ok(Outcome { keys: Keys::Upserted(placed), ..Outcome::rows(count) })
    }

    /// Like [`Self::put_many`], for tables where only the key can conflict: new rows are inserted
    /// together, the others updated together.
    async fn put_by_key(
        &self,
        shape: &Shape,
        rows: &[Vec<Value>],
        on_conflict: OnConflict,
    ) -> Result<Outcome> {
        let at = shape.table.key();
        let keys: Vec<Bson> = rows.iter().map(|row| shape.key(row[at].as_ref())).collect();
        let mut there: HashSet<String> = HashSet::new();
        for keys in keys.chunks(LIST_MAX) {
            for document in self.with_keys(shape, keys, true).await? {
                if let Ok(Some(key)) = document.get("_id").map(|key| key.map(Bson::try_from)) {
                    there.extend(key.map(|key| key.to_string()));
                }
            }
        }
        let (mut new, mut again, mut placed) = (Vec::new(), Vec::new(), Vec::new());
        for (row, key) in rows.iter().zip(&keys) {
            let is_new = there.insert(key.to_string());
            let effect = match (is_new, on_conflict) {
                (true, _) => UpsertEffect::Inserted,
                (false, OnConflict::Update { .. }) => UpsertEffect::Updated,
                (false, _) => UpsertEffect::Ignored,
            };
            placed.push(UpsertResult { key: row[at].clone(), effect });
            match (effect, on_conflict) {
                (UpsertEffect::Inserted, _) => new.push(row.clone()),
                (UpsertEffect::Updated, OnConflict::Update { fields }) => {
                    let mut row = row.clone();
                    for field in (0..row.len()).filter(|&field| field != at) {
                        if !fields.contains(field) {
                            row[field] = Value::Absent;
                        }
                    }
                    again.push(row);
                }
                _ => {}
            }
        }
        if let Some(key) = rows.iter().filter_map(|row| row[at].as_ref().as_int()).max() {
            self.note_key(shape, ValueRef::Int(key)).await?;
        }
        let mut undo = Undo::default();
        let mut done = self.insert_all(shape, &new, &mut undo).await;
        if matches!(done, Ok(Ok(()))) {
            done = self.update_all(shape, &again, &mut undo).await;
        }
        self.keep(shape, done, undo).await?;
        let count = (new.len() + again.len()) as u64;
        Ok(Outcome { keys: Keys::Upserted(placed), ..Outcome::rows(count) })
    }

    pub(crate) async fn update_many(&self, shape: &Shape, rows: &[Vec<Value>]) -> Result<Outcome> {
        let _turn = self.turn(true).await;
        let mut undo = Undo::default();
        let done = self.update_all(shape, rows, &mut undo).await;
        self.keep(shape, done, undo).await?;
        Ok(Outcome::rows(rows.len() as u64))
    }

    async fn update_all(
        &self,
        shape: &Shape,
        rows: &[Vec<Value>],
        undo: &mut Undo,
    ) -> Result<Result<(), Refused>> {
        let key = shape.table.key();
        let mut before: HashMap<String, RawDocumentBuf> = HashMap::new();
        let keys: Vec<Bson> = rows.iter().map(|row| shape.key(row[key].as_ref())).collect();
        for keys in keys.chunks(LIST_MAX) {
            for document in self.with_keys(shape, keys, false).await? {
                if let Some(key) = shape.key_of(&document) {
                    before.insert(shape.key(key.as_ref()).to_string(), document);
                }
            }
        }
        let there = |row: &Vec<Value>| before.get(&shape.key(row[key].as_ref()).to_string());
        let lost = self.first_without_target(shape, rows, false).await?;
        let unknown = rows.iter().position(|row| there(row).is_none());
        let stop = lost.as_ref().map(|(row, _)| *row).into_iter().chain(unknown).min();
        let end = stop.unwrap_or(rows.len());
        let mut done = 0;
        // In a transaction, each row is checked before the next one is written.
        let looks =
            self.reads_before_write() && rows.iter().any(|row| is_unique_of(shape, &borrowed(row)));
        let most = if looks { 1 } else { self.database().updates_max() };
        for part in rows[..end].chunks(most) {
            if looks && let Some(row) = part.first() {
                let row = borrowed(row);
                if let Some(error) = self.refusal(shape, &row, Some(row[key])).await? {
                    return Ok(Err((done, error)));
                }
            }
            let updates = part.iter().map(|row| update_of(shape, &borrowed(row))).collect();
            let written = self.database().update(shape, updates).await?;
            let taken = written.taken;
            let count = match taken {
                None => written.failed.as_ref().map_or(part.len(), |(at, _)| *at),
                Some(Some(at)) => at,
                // It is unknown which row it was and what was done before it: restore the rows and
                // update them one by one.
                Some(None) => {
                    let mut again = Undo::default();
                    part.iter().filter_map(there).for_each(|old| again.replaced(old.clone()));
                    self.undo(again, shape).await?;
                    self.update_one_by_one(shape, part).await?
                }
            };
            part[..count].iter().filter_map(there).for_each(|old| undo.replaced(old.clone()));
            done += count;
            if let Some((_, error)) = written.failed {
                return Ok(Err((done, error)));
            }
            if taken.is_some() && count < part.len() {
                let row = borrowed(&rows[done]);
                let error = self.collision(shape, &row, Some(row[key])).await?;
                return Ok(Err((done, error)));
            }
        }
        let Some(row) = stop else { return Ok(Ok(())) };
        let values = borrowed(&rows[row]);
        if unknown == Some(row) {
            return Ok(Err((row, not_found(&shape.table, values[key]))));
        }
        let missing = lost.map(|(_, missing)| missing).unwrap_or_default();
        Ok(Err((row, no_targets(shape, &values, &missing))))
    }

    /// Updates rows until one is refused. Returns the number of updated rows.
    async fn update_one_by_one(&self, shape: &Shape, rows: &[Vec<Value>]) -> Result<usize> {
        for (number, row) in rows.iter().enumerate() {
            let update = update_of(shape, &borrowed(row));
            if self.database().update(shape, vec![update]).await?.checked()?.taken.is_some() {
                return Ok(number);
            }
        }
        Ok(rows.len())
    }
}

/// Returns the statement that writes a row's fields and increments its version.
fn update_of(shape: &Shape, row: &[ValueRef<'_>]) -> mongodb::bson::Document {
    let mut update = shape.update(row);
    if let Some(at) = shape.table.version() {
        let version = shape.columns[at].name.to_string();
        update.set.remove(&version);
        update.add.insert(version, 1_i64);
    }
    let key = shape.key(row[shape.table.key()]);
    // An update without operators would replace the document by an empty one.
    let update = match update.is_empty() {
        true => doc! { "$unset": { "_nothing": "" } },
        false => update.into_document(),
    };
    doc! { "q": { "_id": key }, "u": update }
}
