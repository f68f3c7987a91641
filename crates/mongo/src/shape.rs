//! The document form of a table: the member for each field, and the BSON form of its values.
//!
//! | field | in the document |
//! |---|---|
//! | the key | `_id` |
//! | bool, integer, float, text | the same |
//! | currency | a 64-bit integer: ten-thousandths |
//! | date | a date, at midnight UTC |
//! | time | a 64-bit integer: microseconds since midnight |
//! | timestamp | a date; microseconds beyond its milliseconds in `_order` |
//! | uuid | bytes of subtype 4 |
//! | blob | bytes of subtype 0 |
//! | json | a nested document or array (`shape/json.rs`) |
//! | NULL | nothing |
//!
//! `_order` is a document with the values that a field compares and sorts by if its own value does
//! not suffice: a case-insensitive text in lower case, and the microseconds of a timestamp.

pub(crate) mod json;

use std::collections::HashMap;
use std::sync::Arc;

use marmota_model::{
    Collation, Currency, Date, Error, ErrorKind, FieldSet, Kind, Result, Table, Time, Timestamp,
    Uuid, Value, ValueForm, ValueRef,
};
use mongodb::bson::raw::{CStr, CString, RawBinaryRef, RawBsonRef, RawDocument};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{DateTime, Document, RawDocumentBuf, doc};

/// The member with the values that fields compare by.
const ORDER: &str = "_order";
/// Counts how often transactions kept the document ([`Database::hold`]). No field can have this
/// name.
///
/// [`Database::hold`]: crate::database::Database::hold
pub(crate) const HELD: &str = "_order.#held";
const DAY_MS: i64 = 86_400_000;

/// The document form of a table.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) table: Arc<Table>,
    pub(crate) columns: Vec<Column>,
    by_name: HashMap<String, usize>,
}

/// The document form of a field.
#[derive(Debug)]
pub(crate) struct Column {
    /// The member of the document.
    pub(crate) name: CString,
    pub(crate) form: ValueForm,
    pub(crate) order_part: Option<OrderPart>,
}

/// The part of a field that is in [`ORDER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderPart {
    /// The text with A to Z in lower case.
    Folded,
    /// The microseconds beyond the milliseconds, unless they are 0.
    Micros,
    /// For a case-insensitive key, the text as it was written: `_id` itself has it in lower case.
    Written,
}

impl Column {
    /// Returns the path of the field's member in [`ORDER`].
    pub(crate) fn order_path(&self) -> String {
        format!("{ORDER}.{}", self.name)
    }

    /// Returns the paths that rows sort by, in order.
    pub(crate) fn sort_paths(&self) -> Vec<String> {
        match self.order_part {
            None => vec![self.name.to_string()],
            Some(OrderPart::Folded) => vec![self.order_path()],
            Some(OrderPart::Micros) => vec![self.name.to_string(), self.order_path()],
            Some(OrderPart::Written) => vec![self.name.to_string()],
        }
    }

    /// Returns the value of the field's own member.
    pub(crate) fn bson(&self, value: ValueRef<'_>) -> mongodb::bson::Bson {
        match (self.order_part, value) {
            (Some(OrderPart::Written), ValueRef::Text(text)) => text.to_ascii_lowercase().into(),
            (_, value) => bson_of(value),
        }
    }

    /// Returns the value of the field's member in [`ORDER`].
    pub(crate) fn order_part(&self, value: ValueRef<'_>) -> Option<mongodb::bson::Bson> {
        match (self.order_part?, value) {
            (OrderPart::Folded, ValueRef::Text(text)) => Some(text.to_ascii_lowercase().into()),
            (OrderPart::Micros, ValueRef::Timestamp(at)) => {
                let rest = at.micros().rem_euclid(1_000) as i32;
                (rest != 0).then(|| rest.into())
            }
            (OrderPart::Written, ValueRef::Text(text)) => Some(text.into()),
            _ => None,
        }
    }
}

impl Shape {
    /// # Errors
    /// [`ErrorKind::Unsupported`] for a model that cannot be stored in documents.
    pub(crate) fn new(table: &Arc<Table>) -> Result<Self> {
        let mut columns = Vec::with_capacity(table.fields().len());
        for (position, field) in table.fields().iter().enumerate() {
            let is_key = position == table.key();
            let refuse = |why: &str| {
                let (field, table) = (&field.name, table.name());
                let message = format!("field `{field}` of model `{table}`: {why}");
                Err(Error::new(ErrorKind::Unsupported, message))
            };
            if field.name == ORDER || field.name == "_id" && !is_key {
                return refuse("the engine uses this name itself; rename the field");
            }
            let order_part = match (&field.kind, field.kind.collation()) {
                (_, Collation::NoCase) if is_key => Some(OrderPart::Written),
                (_, Collation::NoCase) => Some(OrderPart::Folded),
                (Kind::Timestamp, _) => Some(OrderPart::Micros),
                _ => None,
            };
            let name = if is_key { "_id" } else { &*field.name };
            let Ok(name) = <&CStr>::try_from(name) else {
                return refuse(
                    "the name contains a NUL \
                                                                         character",
                );
            };
            let form = field.kind.form();
            columns.push(Column { name: name.to_owned(), form, order_part });
        }
        let names = columns.iter().enumerate();
        let by_name = names.map(|(at, column)| (column.name.to_string(), at)).collect();
        Ok(Self { table: Arc::clone(table), columns, by_name })
    }

    /// Returns the collection's name.
    pub(crate) fn name(&self) -> &str {
        self.table.name()
    }

    /// Returns the document of a row. NULL and absent values are omitted.
    pub(crate) fn document(&self, row: &[ValueRef<'_>]) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        let key = self.table.key();
        match (self.columns[key].order_part, row[key]) {
            (Some(OrderPart::Written), ValueRef::Text(text)) => {
                document.append(&self.columns[key].name, text.to_ascii_lowercase().as_str());
            }
            (_, value) => append(&mut document, &self.columns[key].name, value),
        }
        for (at, value) in row.iter().enumerate().filter(|(at, _)| *at != key) {
            append(&mut document, &self.columns[at].name, *value);
        }
        let mut order = RawDocumentBuf::new();
        for (column, value) in self.columns.iter().zip(row) {
            match column.order_part(*value) {
                Some(mongodb::bson::Bson::String(text)) => order.append(&column.name, &*text),
                Some(mongodb::bson::Bson::Int32(rest)) => order.append(&column.name, rest),
                _ => {}
            }
        }
        if !order.is_empty() {
            document.append(mongodb::bson::raw::cstr!("_order"), order);
        }
        document
    }

    /// Returns the update that writes the present fields of a row.
    pub(crate) fn update(&self, row: &[ValueRef<'_>]) -> Update {
        let mut update = Update::default();
        for (at, value) in row.iter().enumerate() {
            if value.is_absent() || at == self.table.key() {
                continue;
            }
            let column = &self.columns[at];
            match value.is_null() {
                true => drop(update.unset.insert(column.name.to_string(), "")),
                false => drop(update.set.insert(column.name.to_string(), bson_of(*value))),
            }
            if column.order_part.is_some() {
                match column.order_part(*value) {
                    Some(order_part) => drop(update.set.insert(column.order_path(), order_part)),
                    None => drop(update.unset.insert(column.order_path(), "")),
                }
            }
        }
        update
    }

    /// Returns the members that a read of these fields needs, or `None` for all.
    pub(crate) fn projection(&self, fields: FieldSet) -> Option<Document> {
        if self.table.all().iter().all(|field| fields.contains(field)) {
            return None;
        }
        let mut members = doc! { "_id": 1 };
        for (at, column) in self.columns.iter().enumerate() {
            if !fields.contains(at) {
                continue;
            }
            members.insert(column.name.to_string(), 1);
            if matches!(column.order_part, Some(OrderPart::Micros | OrderPart::Written)) {
                members.insert(column.order_path(), 1);
            }
        }
        Some(members)
    }

    /// Returns the `_id` of a key.
    pub(crate) fn key(&self, key: ValueRef<'_>) -> mongodb::bson::Bson {
        self.columns[self.table.key()].bson(key)
    }

    /// Returns the query for the document with this key.
    pub(crate) fn by_key(&self, key: ValueRef<'_>) -> Document {
        doc! { "_id": self.key(key) }
    }

    /// Returns the key of a document, as callers see it.
    pub(crate) fn key_of(&self, document: &RawDocument) -> Option<Value> {
        let column = &self.columns[self.table.key()];
        let value = document.get("_id").ok().flatten()?;
        let order = document.get(ORDER).ok().flatten().and_then(|order| order.as_document());
        let key = match column.order_part {
            Some(OrderPart::Written) => written(value, order),
            _ => read(column.form, value, &[]),
        };
        key.map(|key| key.to_value())
    }

    /// Returns the column with a member's name. It is often the next one, or a few further if NULLs
    /// were omitted.
    fn column_near(&self, next: usize, name: &str) -> Option<usize> {
        const NEAR: usize = 3;
        let near = self.columns.iter().enumerate().skip(next).take(NEAR);
        let found = near.into_iter().find(|(_, column)| column.name.as_str() == name);
        found.map(|(at, _)| at).or_else(|| self.column_of(name))
    }

    /// Returns the column with a member's name.
    pub(crate) fn column_of(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
}

/// An update with MongoDB's operators.
#[derive(Debug, Default)]
pub(crate) struct Update {
    pub(crate) set: Document,
    pub(crate) unset: Document,
    pub(crate) add: Document,
}

impl Update {
    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.unset.is_empty() && self.add.is_empty()
    }

    pub(crate) fn into_document(self) -> Document {
        let mut update = Document::new();
        let operators = [("$set", self.set), ("$unset", self.unset), ("$inc", self.add)];
        for (name, members) in operators.into_iter().filter(|(_, members)| !members.is_empty()) {
            update.insert(name, members);
        }
        update
    }
}

fn millis(at: Timestamp) -> i64 {
    at.micros().div_euclid(1_000)
}

/// Converts a value to BSON. NULL and absent values become `null`.
pub(crate) fn bson_of(value: ValueRef<'_>) -> mongodb::bson::Bson {
    use mongodb::bson::{Binary, Bson};
    match value {
        ValueRef::Absent | ValueRef::Null => Bson::Null,
        ValueRef::Bool(value) => Bson::Boolean(value),
        ValueRef::Int(value) => Bson::Int64(value),
        ValueRef::Float(value) => Bson::Double(value),
        ValueRef::Currency(value) => Bson::Int64(value.scaled()),
        ValueRef::Text(text) => Bson::String(text.to_owned()),
        ValueRef::Date(day) => DateTime::from_millis(i64::from(day.days()) * DAY_MS).into(),
        ValueRef::Time(time) => Bson::Int64(time.micros()),
        ValueRef::Timestamp(at) => DateTime::from_millis(millis(at)).into(),
        ValueRef::Uuid(value) => {
            let bytes = value.as_bytes().to_vec();
            Bson::Binary(Binary { subtype: BinarySubtype::Uuid, bytes })
        }
        ValueRef::Blob(bytes) => {
            Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() })
        }
        ValueRef::Json(text) => match json::nested(text).map(Bson::try_from) {
            Some(Ok(value)) => value,
            _ => Bson::Binary(Binary { subtype: json::SUBTYPE, bytes: text.as_bytes().to_vec() }),
        },
    }
}

/// Appends a value unless it is NULL or absent.
pub(crate) fn append(document: &mut RawDocumentBuf, name: &CStr, value: ValueRef<'_>) {
    let bytes = |subtype, bytes| RawBsonRef::Binary(RawBinaryRef { subtype, bytes });
    match value {
        ValueRef::Absent | ValueRef::Null => {}
        ValueRef::Bool(value) => document.append(name, value),
        ValueRef::Int(value) => document.append(name, value),
        ValueRef::Float(value) => document.append(name, value),
        ValueRef::Currency(value) => document.append(name, value.scaled()),
        ValueRef::Text(text) => document.append(name, text),
        ValueRef::Date(day) => {
            document.append(name, DateTime::from_millis(i64::from(day.days()) * DAY_MS));
        }
        ValueRef::Time(time) => document.append(name, time.micros()),
        ValueRef::Timestamp(at) => document.append(name, DateTime::from_millis(millis(at))),
        ValueRef::Uuid(value) => {
            document.append(name, bytes(BinarySubtype::Uuid, value.as_bytes()));
        }
        ValueRef::Blob(blob) => document.append(name, bytes(BinarySubtype::Generic, blob)),
        ValueRef::Json(text) => match json::nested(text) {
            Some(value) => document.append(name, value),
            None => document.append(name, bytes(json::SUBTYPE, text.as_bytes())),
        },
    }
}

/// Converts documents to borrowed rows. Reuses its memory.
#[derive(Debug)]
pub(crate) struct Lender {
    shape: Arc<Shape>,
    fields: FieldSet,
    /// The JSON text of nested documents, by field.
    texts: Vec<Vec<u8>>,
}

impl Lender {
    /// Returns a converter for these fields; others are absent.
    pub(crate) fn new(shape: &Arc<Shape>, fields: FieldSet) -> Self {
        let texts = vec![Vec::new(); shape.columns.len()];
        Self { shape: Arc::clone(shape), fields, texts }
    }

    /// Passes a document to `take` as a row.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] for a value of the wrong type for its field.
    pub(crate) fn lend<T>(
        &mut self,
        document: &RawDocument,
        take: impl FnOnce(&[ValueRef<'_>]) -> T,
    ) -> Result<T> {
        let columns = &self.shape.columns;
        // JSON texts are written first, since the row borrows them.
        let (mut order, mut next) = (None, 0);
        for (name, value) in document.iter().map_while(Result::ok) {
            if name.as_str() == ORDER {
                order = value.as_document();
            } else if let Some(at) = self.shape.column_near(next, name.as_str()) {
                next = at + 1;
                if columns[at].form == ValueForm::Json && !json::is_text(value) {
                    self.texts[at].clear();
                    json::write(&mut self.texts[at], value);
                }
            }
        }
        let mut row = [ValueRef::Absent; FieldSet::CAPACITY];
        for (at, value) in row[..columns.len()].iter_mut().enumerate() {
            if self.fields.contains(at) {
                *value = ValueRef::Null;
            }
        }
        let mut next = 0;
        for element in document {
            let (name, value) = element.map_err(|error| damaged(&self.shape, &error))?;
            let Some(at) = self.shape.column_near(next, name.as_str()) else { continue };
            next = at + 1;
            if !self.fields.contains(at) || matches!(value, RawBsonRef::Null) {
                continue;
            }
            let read = match columns[at].form {
                ValueForm::Timestamp => timestamp(&columns[at], value, order),
                ValueForm::Text if columns[at].order_part == Some(OrderPart::Written) => {
                    written(value, order)
                }
                form => read(form, value, &self.texts[at]),
            };
            row[at] = read.ok_or_else(|| misfit(&self.shape, at, value))?;
        }
        Ok(take(&row[..columns.len()]))
    }
}

fn timestamp<'d>(
    column: &Column,
    value: RawBsonRef<'_>,
    order: Option<&RawDocument>,
) -> Option<ValueRef<'d>> {
    let rest = order.and_then(|order| order.get_i32(column.name.as_str()).ok()).unwrap_or(0);
    let micros = value.as_datetime()?.timestamp_millis().checked_mul(1_000)?;
    let micros = micros.checked_add(i64::from(rest))?;
    Timestamp::from_micros(micros).ok().map(ValueRef::Timestamp)
}

/// Returns the text of a case-insensitive key as it was written.
fn written<'d>(value: RawBsonRef<'d>, order: Option<&'d RawDocument>) -> Option<ValueRef<'d>> {
    let text = order.and_then(|order| order.get_str("_id").ok());
    text.or_else(|| value.as_str()).map(ValueRef::Text)
}

fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int64(value) => Some(value),
        RawBsonRef::Int32(value) => Some(value.into()),
        // Written by programs in JavaScript.
        RawBsonRef::Double(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
            Some(value as i64)
        }
        _ => None,
    }
}

/// Reads a value of a field; `text` is the JSON of a nested document.
fn read<'d>(form: ValueForm, value: RawBsonRef<'d>, text: &'d [u8]) -> Option<ValueRef<'d>> {
    Some(match form {
        ValueForm::Bool => ValueRef::Bool(value.as_bool()?),
        ValueForm::Int => ValueRef::Int(integer(value)?),
        ValueForm::Float => ValueRef::Float(match value {
            RawBsonRef::Double(value) if value.is_finite() => value,
            other => integer(other)? as f64,
        }),
        ValueForm::Currency => ValueRef::Currency(Currency::from_scaled(integer(value)?)),
        ValueForm::Text => ValueRef::Text(value.as_str()?),
        ValueForm::Blob => ValueRef::Blob(value.as_binary()?.bytes),
        ValueForm::Json => ValueRef::Json(match value {
            value if json::is_text(value) => std::str::from_utf8(value.as_binary()?.bytes).ok()?,
            _ => std::str::from_utf8(text).ok()?,
        }),
        ValueForm::Date => {
            let days = value.as_datetime()?.timestamp_millis().div_euclid(DAY_MS);
            ValueRef::Date(Date::from_days(i32::try_from(days).ok()?).ok()?)
        }
        ValueForm::Time => ValueRef::Time(Time::from_micros(integer(value)?).ok()?),
        ValueForm::Timestamp => return None,
        ValueForm::Uuid => ValueRef::Uuid(Uuid::from_slice(value.as_binary()?.bytes).ok()?),
    })
}

#[cold]
fn misfit(shape: &Shape, at: usize, value: RawBsonRef<'_>) -> Error {
    let field = &shape.table.fields()[at];
    let (mut there, table) = (Vec::new(), shape.name());
    json::write(&mut there, value);
    let there = marmota_model::text::excerpt(&String::from_utf8_lossy(&there));
    let (name, kind) = (&field.name, field.kind.name());
    Error::new(
        ErrorKind::Engine,
        format!(
            "field `{name}` of `{table}` has the value {there}, which is not a {kind}: another \
             program wrote this value; correct it in the database"
        ),
    )
}

#[cold]
fn damaged(shape: &Shape, error: &mongodb::bson::error::Error) -> Error {
    let message = format!("a document of `{}` is damaged: {error}", shape.name());
    Error::new(ErrorKind::Protocol, message)
}
