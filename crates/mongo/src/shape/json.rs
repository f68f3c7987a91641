//! JSON as nested documents.
//!
//! An object or array is stored as a BSON document or array, so that the server and other programs
//! can query it, if its text can be reproduced exactly, byte by byte. If not (spaces, a number that
//! BSON lacks, an array in an array, a name that begins with `$`), and for values that are neither
//! objects nor arrays, the text itself is stored as bytes of [`SUBTYPE`].

use std::fmt;

use marmota_model::json::write_string;
use mongodb::bson::raw::{CStr, RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Bson, RawDocumentBuf};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The binary subtype for the text of a JSON value.
pub(crate) const SUBTYPE: BinarySubtype = BinarySubtype::UserDefined(0x80);

/// Deeper values are stored as text: servers refuse documents nested more than 100 levels.
const DEPTH_MAX: usize = 60;

/// Returns the document or array of a JSON text, or `None` if the text cannot be reproduced from
/// it.
pub(crate) fn nested(text: &str) -> Option<RawBson> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Node { depth: DEPTH_MAX, in_array: false }.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    let mut again = Vec::with_capacity(text.len());
    write(&mut again, value.as_raw_bson_ref());
    (again == text.as_bytes()).then_some(value)
}

/// Returns true for the text of a JSON value, stored as bytes.
pub(crate) fn is_text(value: RawBsonRef<'_>) -> bool {
    matches!(value, RawBsonRef::Binary(binary) if binary.subtype == SUBTYPE)
}

/// Writes a BSON value as JSON. Types that JSON lacks are written as MongoDB's extended JSON.
pub(crate) fn write(out: &mut Vec<u8>, value: RawBsonRef<'_>) {
    match value {
        RawBsonRef::Document(document) => write_object(out, document),
        RawBsonRef::Array(array) => write_array(out, array),
        RawBsonRef::String(text) => write_string(out, text),
        RawBsonRef::Null | RawBsonRef::Undefined => out.extend_from_slice(b"null"),
        RawBsonRef::Boolean(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        RawBsonRef::Int32(value) => write_number(out, value),
        RawBsonRef::Int64(value) => write_number(out, value),
        RawBsonRef::Double(value) if value.is_finite() => write_number(out, value),
        other => match Bson::try_from(other) {
            Ok(value) => {
                let extended = value.into_relaxed_extjson();
                // Writing to memory cannot fail.
                let _ = serde_json::to_writer(out, &extended);
            }
            Err(_) => out.extend_from_slice(b"null"),
        },
    }
}

fn write_number(out: &mut Vec<u8>, number: impl serde::Serialize) {
    let _ = serde_json::to_writer(out, &number);
}

/// Writes a document as a JSON object.
pub(crate) fn write_object(out: &mut Vec<u8>, document: &RawDocument) {
    out.push(b'{');
    for (at, (name, value)) in document.iter().map_while(Result::ok).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_string(out, name.as_str());
        out.push(b':');
        write(out, value);
    }
    out.push(b'}');
}

fn write_array(out: &mut Vec<u8>, array: &RawArray) {
    out.push(b'[');
    for (at, value) in array.into_iter().map_while(Result::ok).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, value);
    }
    out.push(b']');
}

/// Deserializes one value.
struct Node {
    /// The number of levels that may follow.
    depth: usize,
    in_array: bool,
}

impl<'de> DeserializeSeed<'de> for Node {
    type Value = RawBson;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<RawBson, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node {
    type Value = RawBson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that BSON supports")
    }

    fn visit_bool<E>(self, value: bool) -> Result<RawBson, E> {
        Ok(RawBson::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<RawBson, E> {
        Ok(RawBson::Int64(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<RawBson, E> {
        i64::try_from(value).map(RawBson::Int64).map_err(E::custom)
    }

    fn visit_f64<E>(self, value: f64) -> Result<RawBson, E> {
        Ok(RawBson::Double(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<RawBson, E> {
        Ok(RawBson::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<RawBson, E> {
        Ok(RawBson::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RawBson, A::Error> {
        let Some(depth) = self.depth.checked_sub(1) else {
            return Err(A::Error::custom("too deep"));
        };
        if self.in_array {
            return Err(A::Error::custom("an array in an array, which not all servers support"));
        }
        let mut array = RawArrayBuf::new();
        while let Some(value) = items.next_element_seed(Node { depth, in_array: true })? {
            array.push(value);
        }
        Ok(RawBson::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<RawBson, A::Error> {
        let Some(depth) = self.depth.checked_sub(1) else {
            return Err(A::Error::custom("too deep"));
        };
        let mut names: Vec<String> = Vec::new();
        let mut document = RawDocumentBuf::new();
        while let Some(name) = members.next_key::<String>()? {
            let is_plain =
                !name.is_empty() && !name.starts_with('$') && !name.contains(['.', '\0']);
            if !is_plain || names.contains(&name) {
                return Err(A::Error::custom("a name that is not allowed in a document"));
            }
            let value = members.next_value_seed(Node { depth, in_array: false })?;
            let key = <&CStr>::try_from(&*name).map_err(A::Error::custom)?;
            document.append(key, value);
            names.push(name);
        }
        Ok(RawBson::Document(document))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn again(text: &str) -> Option<String> {
        let value = nested(text)?;
        let mut out = Vec::new();
        write(&mut out, value.as_raw_bson_ref());
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_is_nested_is_made_again() {
        for text in [
            "{}",
            "[]",
            r#"{"a":[1,2.5,"ü\"\\",null,true],"b":{"z":1,"y":-9223372036854775808}}"#,
            "[1.0,-0.5]",
        ] {
            assert_eq!(again(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_would_change_is_kept_as_text() {
        for text in [
            "1",
            "null",
            r#""a""#,
            "[1, 2]",
            "[1e2]",
            "[18446744073709551615]",
            r#"{"a":1,"a":2}"#,
            r#"{"$a":1}"#,
            r#"{"a.b":1}"#,
            r#"{"":1}"#,
            r#"["\u0041"]"#,
            "[[1]]",
            "{",
        ] {
            assert_eq!(again(text), None, "{text}");
        }
        let deep = format!("{}1{}", r#"{"a":"#.repeat(90), "}".repeat(90));
        assert_eq!(again(&deep), None);
    }

    proptest! {
        #[test]
        fn nothing_is_changed(text in r#"[\[\]{}:,"a1.e\- ]{0,12}"#) {
            if let Some(again) = again(&text) {
                prop_assert_eq!(again, text);
            }
        }
    }
}
