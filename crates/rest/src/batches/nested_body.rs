//! The body of a row with related rows: its members in order, the keys that rows in it refer to, and
//! errors with their place.

use std::borrow::Cow;
use std::fmt;

use marmota_model::{Error, KeyKind, Table, Value, ValueRef, Violation, json};
use marmota_web::{ApiError, ApiResult};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object, in order.
pub(super) struct Members<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(of: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        of.deserialize_map(Object)
    }
}

pub(super) fn members(json: &[u8]) -> ApiResult<Members<'_>> {
    serde_json::from_slice(json)
        .map_err(|error| ApiError::bad_request(format!("the body is not valid JSON: {error}")))
}

pub(super) fn is_object(json: &RawValue) -> bool {
    json.get().starts_with('{')
}

/// Adds the place of a row in the body to an error.
pub(super) fn at_place(error: ApiError, place: &str) -> ApiError {
    if place.is_empty() {
        return error;
    }
    let inner = error.error();
    let message = match inner.violations() {
        [one] => one.message.clone(),
        _ => inner.message().to_owned(),
    };
    let made = Error::new(inner.kind(), format!("{place}: {message}"));
    let made = inner.violations().iter().fold(made, |made, one| {
        let field = match one.field.is_empty() {
            true => place.to_owned(),
            false => format!("{place}.{}", one.field),
        };
        made.with_violation(Violation { field, ..one.clone() })
    });
    ApiError::from(made).with_status(error.status())
}

pub(super) fn refused(place: &str, message: impl Into<String>) -> ApiError {
    at_place(ApiError::bad_request(message.into()), place)
}

/// A member of an operation's row: its name, and its value as JSON.
pub(super) type Member = (String, String);

/// The key to which the rows in a row refer.
#[derive(Clone)]
pub(super) enum Parent {
    /// That of the row which an operation inserts.
    Operation(usize),
    /// A known one, as JSON.
    Key(String),
}

impl Parent {
    /// Returns the members of a row of `table` that let its field `reference` refer to this key. For
    /// a reference to a composite key that is known, these are the fields that it is computed of.
    ///
    /// # Errors
    /// 400 for a text that is not the key of any row.
    pub(super) fn members(
        &self,
        table: &Table,
        reference: usize,
        place: &str,
    ) -> ApiResult<Vec<Member>> {
        let name = |field: usize| table.fields()[field].name.to_string();
        let key = match self {
            Self::Operation(number) => {
                return Ok(vec![(name(reference), format!("{{\"$result\":{number}}}"))]);
            }
            Self::Key(key) => key,
        };
        let fields = table.reference_fields(reference);
        if fields == [reference] {
            return Ok(vec![(name(reference), key.clone())]);
        }
        // The text of a key that is a number is its digits.
        let text: Cow<'_, str> = serde_json::from_str(key).unwrap_or(Cow::Borrowed(key));
        let values = table.reference_values(reference, ValueRef::Text(&text));
        let written = fields.into_iter().zip(values).map(|(part, value)| {
            if value == Value::Null {
                return Err(refused(place, format!("{key} is not the key of a row")));
            }
            let mut json = Vec::new();
            json::write_value_as(&mut json, &table.fields()[part].kind, value.as_ref());
            Ok((name(part), String::from_utf8_lossy(&json).into_owned()))
        });
        written.collect()
    }
}

/// The names of the members that determine a reference: its own, and those that it is computed of.
pub(super) fn determining(table: &Table, reference: usize) -> impl Iterator<Item = &str> {
    let others = table.reference_fields(reference).into_iter().filter(move |&at| at != reference);
    std::iter::once(reference).chain(others).map(|field| &*table.fields()[field].name)
}

/// A row in the body.
pub(super) struct Body<'b> {
    pub(super) json: &'b [u8],
    pub(super) verb: Verbs,
    /// The field that refers to the row around it, and the key of that row.
    pub(super) reference: Option<(usize, &'b Parent)>,
}

/// The write of a row.
pub(super) enum Verbs {
    Insert,
    /// An insert, or an update of the row with the same key.
    Upsert,
    /// A patch of the row with this key as JSON, if it has this version.
    Patch(String, Option<i64>),
}

impl Verbs {
    /// Returns the write of a nested row: a patch if it has a key that the store makes.
    pub(super) fn of(table: &Table, json: &[u8], place: &str) -> ApiResult<Self> {
        // The row may exist or not: the key alone does not decide.
        if has_text_key(table) {
            return Ok(Self::Insert);
        }
        Ok(Self::keyed(table, json, place)?.unwrap_or(Self::Insert))
    }

    /// Returns the write of a row that remains in a set.
    pub(super) fn of_set(table: &Table, json: &[u8], place: &str) -> ApiResult<Self> {
        if has_text_key(table) { Ok(Self::Upsert) } else { Self::of(table, json, place) }
    }

    pub(super) fn keyed(table: &Table, json: &[u8], place: &str) -> ApiResult<Option<Self>> {
        Ok(key_of(table, json, place)?.map(|key| Self::Patch(key, None)))
    }
}

/// Returns true if callers name the rows. The store makes composite keys.
fn has_text_key(table: &Table) -> bool {
    table.key_kind() == KeyKind::Text && !table.has_composite_key()
}

/// Returns the key of a row as JSON, if it has one.
pub(super) fn key_of(table: &Table, json: &[u8], place: &str) -> ApiResult<Option<String>> {
    let Members(members) = members(json).map_err(|error| at_place(error, place))?;
    let name = &*table.fields()[table.key()].name;
    let key = members.iter().find(|(member, _)| *member == *name);
    let key = key.map(|(_, json)| json.get()).filter(|json| !matches!(*json, "null" | "0"));
    Ok(key.map(str::to_owned))
}

pub(super) fn list<'a>(value: &'a RawValue, place: &str) -> ApiResult<Vec<&'a RawValue>> {
    serde_json::from_str(value.get())
        .map_err(|_| refused(place, "must be an array of rows, or of keys for `delete`"))
}

pub(super) fn quoted(name: &str) -> String {
    let mut text = Vec::new();
    json::write_string(&mut text, name);
    String::from_utf8_lossy(&text).into_owned()
}
