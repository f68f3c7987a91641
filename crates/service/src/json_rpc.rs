//! JSON-RPC 2.0: calls, notifications and batches of them, answered in the
//! order in which they stand. It owns no socket.

use std::borrow::Cow;

use marmota_model::text::excerpt;
use marmota_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::call::Origin;
use crate::dispatch::Answer;
use crate::failure::{Failure, METHOD, PARAMETERS, PARSE, REQUEST};
use crate::services::Settings;

/// Calls in one batch at most.
const BATCH_MAX: usize = 1_000;

/// A call as it stands in a message.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    /// Also `null`, which is no notification's.
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    /// Beside the standard: the stub that calls ([`crate::Lifetime::Stub`]).
    stub: Option<u64>,
}

/// What stands there, `null` too.
pub(crate) fn present<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// One call that was begun, or was refused.
struct Begun {
    /// As it was sent; none for a notification.
    id: Option<String>,
    outcome: Result<(Answer, String), Failure>,
}

/// Calls that were begun.
pub(crate) struct Exchange {
    begun: Vec<Begun>,
    is_batch: bool,
}

impl Exchange {
    /// Reads a message and begins what it calls.
    pub(crate) fn begin(settings: &Settings, origin: &Origin, message: &[u8]) -> Self {
        let one = |failure| Self { begun: vec![Begun::refused(failure)], is_batch: false };
        let whole: &RawValue = match serde_json::from_slice(message) {
            Ok(whole) => whole,
            Err(error) => return one(coded(PARSE, format!("the message is no JSON: {error}"))),
        };
        if !whole.get().starts_with('[') {
            let begun = vec![Begun::read(settings, origin, whole)];
            return Self { begun, is_batch: false };
        }
        let parts: Vec<&RawValue> = serde_json::from_str(whole.get()).unwrap_or_default();
        match parts.len() {
            0 => one(coded(REQUEST, "an empty batch calls nothing".to_owned())),
            1..=BATCH_MAX => {
                let begun =
                    parts.into_iter().map(|part| Begun::read(settings, origin, part)).collect();
                Self { begun, is_batch: true }
            }
            count => {
                let message = format!("a batch of {count} calls; {BATCH_MAX} are the most");
                one(coded(REQUEST, message))
            }
        }
    }

    /// The answer; none to notifications alone. Calls of a batch are carried out
    /// one after the other.
    pub(crate) async fn answer(self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for Begun { id, outcome } in self.begun {
            let done = match outcome {
                Ok((answer, called)) => answer.await.map_err(|error| Failure::of(&error, &called)),
                Err(failure) => Err(failure),
            };
            let Some(id) = id else { continue };
            if !out.is_empty() {
                out.push(b',');
            }
            put_answer(&mut out, &id, done);
        }
        match (out.is_empty(), self.is_batch) {
            (true, _) => None,
            (false, true) => Some([b"[".as_slice(), &out, b"]"].concat()),
            (false, false) => Some(out),
        }
    }
}

/// Appends an answer.
pub(crate) fn put_answer(out: &mut Vec<u8>, id: &str, done: Result<Vec<u8>, Failure>) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",");
    match done {
        Ok(result) => {
            out.extend_from_slice(b"\"result\":");
            out.extend_from_slice(&result);
        }
        Err(failure) => {
            out.extend_from_slice(b"\"error\":");
            // Texts and a number: they can be written.
            let _ = serde_json::to_writer(&mut *out, &failure);
        }
    }
    out.extend_from_slice(b",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.push(b'}');
}

impl Begun {
    fn refused(failure: Failure) -> Self {
        Self { id: Some("null".to_owned()), outcome: Err(failure) }
    }

    fn read(settings: &Settings, origin: &Origin, part: &RawValue) -> Self {
        let Ok(request) = serde_json::from_str::<Request<'_>>(part.get()) else {
            let message = "a call is an object with `jsonrpc`, `method`, `params` and `id`";
            return Self::refused(coded(REQUEST, message.to_owned()));
        };
        let is_id = |id: &&RawValue| !id.get().starts_with(['{', '[', 't', 'f']);
        let id = request.id.filter(is_id).map(|id| id.get().to_owned());
        let refused = |message: &str| Self {
            id: Some(id.clone().unwrap_or_else(|| "null".to_owned())),
            outcome: Err(coded(REQUEST, message.to_owned())),
        };
        let is_call =
            request.jsonrpc.as_deref() == Some("2.0") && id.is_some() == request.id.is_some();
        let Some(method) = request.method.filter(|_| is_call) else {
            return refused(
                "a call has \"jsonrpc\":\"2.0\", a method, and an id that is a number or a text",
            );
        };
        let Ok(Name(method)) = serde_json::from_str::<Name<'_>>(method.get()) else {
            return refused(&format!("the method {} is no text", excerpt(method.get())));
        };
        let params = request.params.map_or("", RawValue::get);
        let outcome = settings.target(&method).map_err(|error| Failure::coded(METHOD, &error));
        let outcome = outcome.and_then(|target| {
            let read = target.arguments(params.as_bytes());
            let arguments = read.map_err(|error| Failure::coded(PARAMETERS, &error))?;
            let number = request.id.and_then(|id| id.get().parse().ok());
            let origin = Origin { stub: request.stub, number, ..origin.clone() };
            let answer = target.call(origin, arguments);
            Ok((answer.map_err(|error| Failure::of(&error, &method))?, method.into_owned()))
        });
        Self { id, outcome }
    }
}

#[cold]
fn coded(code: i32, message: String) -> Failure {
    let kind = if code == PARSE { ErrorKind::Protocol } else { ErrorKind::Invalid };
    Failure::coded(code, &Error::new(kind, message))
}
