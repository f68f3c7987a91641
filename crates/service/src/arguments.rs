//! Arguments of a call: read by name or by place from JSON, or from a URL's
//! query, and written by a stub.
//!
//! What cannot be read is gathered, so that one error names every parameter at
//! fault with its value and what it should be.

use std::borrow::Cow;

use marmota_model::text::excerpt;
use marmota_model::{Error, ErrorKind, Result, Violation};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::contract::{Contract, Method, Parameter};

/// More than any method has parameters.
const ARGUMENTS_MAX: usize = 256;

/// Where arguments stand.
enum Source<'a> {
    Named(Vec<(Cow<'a, str>, &'a RawValue)>),
    Placed(Vec<&'a RawValue>),
    Query(Vec<(Cow<'a, str>, Cow<'a, str>)>),
}

/// The arguments of one call of one method.
pub struct Arguments<'a> {
    contract: &'static Contract,
    method: usize,
    source: Source<'a>,
    /// The parameter that is read next.
    next: usize,
    violations: Vec<Violation>,
}

/// One of two forms of JSON.
#[derive(Deserialize)]
#[serde(transparent)]
struct Placed<'a>(#[serde(borrow)] Vec<&'a RawValue>);

struct Named<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Named<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> serde::de::Visitor<'de> for Pairs {
            type Value = Named<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of parameters")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Named<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &RawValue>()? {
                    if pairs.len() == ARGUMENTS_MAX {
                        return Err(serde::de::Error::custom("too many parameters"));
                    }
                    pairs.push((name, value));
                }
                Ok(Named(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// A name, copied only where it is escaped.
#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Arguments<'a> {
    const fn of(contract: &'static Contract, method: usize, source: Source<'a>) -> Self {
        Self { contract, method, source, next: 0, violations: Vec::new() }
    }

    /// Those of JSON: an object by name, an array by place, nothing for none.
    pub(crate) fn of_json(
        contract: &'static Contract,
        method: usize,
        json: &'a [u8],
    ) -> Result<Self> {
        let source = match json.trim_ascii_start().first() {
            None => Source::Named(Vec::new()),
            Some(b'[') => Source::Placed(read::<Placed<'a>>(json, "parameters")?.0),
            Some(_) => Source::Named(read::<Named<'a>>(json, "parameters")?.0),
        };
        Ok(Self::of(contract, method, source))
    }

    /// Those of a query.
    pub(crate) fn of_query(
        contract: &'static Contract,
        method: usize,
        pairs: impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
    ) -> Self {
        Self::of(contract, method, Source::Query(pairs.take(ARGUMENTS_MAX).collect()))
    }

    fn parameters(&self) -> &'static [Parameter] {
        self.method().map_or(&[], |method| method.parameters)
    }

    fn method(&self) -> Option<&'static Method> {
        self.contract.methods.get(self.method)
    }

    /// The next argument; nothing where it is at fault, which [`Arguments::end`]
    /// tells.
    pub fn read<T: DeserializeOwned>(&mut self) -> Option<T> {
        let place = self.next;
        self.next += 1;
        let parameter = self.parameters().get(place)?;
        let (text, read) = match &self.source {
            Source::Named(pairs) => match pairs.iter().find(|(name, _)| name == parameter.name) {
                Some((_, value)) => (Some(value.get()), serde_json::from_str(value.get())),
                None => (None, serde_json::from_str("null")),
            },
            Source::Placed(values) => match values.get(place) {
                Some(value) => (Some(value.get()), serde_json::from_str(value.get())),
                None => (None, serde_json::from_str("null")),
            },
            Source::Query(pairs) => match pairs.iter().find(|(name, _)| name == parameter.name) {
                // A text needs no quotes in a query; what is no text is JSON.
                Some((_, text)) => {
                    let as_text = T::deserialize(serde_json::Value::String(text.to_string()));
                    let read = as_text.or_else(|_| serde_json::from_str(text));
                    (Some(&**text), read)
                }
                None => (None, serde_json::from_str("null")),
            },
        };
        match read {
            Ok(value) => Some(value),
            Err(error) => {
                let violation = match text {
                    Some(text) => misfit(parameter, text, &error),
                    None => missing(parameter),
                };
                self.violations.push(violation);
                None
            }
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// Every parameter at fault, and those that the method does not have.
    pub fn end(&mut self) -> Result<()> {
        let known = self.parameters();
        let is_known = |name: &str| known.iter().any(|parameter| parameter.name == name);
        let unknown: Vec<(&str, String)> = match &self.source {
            Source::Named(pairs) => {
                let pairs = pairs.iter().filter(|(name, _)| !is_known(name));
                pairs.map(|(name, value)| (&**name, excerpt(value.get()))).collect()
            }
            Source::Query(pairs) => {
                let pairs = pairs.iter().filter(|(name, _)| !is_known(name));
                pairs.map(|(name, value)| (&**name, excerpt(value))).collect()
            }
            Source::Placed(values) if values.len() > known.len() => {
                let message = format!(
                    "{} arguments for {} parameters of {}",
                    values.len(),
                    known.len(),
                    self.called()
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            Source::Placed(_) => Vec::new(),
        };
        let names: Vec<&str> = known.iter().map(|parameter| parameter.name).collect();
        let message = match names.as_slice() {
            [] => "the method has no parameters".to_owned(),
            names => format!("no such parameter; there are {}", names.join(", ")),
        };
        let unknown = unknown.into_iter().map(|(name, value)| Violation {
            field: excerpt(name),
            value,
            rule: "unknown".to_owned(),
            message: message.clone(),
        });
        let mut violations = std::mem::take(&mut self.violations);
        violations.extend(unknown.take(10));
        if violations.is_empty() { Ok(()) } else { Err(Error::invalid(violations)) }
    }

    fn called(&self) -> String {
        let method = self.method().map_or("", |method| method.name);
        format!("{}.{method}", self.contract.name)
    }

    /// Not all was read, though nothing was found at fault: never, behind a good
    /// [`Arguments::end`].
    #[cold]
    #[must_use]
    pub fn fault(&self) -> Error {
        Error::new(ErrorKind::Bug, format!("the arguments of {} were not read", self.called()))
    }

    /// The contract has more methods than what answers it.
    #[cold]
    #[must_use]
    pub fn no_such_method(&self) -> Error {
        Error::new(ErrorKind::NotFound, format!("nothing answers {}", self.called()))
    }
}

/// Reads JSON that a client sent.
pub(crate) fn read<'a, T: Deserialize<'a>>(json: &'a [u8], what: &str) -> Result<T> {
    serde_json::from_slice(json).map_err(|error| {
        let message = format!(
            "the {what} are no JSON as it is wanted: {error}; send an object such as \
             {{\"name\":value}}, or an array"
        );
        Error::new(ErrorKind::Invalid, message)
    })
}

#[cold]
fn misfit(parameter: &Parameter, text: &str, error: &serde_json::Error) -> Violation {
    // Where in the text it is does not help: the value is shown.
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default();
    Violation {
        field: parameter.name.to_owned(),
        value: excerpt(text),
        rule: "type".to_owned(),
        message: format!("must be a value of `{}`: {reason}", parameter.type_name),
    }
}

#[cold]
fn missing(parameter: &Parameter) -> Violation {
    Violation {
        field: parameter.name.to_owned(),
        value: "null".to_owned(),
        rule: "required".to_owned(),
        message: format!("is required: send a value of `{}`", parameter.type_name),
    }
}

/// Arguments as a stub writes them: an object of JSON, by name.
#[derive(Debug)]
pub struct Written {
    json: Vec<u8>,
    fault: Option<Error>,
}

impl Default for Written {
    fn default() -> Self {
        Self::new()
    }
}

impl Written {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self { json: b"{".to_vec(), fault: None }
    }

    /// One more.
    #[must_use]
    pub fn put<T: Serialize>(mut self, name: &str, value: &T) -> Self {
        if self.json.len() > 1 {
            self.json.push(b',');
        }
        marmota_model::json::write_string(&mut self.json, name);
        self.json.push(b':');
        if let Err(error) = serde_json::to_writer(&mut self.json, value) {
            let message = format!("parameter `{name}` cannot be written as JSON: {error}");
            self.fault.get_or_insert(Error::new(ErrorKind::Invalid, message));
        }
        self
    }

    /// All of them as JSON.
    ///
    /// # Errors
    /// If one could not be written.
    pub(crate) fn into_json(mut self) -> Result<Vec<u8>> {
        match self.fault {
            Some(error) => Err(error),
            None => {
                self.json.push(b'}');
                Ok(self.json)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CONTRACT: &Contract = &Contract {
        name: "test",
        methods: &[Method {
            name: "both",
            parameters: &[
                Parameter { name: "a", type_name: "i32" },
                Parameter { name: "b", type_name: "Option<String>" },
            ],
            result: "()",
        }],
    };

    fn both(mut arguments: Arguments<'_>) -> Result<(i32, Option<String>)> {
        let (a, b) = (arguments.read(), arguments.read());
        arguments.end()?;
        Ok((a.unwrap(), b.unwrap()))
    }

    fn json(text: &str) -> Result<(i32, Option<String>)> {
        both(Arguments::of_json(CONTRACT, 0, text.as_bytes())?)
    }

    #[test]
    fn arguments_come_by_name_and_by_place() {
        let b = || Some("x".to_owned());
        assert_eq!(json(r#"{"b":"x","a":7}"#).unwrap(), (7, b()));
        assert_eq!(json(r#"[7,"x"]"#).unwrap(), (7, b()));
        assert_eq!(json("[7]").unwrap(), (7, None));
        assert_eq!(json(r#"{"\u0061":-1}"#).unwrap(), (-1, None));
        let pairs = [("a", "7"), ("b", "12")].map(|(name, value)| (name.into(), value.into()));
        let query = Arguments::of_query(CONTRACT, 0, pairs.into_iter());
        assert_eq!(both(query).unwrap(), (7, Some("12".to_owned())));
    }

    #[test]
    fn all_that_is_wrong_is_named_with_the_way_out() {
        let error = json(r#"{"a":"seven","b":[],"c":1}"#).unwrap_err();
        let all: Vec<(&str, &str, &str)> =
            error.violations().iter().map(|one| (&*one.field, &*one.value, &*one.rule)).collect();
        assert_eq!(all, [("a", "\"seven\"", "type"), ("b", "[]", "type"), ("c", "1", "unknown")]);
        assert!(error.violations()[0].message.contains("`i32`"), "{error}");
        assert!(error.violations()[2].message.contains("a, b"), "{error}");
        let error = json("").unwrap_err();
        assert_eq!(error.violations()[0].rule, "required");
        assert!(json("[1,null,3]").unwrap_err().message().contains("3 arguments for 2"));
        assert!(json("7").unwrap_err().message().contains("object"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(a: i32, b: Option<String>) {
            let written = Written::new().put("a", &a).put("b", &b).into_json().unwrap();
            let read = both(Arguments::of_json(CONTRACT, 0, &written).unwrap()).unwrap();
            prop_assert_eq!(read, (a, b));
        }

        #[test]
        fn strangers_do_no_harm(bytes: Vec<u8>) {
            if let Ok(arguments) = Arguments::of_json(CONTRACT, 0, &bytes) {
                let _ = both(arguments);
            }
        }
    }
}
