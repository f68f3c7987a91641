//! JSON-RPC 2.0: calls, notifications and batches of them, answered in the
//! order in which they stand. It owns no socket.

use std::borrow::Cow;

use marmota_model::text::excerpt;
use marmota_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::arguments::Streams;
use crate::call::CallOrigin;
use crate::dispatch::Answer;
use crate::failure::{Failure, METHOD, OTHER, PARAMETERS, PARSE, REQUEST};
use crate::form::Reply;
use crate::limits::Limits;
use crate::link::Link;
use crate::services::{Settings, Target};

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
    /// Beside the standard: where the numbers of its parameters' streams begin.
    #[serde(default)]
    streams: u64,
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
    /// By which streams go that come of calls.
    link: Option<Link>,
    limits: Limits,
}

impl Exchange {
    /// Reads a message and begins what it calls.
    pub(crate) fn begin(settings: &Settings, origin: &CallOrigin, message: &[u8]) -> Self {
        let (link, limits) = (&origin.link, settings.limits);
        let of = |begun, is_batch| Self { begun, is_batch, link: link.clone(), limits };
        let one = |failure| of(vec![Begun::refused(failure)], false);
        let whole: &RawValue = match serde_json::from_slice(message) {
            Ok(whole) => whole,
            Err(error) => return one(coded(PARSE, format!("the message is no JSON: {error}"))),
        };
        if !whole.get().starts_with('[') {
            let begun = vec![Begun::read(settings, origin, whole)];
            return of(begun, false);
        }
        let parts: Vec<&RawValue> = serde_json::from_str(whole.get()).unwrap_or_default();
        match parts.len() {
            0 => one(coded(REQUEST, "an empty batch calls nothing".to_owned())),
            1..=BATCH_MAX => {
                let begun =
                    parts.into_iter().map(|part| Begun::read(settings, origin, part)).collect();
                of(begun, true)
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
                Ok((answer, called)) => {
                    let reply = answer.await;
                    let opened = reply
                        .and_then(|reply| opened(self.link.as_ref(), reply, &called, self.limits));
                    opened.map_err(|error| Failure::of(&error, &called))
                }
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

/// What is answered.
pub(crate) enum Done {
    /// JSON.
    Value(Vec<u8>),
    /// A stream of that number.
    Stream(u64),
}

/// Puts a stream that comes of a call onto its link.
fn opened(link: Option<&Link>, reply: Reply, called: &str, limits: Limits) -> Result<Done> {
    match (reply, link) {
        (Reply::Value(json), _) => Ok(Done::Value(json)),
        (Reply::Stream(pieces), Some(link)) => {
            link.open(pieces, called, limits.bounds()).map(Done::Stream)
        }
        // Refused before it was called.
        (Reply::Stream(_), None) => {
            let message = format!("{called} gives a stream, and its contract does not say so");
            Err(Error::new(ErrorKind::Bug, message))
        }
    }
}

/// Appends an answer.
pub(crate) fn put_answer(out: &mut Vec<u8>, id: &str, done: Result<Done, Failure>) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",");
    match done {
        Ok(Done::Value(result)) => {
            out.extend_from_slice(b"\"result\":");
            out.extend_from_slice(&result);
        }
        Ok(Done::Stream(number)) => {
            out.extend_from_slice(format!("\"result\":null,\"stream\":{number}").as_bytes());
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

    fn read(settings: &Settings, origin: &CallOrigin, part: &RawValue) -> Self {
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
            if origin.link.is_none() && target.described().is_some_and(|it| it.has_streams()) {
                return Err(Failure::coded(OTHER, &no_streams(&target)));
            }
            let read = target.arguments(params.as_bytes());
            let arguments = read.map_err(|error| Failure::coded(PARAMETERS, &error))?;
            let streams = origin.link.clone().map(|link| Streams::Link(link, request.streams));
            let arguments = arguments.with_streams(streams.unwrap_or_default(), settings.limits);
            let number = request.id.and_then(|id| id.get().parse().ok());
            let origin = CallOrigin { stub: request.stub, number, ..origin.clone() };
            let answer = target.call(origin, arguments);
            Ok((answer.map_err(|error| Failure::of(&error, &method))?, method.into_owned()))
        });
        Self { id, outcome }
    }
}

#[cold]
fn no_streams(target: &Target) -> Error {
    let name = target.name();
    let path = name.replace('.', "/");
    let message = format!(
        "{name} takes or gives streams, which a request of JSON-RPC by itself cannot have: call it by          POST …/{path}, or on a connection (`Client::connect`, or a WebSocket)"
    );
    Error::new(ErrorKind::Unsupported, message)
}

#[cold]
fn coded(code: i32, message: String) -> Failure {
    let kind = if code == PARSE { ErrorKind::Protocol } else { ErrorKind::Invalid };
    Failure::coded(code, &Error::new(kind, message))
}
