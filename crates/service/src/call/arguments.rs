//! The arguments of a call: read by name or position from JSON, or from a URL's query.
//!
//! Invalid arguments are collected, so that one error lists every invalid parameter with its value
//! and the expected type.

use std::borrow::Cow;

use marmota_model::text::excerpt;
use marmota_model::{Error, ErrorKind, Result, Violation};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::contract::{Contract, MethodContract, Parameter};
use crate::limits::Limits;
use crate::peer::Peer;
use crate::transfer::{ChunkStream, Expected, Transfer, TransferForm};

/// An upper bound on the number of parameters of a method.
const ARGUMENTS_MAX: usize = 256;

/// The encoding of the arguments.
enum Source<'a> {
    Named(Vec<(Cow<'a, str>, &'a RawValue)>),
    PositionalArguments(Vec<&'a RawValue>),
    Query(Vec<(Cow<'a, str>, Cow<'a, str>)>),
}

/// The location of the stream arguments.
#[derive(Default)]
pub(crate) enum Streams {
    /// No separate streams: stream arguments are inline JSON.
    #[default]
    None,
    /// The streams passed with the call; an argument is an index into this list.
    Given(Vec<Option<ChunkStream>>),
    /// Streams of a peer; an argument is an offset from this number.
    Peer(Peer, u64),
    /// The request body, until it is taken.
    Body(Option<ChunkStream>),
}

/// The arguments of one call of one method.
pub struct Arguments<'a> {
    contract: &'static Contract,
    method: usize,
    source: Source<'a>,
    /// The index of the next parameter to read.
    next: usize,
    violations: Vec<Violation>,
    streams: Streams,
    limits: Limits,
    /// The error of a stream that could not be taken, if the argument itself is valid.
    refusal: Option<Error>,
}

/// One of the two JSON encodings.
#[derive(Deserialize)]
#[serde(transparent)]
struct PositionalArguments<'a>(#[serde(borrow)] Vec<&'a RawValue>);

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

/// A name that is copied only if it is escaped.
#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Arguments<'a> {
    const fn of(contract: &'static Contract, method: usize, source: Source<'a>) -> Self {
        Self {
            contract,
            method,
            source,
            next: 0,
            violations: Vec::new(),
            streams: Streams::None,
            limits: Limits::DEFAULT,
            refusal: None,
        }
    }

    /// Sets the streams of the call and their limits.
    pub(crate) fn with_streams(mut self, streams: Streams, limits: Limits) -> Self {
        (self.streams, self.limits) = (streams, limits);
        self
    }

    /// Parses JSON: an object by name, an array by position, empty input for no arguments.
    pub(crate) fn of_json(
        contract: &'static Contract,
        method: usize,
        json: &'a [u8],
    ) -> Result<Self> {
        let source = match json.trim_ascii_start().first() {
            None => Source::Named(Vec::new()),
            Some(b'[') => {
                Source::PositionalArguments(read::<PositionalArguments<'a>>(json, "parameters")?.0)
            }
            Some(_) => Source::Named(read::<Named<'a>>(json, "parameters")?.0),
        };
        Ok(Self::of(contract, method, source))
    }

    /// Takes the arguments from a query string.
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

    fn method(&self) -> Option<&'static MethodContract> {
        self.contract.methods.get(self.method)
    }

    /// Reads the next argument. Returns `None` if it is invalid; [`Arguments::end`] reports the
    /// error.
    pub fn read<T: Transfer>(&mut self) -> Option<T> {
        let place = self.next;
        self.next += 1;
        let parameter = self.parameters().get(place)?;
        if !T::FORM.is_value() {
            let (pieces, expected) = self.stream(place, parameter, T::FORM)?;
            return T::of_pieces(pieces, expected);
        }
        let (text, read) = match &self.source {
            Source::Named(pairs) => match pairs.iter().find(|(name, _)| name == parameter.name) {
                Some((_, value)) => (Some(value.get()), T::of_json(value.get())),
                None => (None, T::of_json("null")),
            },
            Source::PositionalArguments(values) => match values.get(place) {
                Some(value) => (Some(value.get()), T::of_json(value.get())),
                None => (None, T::of_json("null")),
            },
            Source::Query(pairs) => match pairs.iter().find(|(name, _)| name == parameter.name) {
                // Text needs no quotes in a query; other types are JSON.
                Some((_, text)) => (Some(&**text), T::of_text(text)),
                None => (None, T::of_json("null")),
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

    /// Reads the next argument as a stream, without decoding it.
    pub(crate) fn read_stream(&mut self, form: TransferForm) -> Option<(ChunkStream, Expected)> {
        let place = self.next;
        self.next += 1;
        let parameter = self.parameters().get(place)?;
        self.stream(place, parameter, form)
    }

    /// Returns the stream argument at an index.
    fn stream(
        &mut self,
        place: usize,
        parameter: &'static Parameter,
        form: TransferForm,
    ) -> Option<(ChunkStream, Expected)> {
        let json: Option<Cow<'_, str>> = match &self.source {
            Source::Named(pairs) => {
                let found = pairs.iter().find(|(name, _)| name == parameter.name);
                found.map(|(_, value)| value.get().into())
            }
            Source::PositionalArguments(values) => {
                values.get(place).map(|value| value.get().into())
            }
            // A query holds only short streams as JSON; bytes in a query need no quotes.
            Source::Query(pairs) => {
                let found = pairs.iter().find(|(name, _)| name == parameter.name);
                found.map(|(_, text)| match form {
                    TransferForm::Bytes => {
                        serde_json::Value::String(text.to_string()).to_string().into()
                    }
                    _ => Cow::Borrowed(&**text),
                })
            }
        };
        let number: Option<u64> = json.as_ref().and_then(|json| json.parse().ok());
        let found = match (&mut self.streams, number, &json) {
            (Streams::Given(given), Some(number), _) => {
                let place = usize::try_from(number).ok().and_then(|number| given.get_mut(number));
                place.and_then(Option::take).ok_or("a stream that was not passed yet")
            }
            (Streams::Peer(peer, first), Some(number), _) => {
                match peer.take_stream(first.saturating_add(number), self.limits.bounds()) {
                    Ok(pieces) => Ok(pieces),
                    Err(error) => {
                        self.refusal.get_or_insert(error);
                        return None;
                    }
                }
            }
            (Streams::Body(body), _, None) => body.take().ok_or("given once"),
            (_, _, Some(json)) => ChunkStream::of_json(form, json),
            (_, _, None) => {
                let violation = missing(parameter);
                self.violations.push(violation);
                return None;
            }
        };
        match found {
            Ok(pieces) => Some((pieces, self.expected(parameter))),
            Err(wanted) => {
                let violation = Violation {
                    field: parameter.name.to_owned(),
                    value: excerpt(&json.unwrap_or_default()),
                    rule: "type".to_owned(),
                    message: format!("must be a `{}`: {wanted}", parameter.type_name),
                };
                self.violations.push(violation);
                None
            }
        }
    }

    fn expected(&self, parameter: &Parameter) -> Expected {
        Expected {
            what: format!("`{}` of {}", parameter.name, self.called()),
            fault: ErrorKind::Invalid,
            item_bytes_max: self.limits.item_bytes_max,
            stream_bytes_max: self.limits.stream_bytes_max,
        }
    }

    /// Finishes reading.
    ///
    /// # Errors
    /// If arguments are invalid or unknown: lists all invalid ones and up to 10 unknown ones.
    pub fn end(&mut self) -> Result<()> {
        if let Some(refusal) = self.refusal.take() {
            return Err(refusal);
        }
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
            Source::PositionalArguments(values) if values.len() > known.len() => {
                let message = format!(
                    "{} arguments for {} parameters of {}",
                    values.len(),
                    known.len(),
                    self.called()
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            Source::PositionalArguments(_) => Vec::new(),
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

    /// Returns the error for arguments that were not all read although none is invalid. This cannot
    /// happen after a successful [`Arguments::end`].
    #[cold]
    #[must_use]
    pub fn fault(&self) -> Error {
        Error::new(ErrorKind::Bug, format!("the arguments of {} were not read", self.called()))
    }

    /// Returns the error for a method of the contract that the service does not implement.
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
            "the {what} are not valid: {error}; send an object such as {{\"name\":value}}, or an \
             array"
        );
        Error::new(ErrorKind::Invalid, message)
    })
}

#[cold]
fn misfit(parameter: &Parameter, text: &str, error: &serde_json::Error) -> Violation {
    // The position in the text is omitted: the message shows the value.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Written;
    use proptest::prelude::*;

    const CONTRACT: &Contract = &Contract {
        name: "test",
        methods: &[MethodContract {
            name: "both",
            parameters: &[
                Parameter { name: "a", type_name: "i32", form: TransferForm::Value },
                Parameter { name: "b", type_name: "Option<String>", form: TransferForm::Value },
            ],
            result: "()",
            result_form: TransferForm::Value,
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
            let written = Written::new().put("a", a).put("b", b.clone());
            let (written, _) = written.into_parts().unwrap();
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
