//! JSON-RPC 2.0: calls, notifications and batches, answered in their order. It does not own a
//! socket.

use std::borrow::Cow;

use marmota_model::text::excerpt;
use marmota_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Settings, Target};
use crate::call::CallOrigin;
use crate::call::arguments::Streams;
use crate::failure::{Failure, METHOD, OTHER, PARAMETERS, PARSE, REQUEST};
use crate::limits::Limits;
use crate::peer::Peer;
use crate::transfer::{Answer, Reply};

/// The maximum number of calls in one batch.
const BATCH_MAX: usize = 1_000;

/// A call as it is encoded in a message.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    /// May be `null`, which is not a notification.
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    /// An extension: the number of the calling stub ([`crate::Lifetime::Stub`]).
    stub: Option<u64>,
    /// An extension: the number of the first stream among the parameters.
    #[serde(default)]
    streams: u64,
}

/// Deserializes a value that is present, including `null`.
pub(crate) fn present<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// A call that was started or refused.
struct Begun {
    /// The id as it was sent; `None` for a notification.
    id: Option<String>,
    outcome: Result<(Answer, String), Failure>,
}

/// The started calls of one message.
pub(crate) struct Exchange {
    begun: Vec<Begun>,
    is_batch: bool,
    /// The peer that receives the streamed results.
    peer: Option<Peer>,
    limits: Limits,
}

impl Exchange {
    /// Parses a message and starts its calls.
    pub(crate) fn begin(settings: &Settings, origin: &CallOrigin, message: &[u8]) -> Self {
        let (peer, limits) = (&origin.peer, settings.limits);
        let of = |begun, is_batch| Self { begun, is_batch, peer: peer.clone(), limits };
        let one = |failure| of(vec![Begun::refused(failure)], false);
        let whole: &RawValue = match serde_json::from_slice(message) {
            Ok(whole) => whole,
            Err(error) => {
                return one(coded(PARSE, format!("the message is not valid JSON: {error}")));
            }
        };
        if !whole.get().starts_with('[') {
            let begun = vec![Begun::read(settings, origin, whole)];
            return of(begun, false);
        }
        let parts: Vec<&RawValue> = serde_json::from_str(whole.get()).unwrap_or_default();
        match parts.len() {
            0 => one(coded(REQUEST, "the batch is empty".to_owned())),
            1..=BATCH_MAX => {
                let begun =
                    parts.into_iter().map(|part| Begun::read(settings, origin, part)).collect();
                of(begun, true)
            }
            count => {
                let message =
                    format!("the batch has {count} calls; at most {BATCH_MAX} are allowed");
                one(coded(REQUEST, message))
            }
        }
    }

    /// Returns the response, `None` if the message has only notifications. The calls of a batch are
    /// executed one after the other.
    pub(crate) async fn answer(self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for Begun { id, outcome } in self.begun {
            let done = match outcome {
                Ok((answer, called)) => {
                    let reply = answer.await;
                    let opened = reply
                        .and_then(|reply| opened(self.peer.as_ref(), reply, &called, self.limits));
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

/// The result of a call.
pub(crate) enum Done {
    /// A JSON value.
    Value(Vec<u8>),
    /// The number of a stream.
    Stream(u64),
}

/// Opens a streamed result for its peer.
fn opened(peer: Option<&Peer>, reply: Reply, called: &str, limits: Limits) -> Result<Done> {
    match (reply, peer) {
        (Reply::Value(json), _) => Ok(Done::Value(json)),
        (Reply::Stream(pieces), Some(peer)) => {
            peer.open(pieces, called, limits.bounds()).map(Done::Stream)
        }
        // A method with streams is refused before the call, if its contract declares them.
        (Reply::Stream(_), None) => {
            let message = format!("{called} returns a stream that is missing in its contract");
            Err(Error::new(ErrorKind::Bug, message))
        }
    }
}

/// Appends a response.
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
            // The failure holds only strings and a number: serializing cannot fail.
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
            let message = "a call must be an object with `jsonrpc`, `method`, `params` and `id`";
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
                "a call must have \"jsonrpc\":\"2.0\", a method, and an id that is a number or a \
                 text",
            );
        };
        let Ok(Name(method)) = serde_json::from_str::<Name<'_>>(method.get()) else {
            return refused(&format!("the method {} is not a text", excerpt(method.get())));
        };
        let params = request.params.map_or("", RawValue::get);
        let outcome = settings.target(&method).map_err(|error| Failure::coded(METHOD, &error));
        let outcome = outcome.and_then(|target| {
            if origin.peer.is_none() && target.described().is_some_and(|it| it.has_streams()) {
                return Err(Failure::coded(OTHER, &no_streams(&target)));
            }
            let read = target.arguments(params.as_bytes());
            let arguments = read.map_err(|error| Failure::coded(PARAMETERS, &error))?;
            let streams = origin.peer.clone().map(|peer| Streams::Peer(peer, request.streams));
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
        "{name} takes or returns streams, which a single request of JSON-RPC cannot have: call it \
         with          POST …/{path}, or on a connection (`Client::connect`, or a WebSocket)"
    );
    Error::new(ErrorKind::Unsupported, message)
}

#[cold]
fn coded(code: i32, message: String) -> Failure {
    let kind = if code == PARSE { ErrorKind::Protocol } else { ErrorKind::Invalid };
    Failure::coded(code, &Error::new(kind, message))
}
