//! The inserts of a batch, many per command.

use marmota_model::{Error, ErrorKind, KeyKind, Result, Value, ValueRef};
use marmota_store::operation::{Keys, OnConflict, Outcome, Write};
use marmota_store::refusal::copy_of;
use mongodb::bson::RawDocumentBuf;

use super::{Writer, borrowed};
use crate::shape::Shape;

impl Writer {
    /// Inserts rows of one table without references, each independently, and appends the result of
    /// each. One command has many rows; after a row that fails, the rest continues with a new
    /// command.
    ///
    /// # Errors
    /// The error that prevented the start.
    pub(crate) async fn insert_each(
        &self,
        writes: &[Write],
        results: &mut Vec<Result<Outcome>>,
    ) -> Result<()> {
        let rows: Vec<&Vec<Value>> = rows(writes).collect();
        let Some(first) = writes.first() else { return Ok(()) };
        let shape = self.shared.shape(first.table())?;
        let _turn = self.turn(false).await;
        let keyed = self.with_keys_given(&shape, &rows).await?;
        let documents: Vec<RawDocumentBuf> =
            keyed.iter().map(|row| shape.document(&borrowed(row))).collect();
        let at = shape.table.key();
        let mut done = 0;
        while done < rows.len() {
            // After a failed row, a new command starts.
            let Some(part) = self.database().parts(&documents[done..]).next() else { break };
            let (count, failed) = match self.database().insert(shape.name(), part).await {
                Ok(written) => match (written.taken, written.failed) {
                    (Some(taken), _) => (taken.unwrap_or(0), Some(None)),
                    (None, Some((failed, error))) => (failed, Some(Some(error))),
                    (None, None) => (part.len(), None),
                },
                Err(error) if is_all(&error) => {
                    results.extend(part.iter().map(|_| Err(copy_of(&error))));
                    done += part.len();
                    continue;
                }
                // One of the rows made the whole command fail; nothing was written.
                Err(_) => (0, Some(None)),
            };
            for (row, original) in keyed[done..done + count].iter().zip(&rows[done..]) {
                let given = original[at].as_ref().is_absent();
                results.push(Ok(inserted(&shape, row, given)));
            }
            done += count;
            match failed {
                None => continue,
                Some(Some(error)) => results.push(Err(error)),
                Some(None) => {
                    let row = self.insert_row(&shape, &borrowed(rows[done])).await;
                    results.push(row.map(|(key, given)| {
                        let mut row = rows[done].clone();
                        row[at] = key;
                        inserted(&shape, &row, given)
                    }));
                }
            }
            done += 1;
        }
        Ok(())
    }

    /// Inserts rows that either all have keys or all have none, all or nothing, and returns the
    /// result of each.
    ///
    /// # Errors
    /// The reason why a row was refused, or another error.
    pub(crate) async fn insert_together(
        &self,
        shape: &Shape,
        rows: &[Vec<Value>],
    ) -> Result<Vec<Outcome>> {
        let done = self.insert_many(shape, rows, OnConflict::Refuse).await?;
        let at = shape.table.key();
        let keys = match done.keys {
            Keys::Range { first } => Some(first..),
            _ => None,
        };
        let mut keys = keys.into_iter().flatten();
        Ok(rows
            .iter()
            .map(|row| match keys.next() {
                None => inserted(shape, row, false),
                Some(key) => {
                    let mut row = row.clone();
                    row[at] = Value::Int(key);
                    inserted(shape, &row, true)
                }
            })
            .collect())
    }

    /// Returns the rows, with automatic keys where keys are missing.
    async fn with_keys_given(
        &self,
        shape: &Shape,
        rows: &[&Vec<Value>],
    ) -> Result<Vec<Vec<Value>>> {
        let mut rows: Vec<Vec<Value>> = rows.iter().map(|row| (*row).clone()).collect();
        if shape.table.key_kind() != KeyKind::Auto {
            return Ok(rows);
        }
        let at = shape.table.key();
        if let Some(key) = rows.iter().filter_map(|row| row[at].as_ref().as_int()).max() {
            self.note_key(shape, ValueRef::Int(key)).await?;
        }
        let mut without: Vec<&mut Vec<Value>> =
            rows.iter_mut().filter(|row| row[at] == Value::Absent).collect();
        if !without.is_empty() {
            let first =
                self.take_keys(shape, i64::try_from(without.len()).unwrap_or(i64::MAX)).await?;
            for (row, key) in without.iter_mut().zip(first..) {
                row[at] = Value::Int(key);
            }
        }
        Ok(rows)
    }
}

fn rows(writes: &[Write]) -> impl Iterator<Item = &Vec<Value>> {
    writes.iter().filter_map(|write| match write {
        Write::Insert { row, .. } => Some(row),
        _ => None,
    })
}

/// Returns the rows of inserts, owned.
pub(crate) fn rows_of(writes: &[Write]) -> Vec<Vec<Value>> {
    rows(writes).cloned().collect()
}

/// Returns true for errors of the whole command, independent of its rows.
fn is_all(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Lost
            | ErrorKind::Io
            | ErrorKind::Timeout
            | ErrorKind::Closed
            | ErrorKind::Denied
    )
}

/// Returns the result of inserting a row.
fn inserted(shape: &Shape, row: &[Value], given: bool) -> Outcome {
    let keys = if given { Keys::One(row[shape.table.key()].clone()) } else { Keys::Known };
    let version = shape.table.version().and_then(|version| row[version].as_ref().as_int());
    Outcome { keys, version, ..Outcome::rows(1) }
}
