//! `POST /api/{table}` with an array: inserts all rows or none, at the speed of multi-row
//! statements.
//!
//! ```text
//! POST /api/person
//! Content-Type: application/json
//!
//! [{"name":"Ada Lovelace"},{"name":"Lise Meitner"}]
//!
//! HTTP/1.1 201 Created
//! Content-Type: application/json
//!
//! {"keys":[2,3]}
//! ```
//!
//! With `?on_conflict=ignore`, `replace` or `update` the response also has the effect on each row,
//! in the order of the array: `{"keys":[3,4],"effects":["ignored","inserted"]}`. An empty array
//! inserts nothing and is answered with `{"keys":[]}`.
//!
//! An error has the member `index`, the position of the row in the array, from 0:
//!
//! ```text
//! HTTP/1.1 422 Unprocessable Content
//! Content-Type: application/problem+json
//!
//! {"type":"urn:marmota:error:invalid",…,"status":422,…,"index":1,"errors":[{"field":"name",…}]}
//! ```
//!
//! The array is first split into the text of its objects. [`Objects`] parses one object at a time,
//! when the engine requests the next row, so that memory is not needed for all rows in parsed form.
//! The same source serves the lines of an NDJSON body.

use std::cell::Cell;

use marmota_http::Status;
use marmota_model::{
    Error, ErrorKind, FieldSet, NoRows, Result as ModelResult, RowSource, Scratch, Table, Value,
    ValueRef, json,
};
use marmota_store::operation::{Keys, OnConflict, Operation};
use marmota_store::prepare::{self, ValueSource, WriteTimestamp};
use marmota_web::{ApiError, ApiResult};
use serde_json::value::RawValue;

use crate::protocol::body::{self, empty_row};
use crate::protocol::refusal::at_index;
use crate::protocol::scratch_buffer::ScratchBuffer;
use crate::request::answer::{Answer, Head, JSON};
use crate::request::call::{Execute, Interrupt, Next, Verb};
use crate::request::params;
use crate::request::request_context::RequestContext;

/// The insert of an array, with the values that a repeated step must not generate again.
pub(crate) struct InsertMany {
    /// The time of the request, for the creation and update times of all rows.
    stamp: WriteTimestamp,
    /// The conflict action of the request. [`Objects::on_conflict_of_first`] adds the fields to
    /// update.
    on_conflict: OnConflict,
    /// The keys of the rows, if they are assigned before the engine; kept, so that a repeated step
    /// uses the same ones.
    keys: Vec<Value>,
}

impl InsertMany {
    /// Checks the head of the request. The body is parsed by the first step.
    ///
    /// # Errors
    /// 400 for a parameter other than `on_conflict` or an unknown action, 415 for a body that is
    /// not JSON.
    pub(crate) fn of(context: RequestContext<'_>) -> ApiResult<Self> {
        let on_conflict = params::on_conflict(context.request)?;
        body::check_json(context.request)?;
        Ok(Self { stamp: WriteTimestamp::now(context.table()), on_conflict, keys: Vec::new() })
    }
}

impl Verb for InsertMany {
    type Subject = Table;

    /// Inserts all rows in one operation and responds with 201 and the keys.
    ///
    /// # Errors
    /// - 400 if the body is not an array, or if rows that must have the same fields differ.
    /// - 422 with `index` for a row that violates a rule, and 409 for a conflict. Rules precede
    ///   conflicts: an invalid row is reported even if an earlier row conflicts with a stored one.
    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let table = context.table();
        let objects: Vec<&RawValue> = serde_json::from_slice(context.request.body())
            .map_err(|error| ApiError::bad_request(format!("the body is not JSON: {error}")))?;
        let scratch = Scratch::new();
        let refused = Cell::new(None);
        let mut outcome = None;
        if !objects.is_empty() {
            let keys = &mut self.keys;
            let mut rows = Objects::new(table, &objects, &scratch, self.stamp, keys, &refused);
            rows.on_conflict = self.on_conflict;
            let on_conflict = rows.on_conflict_of_first();
            let mut operation = Operation::InsertMany { table, rows: &mut rows, on_conflict };
            let ran = execute(&mut operation, &mut NoRows);
            outcome = Some(ran.map_err(|interrupt| match (interrupt, refused.get()) {
                (Interrupt::Failed(error), Some(index)) => {
                    Interrupt::Failed(at_index(error, index))
                }
                (Interrupt::Failed(error), None) => {
                    Interrupt::Failed(self.broken_rule(table, &objects, error))
                }
                (interrupt, _) => interrupt,
            })?);
        }
        if let Some(outcome) = &outcome {
            answer.committed(context.store, outcome);
        }
        let keys = outcome.map_or(Keys::Known, |outcome| outcome.keys);
        let mut body = ScratchBuffer::take();
        self.write_keys(table, &keys, objects.len(), &mut body);
        answer.whole(Head::new(Status::CREATED, JSON), &mut body);
        Ok(Next::Answered)
    }
}

impl InsertMany {
    /// Returns the error of the first row that violates a rule, else `error`.
    ///
    /// An engine stores rows in chunks, so it may find a conflict before it has read all rows.
    /// Without this check the reported error would depend on the size of the chunks. The rows are
    /// parsed a second time only after a failure that a row can cause; other errors are returned as
    /// they are.
    fn broken_rule(&mut self, table: &Table, objects: &[&RawValue], error: ApiError) -> ApiError {
        if !matches!(error.error().kind(), ErrorKind::Conflict | ErrorKind::Invalid) {
            return error;
        }
        let (scratch, refused) = (Scratch::new(), Cell::new(None));
        let mut rows = Objects::new(table, objects, &scratch, self.stamp, &mut self.keys, &refused);
        rows.on_conflict = self.on_conflict;
        let mut row = empty_row(table);
        loop {
            match (rows.next(&mut row), refused.get()) {
                (Ok(true), _) => {}
                (Err(broken), Some(index)) => return at_index(broken, index),
                _ => return error,
            }
        }
    }

    /// Appends the body of the response: the keys of all rows in the order of the array and, for an
    /// insert with a conflict action, the effects.
    ///
    /// `keys` is from the engine. [`Keys::Known`] means that the rows had their keys before the
    /// insert: those given by the client, and generated UUIDs. `rows` is the number of rows, for
    /// consecutive keys of which the engine returns only the first.
    fn write_keys(&self, table: &Table, keys: &Keys, rows: usize, body: &mut Vec<u8>) {
        let kind = &table.fields()[table.key()].kind;
        body.extend_from_slice(b"{\"keys\":[");
        let mut write = |value: ValueRef<'_>| {
            if body.last() != Some(&b'[') {
                body.push(b',');
            }
            json::write_value_as(body, kind, value);
        };
        match keys {
            Keys::Known => self.keys.iter().for_each(|key| write(key.as_ref())),
            Keys::One(key) => write(key.as_ref()),
            Keys::Range { first } => {
                (0..rows as i64).for_each(|offset| write(ValueRef::Int(first + offset)));
            }
            Keys::Each(keys) => keys.iter().for_each(|key| write(key.as_ref())),
            Keys::Upserted(rows) => rows.iter().for_each(|row| write(row.key.as_ref())),
        }
        if let Keys::Upserted(rows) = keys {
            body.extend_from_slice(b"],\"effects\":[");
            for (index, row) in rows.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                let effect = format!("{comma}\"{}\"", row.effect.name());
                body.extend_from_slice(effect.as_bytes());
            }
        }
        body.extend_from_slice(b"]}");
    }
}

/// The JSON of an object: a member of an array, or a line.
pub(crate) trait ObjectText<'a>: Copy {
    /// Returns the text of the object, which need not be valid.
    fn bytes(self) -> &'a [u8];
}

impl<'a> ObjectText<'a> for &'a RawValue {
    fn bytes(self) -> &'a [u8] {
        self.get().as_bytes()
    }
}

impl<'a> ObjectText<'a> for &'a [u8] {
    fn bytes(self) -> &'a [u8] {
        self
    }
}

/// Objects as a source of rows, which parses an object when its row is requested.
///
/// A source is created for each step. State that must survive a repeated step is borrowed: the
/// keys, and the index of the refused row.
pub(crate) struct Objects<'a, 'k, T> {
    table: &'a Table,
    objects: &'a [T],
    scratch: &'a Scratch,
    stamp: WriteTimestamp,
    /// Default: refuse. With an update, all rows must have the same fields.
    pub(crate) on_conflict: OnConflict,
    /// The fields present in the first row, with which the others are compared.
    given: Option<FieldSet>,
    keys: &'k mut Vec<Value>,
    index: usize,
    /// The index of the row that could not be read. It is set next to the error, because an error
    /// that passes through the engine has no index.
    refused: &'k Cell<Option<usize>>,
}

impl<'a, T: ObjectText<'a>> RowSource<'a> for Objects<'a, '_, T> {
    /// Returns the number of rows that follow, by which an engine chooses the size of its
    /// statements.
    fn remaining(&self) -> usize {
        self.objects.len() - self.index
    }

    /// Reads the next object into `row`, with its defaults, times and key; returns false after the
    /// last.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with all violations of the object; `refused` has its index then.
    fn next(&mut self, row: &mut [ValueRef<'a>]) -> ModelResult<bool> {
        let Some(object) = self.objects.get(self.index) else { return Ok(false) };
        self.read(object.bytes(), row).inspect_err(|_| self.refused.set(Some(self.index)))?;
        self.index += 1;
        Ok(true)
    }
}

impl<'a, 'k, T: ObjectText<'a>> Objects<'a, 'k, T> {
    /// Creates a source of these objects. Keys that are assigned before the engine are stored in
    /// `keys`; keys that are stored already are used again.
    pub(crate) const fn new(
        table: &'a Table,
        objects: &'a [T],
        scratch: &'a Scratch,
        stamp: WriteTimestamp,
        keys: &'k mut Vec<Value>,
        refused: &'k Cell<Option<usize>>,
    ) -> Self {
        let on_conflict = OnConflict::Refuse;
        Self { table, objects, scratch, stamp, on_conflict, given: None, keys, index: 0, refused }
    }

    /// Returns the conflict action: an update writes the fields that are present in the first row,
    /// which all others must have, too.
    pub(crate) fn on_conflict_of_first(&self) -> OnConflict {
        let (OnConflict::Update { .. }, Some(first)) = (self.on_conflict, self.objects.first())
        else {
            return self.on_conflict;
        };
        let mut row = empty_row(self.table);
        // Errors of this row are reported when it is read in turn.
        let _ = body::read_row(self.table, first.bytes(), self.scratch, &mut row, &mut Vec::new());
        self.on_conflict.with_given(self.table, FieldSet::present(&row))
    }

    /// Reads one object into `row` and completes it for the insert.
    ///
    /// Without a conflict action all rows must have a key, or none: a multi-row statement has one
    /// list of columns. With a conflict action each row's key is in the outcome, so rows may differ
    /// in this.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for violations, for other fields than those of the first row of an
    /// update, or for a key where the first row has none.
    fn read(&mut self, object: &'a [u8], row: &mut [ValueRef<'a>]) -> ModelResult<()> {
        let table = self.table;
        row.fill(ValueRef::Absent);
        let mut violations = Vec::new();
        body::read_row(table, object, self.scratch, row, &mut violations)?;
        if let OnConflict::Update { .. } = self.on_conflict {
            let given = FieldSet::present(row);
            if *self.given.get_or_insert(given) != given && violations.is_empty() {
                return Err(prepare::not_the_same_fields());
            }
        }
        if let (Some(Value::Uuid(known)), ValueRef::Absent | ValueRef::Null) =
            (self.keys.get(self.index), row[table.key()])
        {
            row[table.key()] = ValueRef::Uuid(*known);
        }
        prepare::insert_into(
            table,
            row,
            ValueSource::Values,
            self.stamp,
            self.scratch,
            &mut violations,
        );
        prepare::finish(violations)?;
        let key = row[table.key()];
        let keyed = !key.is_absent();
        if self.on_conflict != OnConflict::Refuse {
            // The outcome has the key of each row; generated UUIDs are kept.
            if self.keys.len() == self.index {
                self.keys.push(key.to_value());
            }
            return Ok(());
        }
        if self.index > 0 && keyed == self.keys.is_empty() {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the rows of an array must all have a key, or none; send two arrays, or a batch",
            ));
        }
        if keyed && self.keys.len() == self.index {
            self.keys.push(key.to_value());
        }
        Ok(())
    }
}
