//! A condition on the value at a path inside a JSON value. It is evaluated on the text itself: no
//! tree is built, and values outside the path are skipped.
//!
//! All engines call the same function, so that they agree on what a number is, which of two members
//! with the same name counts, and how values of different types compare.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::path::{JsonPath, JsonStep};
use crate::{Comparison, Place, Value};

/// A condition on the value at a path.
///
/// A missing value counts as null, and so does any path of a row whose field is NULL: a comparison
/// with it is neither true nor false. A value of another type is not equal to the one compared
/// with, and has no order to it: `<`, `<=`, `>` and `>=` are neither true nor false. An object or
/// array is equal to nothing. Of several members with the same name the last one counts, as it does
/// for JSON readers.
///
/// ```
/// use marmota_model::json::{JsonCondition, JsonPath, JsonTest};
/// use marmota_model::{Comparison, Value};
/// let condition = JsonCondition {
///     path: JsonPath::new("address.city"),
///     test: JsonTest::Compare(Comparison::Equal, Value::from("Bourges")),
/// };
/// assert_eq!(condition.evaluate(Some(r#"{"address":{"city":"Bourges"}}"#)), Some(true));
/// assert_eq!(condition.evaluate(Some(r#"{"address":{"city":18000}}"#)), Some(false));
/// assert_eq!(condition.evaluate(Some(r#"{"address":null}"#)), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct JsonCondition {
    /// The path.
    pub path: JsonPath,
    /// The test.
    pub test: JsonTest,
}

/// A test of a JSON value. Values to compare with are booleans, integers, floats and texts.
#[derive(Clone, Debug, PartialEq)]
pub enum JsonTest {
    /// Compares the value with another one. Numbers compare exactly, whether they are whole or not;
    /// texts byte by byte; false is less than true.
    Compare(Comparison, Value),
    /// The value is equal to one of the values.
    In(Vec<Value>),
    /// The value is a text that contains this text, or starts with it, ignoring the case of A to Z.
    Match(Place, String),
    /// The value is null or missing.
    IsNull,
    /// The value exists, including null. The result is always true or false.
    Exists,
}

/// The value at a path.
enum Found<'j> {
    Missing,
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Cow<'j, str>),
    /// An object or array, or a string that is not valid text (an unpaired surrogate).
    Other,
}

impl JsonCondition {
    /// Returns the values with which the test compares.
    ///
    /// ```
    /// use marmota_model::Value;
    /// use marmota_model::json::{JsonCondition, JsonPath, JsonTest};
    /// let test = JsonTest::In(vec![Value::Int(1), Value::Int(2)]);
    /// let condition = JsonCondition { path: JsonPath::new("size"), test };
    /// assert_eq!(condition.values().len(), 2);
    /// ```
    #[must_use]
    pub fn values(&self) -> &[Value] {
        match &self.test {
            JsonTest::Compare(_, value) => std::slice::from_ref(value),
            JsonTest::In(values) => values,
            JsonTest::Match(..) | JsonTest::IsNull | JsonTest::Exists => &[],
        }
    }

    /// Evaluates the condition for the text of a JSON value, or `None` for a field that is NULL.
    /// Returns `None` if the result is neither true nor false.
    ///
    /// In a text that is not JSON, every path is missing.
    ///
    /// ```
    /// use marmota_model::json::{JsonCondition, JsonPath, JsonTest};
    /// let exists = JsonCondition { path: JsonPath::new("a[1]"), test: JsonTest::Exists };
    /// assert_eq!(exists.evaluate(Some(r#"{"a":[0,null]}"#)), Some(true));
    /// assert_eq!(exists.evaluate(None), Some(false));
    /// ```
    #[must_use]
    pub fn evaluate(&self, json: Option<&str>) -> Option<bool> {
        let found = match (json, self.path.steps()) {
            (Some(json), Ok(steps)) => find(json, steps),
            _ => Found::Missing,
        };
        match (&self.test, found) {
            (JsonTest::IsNull, found) => Some(matches!(found, Found::Missing | Found::Null)),
            (JsonTest::Exists, found) => Some(!matches!(found, Found::Missing)),
            // As in SQL, `in` with an empty list is false, not unknown.
            (JsonTest::In(values), _) if values.is_empty() => Some(false),
            (_, Found::Missing | Found::Null) => None,
            (JsonTest::Compare(comparison, value), found) => {
                match (comparison, found.order(value)) {
                    (Comparison::Equal, order) => Some(order == Some(Ordering::Equal)),
                    (Comparison::NotEqual, order) => Some(order != Some(Ordering::Equal)),
                    (comparison, order) => Some(comparison.holds(order?)),
                }
            }
            (JsonTest::In(values), found) => {
                Some(values.iter().any(|value| found.order(value) == Some(Ordering::Equal)))
            }
            (JsonTest::Match(place, part), Found::Text(text)) => Some(place.finds(&text, part)),
            (JsonTest::Match(..), _) => Some(false),
        }
    }
}

impl Found<'_> {
    /// Returns the order to a value of the same type.
    fn order(&self, value: &Value) -> Option<Ordering> {
        match (self, value) {
            (Self::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Self::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            (Self::Float(a), Value::Float(b)) => a.partial_cmp(b),
            (Self::Int(a), Value::Float(b)) => order_mixed(*a, *b),
            (Self::Float(a), Value::Int(b)) => order_mixed(*b, *a).map(Ordering::reverse),
            (Self::Text(a), Value::Text(b)) => Some((**a).cmp(&**b)),
            _ => None,
        }
    }
}

/// Compares an integer with a float without rounding either of them.
fn order_mixed(a: i64, b: f64) -> Option<Ordering> {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if b.is_nan() {
        return None;
    }
    if b >= END {
        return Some(Ordering::Less);
    }
    if b < -END {
        return Some(Ordering::Greater);
    }
    // Truncation toward zero is exact here, and the result is within range.
    let whole = b.trunc();
    Some(a.cmp(&(whole as i64)).then_with(|| whole.partial_cmp(&b).unwrap_or(Ordering::Equal)))
}

fn find<'j>(json: &'j str, steps: &[JsonStep]) -> Found<'j> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    match (Seek { steps }).deserialize(&mut deserializer) {
        Ok(Some(raw)) => read(raw.get()),
        _ => Found::Missing,
    }
}

/// Parses the text of a JSON value.
fn read(json: &str) -> Found<'_> {
    match json.as_bytes().first() {
        Some(b'n') => Found::Null,
        Some(b't') => Found::Bool(true),
        Some(b'f') => Found::Bool(false),
        Some(b'"') if memchr::memchr(b'\\', json.as_bytes()).is_none() => {
            Found::Text(Cow::Borrowed(&json[1..json.len() - 1]))
        }
        Some(b'"') => {
            serde_json::from_str(json).map_or(Found::Other, |text| Found::Text(Cow::Owned(text)))
        }
        Some(b'-' | b'0'..=b'9') => match (json.parse(), json.parse()) {
            (Ok(whole), _) => Found::Int(whole),
            // Not parsed by serde_json, whose floats may be off in the last bit.
            (_, Ok(number)) => Found::Float(number),
            _ => Found::Other,
        },
        _ => Found::Other,
    }
}

/// A visitor that follows a path and returns the text of the value there.
struct Seek<'p> {
    steps: &'p [JsonStep],
}

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        match self.steps.split_first() {
            None => <&RawValue as serde::Deserialize>::deserialize(from).map(Some),
            Some((step, steps)) => from.deserialize_any(Into { step, steps }),
        }
    }
}

/// A visitor for one step of a path.
struct Into<'p> {
    step: &'p JsonStep,
    steps: &'p [JsonStep],
}

impl<'de> Visitor<'de> for Into<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        let JsonStep::Member(name) = self.step else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(None);
        };
        while let Some(is_it) = map.next_key_seed(Is(name))? {
            if is_it {
                found = map.next_value_seed(Seek { steps: self.steps })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        if let JsonStep::Element(place) = self.step {
            for _ in 0..*place {
                if elements.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(None);
                }
            }
            found = elements.next_element_seed(Seek { steps: self.steps })?.flatten();
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Compares the name of a member with the expected one.
struct Is<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn evaluate(json: &str, path: &str, test: JsonTest) -> Option<bool> {
        JsonCondition { path: JsonPath::new(path), test }.evaluate(Some(json))
    }

    fn equal(value: impl std::convert::Into<Value>) -> JsonTest {
        JsonTest::Compare(Comparison::Equal, value.into())
    }

    fn less(value: impl std::convert::Into<Value>) -> JsonTest {
        JsonTest::Compare(Comparison::Less, value.into())
    }

    const JSON: &str = r#" {"a": {"b": [1, "x", null, {"c d": -2.5}]}, "t": true, "n": 9007199254740993,
        "big": 1e19, "e": "\u00e9\n", "half": "\ud800", "o": {}, "two": 1, "two": 2} "#;

    #[test]
    fn values_are_found_by_path() {
        assert_eq!(evaluate(JSON, "a.b[0]", equal(1_i64)), Some(true));
        assert_eq!(evaluate(JSON, "a.b[0]", equal(1.0)), Some(true));
        assert_eq!(evaluate(JSON, "a.b[1]", equal("x")), Some(true));
        assert_eq!(evaluate(JSON, "a.b[3].'c d'", less(-2_i64)), Some(true));
        assert_eq!(evaluate(JSON, "t", equal(true)), Some(true));
        assert_eq!(evaluate(JSON, "e", equal("é\n")), Some(true));
        assert_eq!(evaluate(JSON, "two", equal(2_i64)), Some(true), "the last of one name");
        assert_eq!(evaluate(JSON, "n", equal(9_007_199_254_740_992.0)), Some(false));
        assert_eq!(evaluate(JSON, "big", less(f64::INFINITY)), Some(true));
        assert_eq!(evaluate(JSON, "big", less(i64::MAX)), Some(false));
    }

    #[test]
    fn what_is_null_or_missing_is_neither() {
        for path in ["a.b[2]", "a.b[9]", "a.x", "a[0]", "a.b.x", "t.x", "x"] {
            assert_eq!(evaluate(JSON, path, equal(1_i64)), None, "{path}");
            assert_eq!(evaluate(JSON, path, JsonTest::IsNull), Some(true), "{path}");
            assert_eq!(evaluate(JSON, path, JsonTest::In(vec![Value::Int(1)])), None, "{path}");
            assert_eq!(evaluate(JSON, path, JsonTest::In(vec![])), Some(false), "{path}");
        }
        assert_eq!(evaluate(JSON, "a.b[2]", JsonTest::Exists), Some(true));
        assert_eq!(evaluate(JSON, "a.b[9]", JsonTest::Exists), Some(false));
        assert_eq!(evaluate("{\"a\":1,", "a", JsonTest::Exists), Some(false), "no JSON");
    }

    #[test]
    fn other_types_are_not_equal_and_have_no_order() {
        for path in ["a", "a.b", "a.b[1]", "t", "o", "half"] {
            assert_eq!(evaluate(JSON, path, equal(1_i64)), Some(false), "{path}");
            let unequal = JsonTest::Compare(Comparison::NotEqual, Value::Int(1));
            assert_eq!(evaluate(JSON, path, unequal), Some(true), "{path}");
            assert_eq!(evaluate(JSON, path, less(1_i64)), None, "{path}");
            assert_eq!(evaluate(JSON, path, JsonTest::IsNull), Some(false), "{path}");
        }
        let x = JsonTest::Match(Place::Anywhere, "X".to_owned());
        assert_eq!(evaluate(JSON, "a.b[1]", x.clone()), Some(true));
        assert_eq!(evaluate(JSON, "t", x), Some(false));
    }

    #[test]
    fn no_depth_is_too_deep() {
        let deep = format!("{{\"a\":{}1{},\"b\":2}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(evaluate(&deep, "b", equal(2_i64)), Some(true));
    }

    proptest! {
        #[test]
        fn an_integer_and_a_float_compare_exactly(a: i64, b: f64) {
            prop_assume!(!b.is_nan());
            for a in [a, b as i64, (b as i64).saturating_add(1)] {
                // The expected order, computed in parts, as 256-bit numbers would compare.
                let wanted = if b >= 9.3e18 { Ordering::Less } else if b <= -9.3e18 { Ordering::Greater }
                    else { i128::from(a).cmp(&(b.floor() as i128)).then_with(|| b.floor().partial_cmp(&b).unwrap()) };
                let wanted = if b == 0.0 { a.cmp(&0) } else { wanted };
                prop_assert_eq!(order_mixed(a, b), Some(wanted));
            }
        }

        #[test]
        fn any_text_is_looked_into(json in "[\\[\\]{}:,\"a1.e\\\\un -]{0,40}") {
            let _ = evaluate(&json, "a[1].a", equal(1_i64));
        }
    }
}
