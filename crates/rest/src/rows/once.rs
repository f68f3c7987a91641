//! `Idempotency-Key`: a POST that is executed once, however often it is sent.
//!
//! The store keeps its response, in the transaction of its writes, and returns it for each repeat.
//!
//! ```text
//! POST /api/person
//! Idempotency-Key: 7d1f
//! Content-Type: application/json
//!
//! {"name":"Maria Agnesi"}
//!
//! HTTP/1.1 201 Created
//! Location: /api/person/5
//! ETag: "v1"
//! Idempotent-Replayed: true
//! Content-Type: application/json
//!
//! {"id":5,"name":"Maria Agnesi","visits":0,"version":1}
//! ```
//!
//! The transcript shows a repeat; the first response differs only in `Idempotent-Replayed`, which
//! it does not have. The header follows the draft *The Idempotency-Key HTTP Header Field* of the
//! IETF: the key may be in quotes, as the structured field that the draft defines.
//!
//! A request with a key is executed as a batch, even if it inserts one row, because a batch can
//! store its response in the same transaction. [`kept`] writes the response into bytes: a line with
//! the [`KeptHead`] as JSON, then the body. [`Once::answer`] writes them as a response, for the
//! first request and for repeats alike, so both have the same form.
//!
//! A key belongs to one request. A [`Fingerprint`] of the method, the target and the body is stored
//! with it, and another request with the same key is refused with 422. Errors are not stored,
//! because their transaction is undone: the request is tried again.
//!
//! In a body of lines each chunk has its own key, so that an interrupted upload continues where it
//! stopped: see [`OnceLines`].

use marmota_http::{Request, Status};
use marmota_model::{FieldSet, Result as ModelResult, Table, ValueRef, json};
use marmota_store::Store;
use marmota_store::operation::{Answered, Fingerprint, Keys, OnceKey, Outcome, Write};
use marmota_web::{ApiError, ApiResult};
use serde::{Deserialize, Serialize};

use crate::protocol::etag::Etag;
use crate::protocol::scratch_buffer::ScratchBuffer;
use crate::request::answer::{Answer, Head, JSON};
use crate::rows::get::version_tag;
use crate::rows::insert::location;

/// The header of a replayed response.
pub(crate) const REPLAYED: (&str, &str) = ("Idempotent-Replayed", "true");

/// The format of the response to a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// As for the insert of a row.
    Row,
    /// As for the insert of an array.
    Rows,
    /// As for a batch.
    Results,
    /// As for the insert of a row with related rows.
    Created,
}

/// An idempotent request.
pub(crate) struct Once {
    /// The client's key with the fingerprint of the request.
    pub(crate) key: OnceKey,
    /// The format of the response, which is stored in this form.
    pub(crate) shape: Shape,
    /// The stored response, once the batch is executed.
    pub(crate) answered: Option<Answered>,
}

/// The head of a stored response, without the headers that do not depend on the rows.
#[derive(Serialize, Deserialize)]
struct KeptHead {
    /// 200 for a batch, 201 for inserts.
    status: u16,
    /// The path of the row, if the request inserted a single one.
    location: Option<String>,
    /// The version of that row for its `ETag`; without it, the `ETag` is a hash of the body.
    version: Option<i64>,
}

impl Once {
    /// Returns the idempotency key of the request; `None` without the header.
    ///
    /// # Errors
    /// 400 if the header is not UTF-8, 422 if the key is invalid, for example empty or too long.
    pub(crate) fn of(request: &Request, shape: Shape) -> ApiResult<Option<Self>> {
        let Some(text) = text_of(request)? else { return Ok(None) };
        let mut print = print_of_head(request);
        print.add(request.body());
        let key = OnceKey::new(text, &print)?;
        Ok(Some(Self { key, shape, answered: None }))
    }

    /// Responds with the stored response. `Idempotent-Replayed: true` is added if it is that of an
    /// earlier request.
    ///
    /// # Errors
    /// 500 if the stored bytes are not a response of this API. A program can store other bytes for
    /// the same key through its own batches.
    pub(crate) fn answer(kept: &Answered, answer: &mut Answer<'_, '_>) -> ApiResult<()> {
        let broken = || {
            let message = "the answer stored for this key does not belong to a REST request";
            ApiError::from(marmota_model::Error::new(marmota_model::ErrorKind::Engine, message))
        };
        let end = kept.bytes.iter().position(|&byte| byte == b'\n').ok_or_else(broken)?;
        let (head, body) = (&kept.bytes[..end], &kept.bytes[end + 1..]);
        let head: KeptHead = serde_json::from_slice(head).map_err(|_| broken())?;
        let mut begin = match head.status {
            200 => Head::new(Status::OK, JSON),
            _ => Head::new(Status::CREATED, JSON),
        };
        if head.location.is_some() {
            let etag = head.version.map_or_else(|| Etag::of_bytes(body), Etag::Version);
            begin.etag = Some(etag);
        }
        begin.location = head.location;
        begin.extra = kept.repeated.then_some(REPLAYED);
        let mut buffer = ScratchBuffer::take();
        buffer.extend_from_slice(body);
        answer.whole(begin, &mut buffer);
        Ok(())
    }
}

/// Returns the request's key, without its quotes.
fn text_of(request: &Request) -> ApiResult<Option<&str>> {
    let Some(header) = request.header("idempotency-key") else { return Ok(None) };
    let Ok(text) = std::str::from_utf8(header) else {
        return Err(ApiError::bad_request("`Idempotency-Key` must be text"));
    };
    let text = text.trim();
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    Ok(Some(quoted.unwrap_or(text)))
}

/// Returns the fingerprint of the method and the target, to which the body is added. Parameters are
/// part of the target; headers are not included, since a repeat may be sent by another connection
/// or proxy.
fn print_of_head(request: &Request) -> Fingerprint {
    let mut print = Fingerprint::default();
    for part in [request.method_name(), request.target()] {
        print.add(part.as_bytes());
    }
    print
}

/// A body of lines of which each chunk is executed once.
pub(crate) struct OnceLines {
    /// The client's key.
    text: String,
    /// The fingerprint of the method and the target.
    head: Fingerprint,
}

impl OnceLines {
    /// Returns the idempotency key of the request, if there is one.
    ///
    /// # Errors
    /// As [`Once::of`].
    pub(crate) fn of(request: &Request) -> ApiResult<Option<Self>> {
        let Some(text) = text_of(request)? else { return Ok(None) };
        let once = Self { text: text.to_owned(), head: print_of_head(request) };
        OnceKey::new(text, &once.head)?;
        Ok(Some(once))
    }

    /// Returns the key of the chunk that starts at this line: the client's key with the number of
    /// the line.
    ///
    /// Its fingerprint is that of the request's head and of the chunk's lines, not of the whole
    /// body. So a repeat is recognized chunk by chunk, while later chunks may still be unknown.
    ///
    /// # Errors
    /// If the key is invalid.
    pub(crate) fn chunk(&self, line: u64, texts: &[&[u8]]) -> ModelResult<OnceKey> {
        let mut print = self.head.clone();
        texts.iter().for_each(|text| print.add(text));
        Ok(OnceKey::new(&*self.text, &print)?.part(line))
    }
}

/// Returns a response in its stored form, from the writes of a batch and their results.
///
/// - [`Shape::Row`]: 201 with the row, its `Location` under `path`, and its version. If the table has
///   hooks, only the key of the row is known and shown.
/// - [`Shape::Rows`]: 201 with the keys, as for an array.
/// - [`Shape::Results`]: 200 with the body that `write_results` appends.
pub(crate) fn kept(
    shape: Shape,
    path: &str,
    (writes, results): (&[Write], &[ModelResult<Outcome>]),
    store: &Store,
    write_results: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let (mut status, mut body) = (Status::CREATED, Vec::new());
    let (mut at, mut version) = (None, None);
    match (shape, writes, results) {
        (Shape::Row, [Write::Insert { table, row, .. }], [Ok(outcome)]) => {
            let mut row: Vec<ValueRef<'_>> = row.iter().map(|value| value.as_ref()).collect();
            row[table.key()] = key_of(table, &row, outcome);
            at = Some(location(path, row[table.key()]));
            if let Some(Etag::Version(known)) = version_tag(table, &row) {
                version = Some(known);
            }
            let shown = match store.has_hooks(table) {
                true => FieldSet::EMPTY.with(table.key()),
                false => store.view_of(table).read_by_default(),
            };
            json::write_row(&mut body, table, shown, &row);
        }
        (Shape::Rows, ..) => {
            body.extend_from_slice(b"{\"keys\":[");
            for (write, result) in writes.iter().zip(results) {
                let (Write::Insert { table, row, .. }, Ok(outcome)) = (write, result) else {
                    continue;
                };
                if body.last() != Some(&b'[') {
                    body.push(b',');
                }
                let row: Vec<ValueRef<'_>> = row.iter().map(|value| value.as_ref()).collect();
                let kind = &table.fields()[table.key()].kind;
                json::write_value_as(&mut body, kind, key_of(table, &row, outcome));
            }
            body.extend_from_slice(b"]}");
        }
        _ => {
            status = Status::OK;
            write_results(&mut body);
        }
    }
    let head = KeptHead { status: status.code(), location: at, version };
    // Numbers and a string: serializing to memory cannot fail.
    let mut bytes = serde_json::to_vec(&head).unwrap_or_default();
    bytes.push(b'\n');
    bytes.append(&mut body);
    bytes
}

/// Returns the response to a row with related rows in its stored form.
pub(crate) fn kept_nested(shape: Shape, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let status = if shape == Shape::Created { Status::CREATED } else { Status::OK };
    let head = KeptHead { status: status.code(), location: None, version: None };
    let mut bytes = serde_json::to_vec(&head).unwrap_or_default();
    bytes.push(b'\n');
    write(&mut bytes);
    bytes
}

/// Returns the key of an inserted row: that of the outcome if the engine has assigned it, else that
/// in the row.
fn key_of<'v>(table: &Table, row: &[ValueRef<'v>], outcome: &'v Outcome) -> ValueRef<'v> {
    match &outcome.keys {
        Keys::One(key) => key.as_ref(),
        _ => row[table.key()],
    }
}
