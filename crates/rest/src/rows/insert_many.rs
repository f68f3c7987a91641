//! `POST /api/{table}` with an array: inserts all rows or none, at the speed of multi-row
//! statements.

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

pub(crate) struct InsertMany {
    stamp: WriteTimestamp,
    on_conflict: OnConflict,
    /// The keys of the rows, if they are assigned before the engine; kept, so that a repeated step
    /// uses the same ones.
    keys: Vec<Value>,
}

impl InsertMany {
    pub(crate) fn of(context: RequestContext<'_>) -> ApiResult<Self> {
        let on_conflict = params::on_conflict(context.request)?;
        body::check_json(context.request)?;
        Ok(Self { stamp: WriteTimestamp::now(context.table()), on_conflict, keys: Vec::new() })
    }
}

impl Verb for InsertMany {
    type Subject = Table;

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
        let keys = outcome.map_or(Keys::Known, |outcome| outcome.keys);
        let mut body = ScratchBuffer::take();
        self.write_keys(table, &keys, objects.len(), &mut body);
        answer.whole(Head::new(Status::CREATED, JSON), &mut body);
        Ok(Next::Answered)
    }
}

impl InsertMany {
    /// Returns the error of the first row that violates a rule, else `error`. An engine stores rows
    /// in chunks, so it may find a conflict before it has read all of them.
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

/// The JSON of an object.
pub(crate) trait ObjectText<'a>: Copy {
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

/// Objects as a source of rows.
pub(crate) struct Objects<'a, 'k, T> {
    table: &'a Table,
    objects: &'a [T],
    scratch: &'a Scratch,
    stamp: WriteTimestamp,
    pub(crate) on_conflict: OnConflict,
    /// The fields present in the first row.
    given: Option<FieldSet>,
    keys: &'k mut Vec<Value>,
    index: usize,
    /// The index of the refused row.
    refused: &'k Cell<Option<usize>>,
}

impl<'a, T: ObjectText<'a>> RowSource<'a> for Objects<'a, '_, T> {
    fn remaining(&self) -> usize {
        self.objects.len() - self.index
    }

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
        prepare::insert_into(table, row, ValueSource::Values, self.stamp, &mut violations);
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
