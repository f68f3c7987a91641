//! Conversion of JSON bytes to a row. Each member goes directly to the place of its field, and
//! borrows its text from the body where possible.

use std::borrow::Cow;
use std::fmt;

use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, Engine as _, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::schema::text::{EnumValue, enum_value, integer, parse};
use crate::schema::{check_kind, violation};
use crate::value::excerpt::excerpt;
use crate::value::vector;
use crate::{
    Error, ErrorKind, Field, FieldSet, KeyKind, Kind, Result, Scratch, Table, VIOLATIONS_MAX,
    ValueRef, Violation,
};

/// Reads the object in `body` into `row`. Members that are missing leave their place unchanged.
/// Adds members that are unknown, duplicate or of the wrong type to `violations`, and stops at
/// [`VIOLATIONS_MAX`] of them.
///
/// # Errors
/// [`ErrorKind::Invalid`] if the body is not a JSON object, with the position of the fault.
///
/// ```
/// # use marmota_model::{Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("person", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("name", Kind::TEXT),
/// #     Field::new("born", Kind::Date).nullable(true)]))?;
/// use marmota_model::{Scratch, ValueRef, json};
/// let (scratch, mut violations) = (Scratch::new(), Vec::new());
/// let mut row = [ValueRef::Absent; 3];
/// let body = br#"{"name":"Ada","born":"1815-13-10","mail":null}"#;
/// json::read_object(&table, body, &scratch, &mut row, &mut violations)?;
/// assert_eq!(row[1], ValueRef::Text("Ada"));
/// let found: Vec<_> = violations.iter().map(|one| (&*one.field, &*one.rule)).collect();
/// assert_eq!(found, [("born", "type"), ("mail", "unknown")]);
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub fn read_object<'a>(
    table: &Table,
    body: &'a [u8],
    scratch: &'a Scratch,
    row: &mut [ValueRef<'a>],
    violations: &mut Vec<Violation>,
) -> Result<()> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let object = Object { table, scratch, row, violations: &mut *violations };
    let read = serde::Deserializer::deserialize_map(&mut deserializer, object)
        .and_then(|()| deserializer.end());
    match read {
        // The rest is not read: the row is refused anyway.
        Err(_) if violations.len() >= VIOLATIONS_MAX => Ok(()),
        read => read.map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("the body is not a JSON object: {error}"))
        }),
    }
}

/// Reads one JSON value into the row's value for `field`.
///
/// # Errors
/// The violation, if the value is of the wrong type.
///
/// ```
/// use marmota_model::json::read_value;
/// use marmota_model::{Field, Kind, Scratch, ValueRef};
/// let (scratch, price) = (Scratch::new(), Field::new("price", Kind::Currency));
/// let amount = "12.5".parse().map(ValueRef::Currency).unwrap();
/// assert_eq!(read_value(&price, "12.5", &scratch), Ok(amount));
/// assert_eq!(read_value(&price, "\"12.5\"", &scratch), Ok(amount));
/// assert_eq!(read_value(&price, "true", &scratch).unwrap_err().rule, "type");
/// ```
pub fn read_value<'a>(
    field: &Field,
    json: &'a str,
    scratch: &'a Scratch,
) -> Result<ValueRef<'a>, Violation> {
    member(field, json, scratch).ok_or_else(|| {
        let wrong = check_kind(field, ValueRef::Absent);
        let (rule, message) = wrong.err().unwrap_or(("type", "has the wrong type".to_owned()));
        let mut violation = violation(field, ValueRef::Null, rule, message);
        violation.value = excerpt(json);
        violation
    })
}

struct Object<'a, 'r> {
    table: &'r Table,
    scratch: &'a Scratch,
    row: &'r mut [ValueRef<'a>],
    violations: &'r mut Vec<Violation>,
}

impl<'de> Visitor<'de> for Object<'de, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with fields of `{}`", self.table.name())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = FieldSet::EMPTY;
        while let Some(name) = map.next_key_seed(Name)? {
            if self.violations.len() >= VIOLATIONS_MAX {
                return Err(serde::de::Error::custom("too many errors"));
            }
            let Some(position) = self.table.find_written(&name) else {
                let value: &RawValue = map.next_value()?;
                self.violations.push(self.table.unknown_field(&name, value.get()));
                continue;
            };
            let field = &self.table.fields()[position];
            let json: &'de RawValue = map.next_value()?;
            if seen.contains(position) {
                let mut twice = violation(field, ValueRef::Null, "twice", "must occur only once");
                twice.value = excerpt(json.get());
                self.violations.push(twice);
            }
            seen = seen.with(position);
            match read_value(field, json.get(), self.scratch) {
                Ok(value) => self.row[position] = value,
                Err(violation) => self.violations.push(violation),
            }
        }
        Ok(())
    }
}

/// A member's name, borrowed unless it has escapes.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: serde::Deserializer<'de>>(self, de: D) -> Result<Cow<'de, str>, D::Error> {
        de.deserialize_str(Text)
    }
}

struct Text;

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// Reads base64url with or without padding.
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn string<'a>(json: &'a str, scratch: &'a Scratch) -> Option<&'a str> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    match serde::Deserializer::deserialize_str(&mut deserializer, Text).ok()? {
        Cow::Borrowed(text) => Some(text),
        Cow::Owned(text) => Some(scratch.text(&text)),
    }
}

fn member<'a>(field: &Field, json: &'a str, scratch: &'a Scratch) -> Option<ValueRef<'a>> {
    // In a field that cannot be NULL, JSON's null is an ordinary JSON value.
    if json == "null" && (field.nullable || field.kind != Kind::Json) {
        return Some(ValueRef::Null);
    }
    match &field.kind {
        Kind::Bool => match json {
            "true" => Some(ValueRef::Bool(true)),
            "false" => Some(ValueRef::Bool(false)),
            _ => None,
        },
        Kind::Int { .. } | Kind::Reference { key: KeyKind::Auto, .. } => {
            integer(json).map(ValueRef::Int)
        }
        Kind::Float if !json.starts_with('"') => {
            json.parse().ok().filter(|number: &f64| number.is_finite()).map(ValueRef::Float)
        }
        // As a number or, for readers with binary floats, as a string.
        Kind::Currency => match json.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(text) => text.parse().ok().map(ValueRef::Currency),
            None => json.parse().ok().map(ValueRef::Currency),
        },
        Kind::Json | Kind::File { .. } => {
            serde_json::from_str::<IgnoredAny>(json).ok().map(|_| ValueRef::Json(json))
        }
        Kind::Vector { dimensions } => {
            let numbers = vector::read_json(json)?;
            let fits = numbers.len() == *dimensions as usize;
            fits.then(|| ValueRef::Blob(scratch.bytes(&vector::stored(numbers))))
        }
        Kind::Blob => {
            let bytes = BASE64_URL.decode(string(json, scratch)?);
            bytes.ok().map(|bytes| ValueRef::Blob(scratch.bytes(&bytes)))
        }
        Kind::Enum { .. } => {
            let name = string(json, scratch)?;
            Some(match enum_value(&field.kind, name)? {
                EnumValue::Name => ValueRef::Text(name),
                EnumValue::Number(number) => ValueRef::Int(number),
            })
        }
        Kind::Float => None,
        kind => parse(kind, string(json, scratch)?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Role, Schema, Value};

    fn table() -> Table {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("name", Kind::TEXT),
            Field::new("price", Kind::Currency).nullable(true),
            Field::new("born", Kind::Date).nullable(true),
            Field::new("tags", Kind::Json).nullable(true),
        ];
        Table::new(Schema::new("thing", fields)).unwrap()
    }

    #[test]
    fn members_go_to_their_places() {
        let (table, scratch) = (table(), Scratch::new());
        let body = br#"{"price":0.1,"name":"a\nb","tags":{"x":[1]},"born":"1867-11-07"}"#;
        let mut row = vec![ValueRef::Absent; 5];
        let mut violations = Vec::new();
        read_object(&table, body, &scratch, &mut row, &mut violations).unwrap();
        assert_eq!(violations, []);
        assert_eq!(row[0], ValueRef::Absent);
        assert_eq!(row[1], ValueRef::Text("a\nb"));
        assert_eq!(row[2], ValueRef::Currency(crate::Currency::from_scaled(1000)));
        assert_eq!(row[3].to_value(), Value::Date("1867-11-07".parse().unwrap()));
        assert_eq!(row[4], ValueRef::Json(r#"{"x":[1]}"#));
    }

    #[test]
    fn null_is_a_json_value_where_it_cannot_be_null() {
        let scratch = Scratch::new();
        let field = Field::new("tags", Kind::Json);
        assert_eq!(read_value(&field, "null", &scratch), Ok(ValueRef::Json("null")));
        let field = field.nullable(true);
        assert_eq!(read_value(&field, "null", &scratch), Ok(ValueRef::Null));
    }

    #[test]
    fn every_wrong_member_is_named() {
        let (table, scratch) = (table(), Scratch::new());
        let body = br#"{"name":7,"nam":"x","price":1.00001,"born":"1867-13-01","id":"x","id":1}"#;
        let mut row = vec![ValueRef::Absent; 5];
        let mut violations = Vec::new();
        read_object(&table, body, &scratch, &mut row, &mut violations).unwrap();
        let found: Vec<_> = violations.iter().map(|v| (&*v.field, &*v.rule, &*v.value)).collect();
        assert_eq!(
            found,
            [
                ("name", "type", "7"),
                ("nam", "unknown", "\"x\""),
                ("price", "type", "1.00001"),
                ("born", "type", "\"1867-13-01\""),
                ("id", "type", "\"x\""),
                ("id", "twice", "1"),
            ]
        );
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let (table, scratch) = (table(), Scratch::new());
        for body in ["", "[]", "{", "{}x", "null", "{\"name\":}", "{\"name\":\"\u{1}\"}"] {
            let mut row = vec![ValueRef::Absent; 5];
            let result = read_object(&table, body.as_bytes(), &scratch, &mut row, &mut Vec::new());
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Invalid, "{body}");
        }
    }
}
