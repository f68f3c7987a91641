//! `Idempotency-Key`: a POST that is executed once, however often it is sent.
//!
//! The store keeps its response, in the transaction of its writes, and returns it for each repeat.

use marmota_http::{Request, Status};
use marmota_model::{Result as ModelResult, Table, ValueRef, json};
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
}

/// An idempotent request.
pub(crate) struct Once {
    pub(crate) key: OnceKey,
    pub(crate) shape: Shape,
    pub(crate) answered: Option<Answered>,
}

/// The head of a stored response.
#[derive(Serialize, Deserialize)]
struct KeptHead {
    status: u16,
    location: Option<String>,
    version: Option<i64>,
}

impl Once {
    /// Returns the idempotency key of the request, if there is one.
    ///
    /// # Errors
    /// 422 if the key is invalid.
    pub(crate) fn of(request: &Request, shape: Shape) -> ApiResult<Option<Self>> {
        let Some(text) = text_of(request)? else { return Ok(None) };
        let mut print = print_of_head(request);
        print.add(request.body());
        let key = OnceKey::new(text, &print)?;
        Ok(Some(Self { key, shape, answered: None }))
    }

    /// Responds with the stored response.
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

fn print_of_head(request: &Request) -> Fingerprint {
    let mut print = Fingerprint::default();
    for part in [request.method_name(), request.target()] {
        print.add(part.as_bytes());
    }
    print
}

/// A body of lines of which each chunk is executed once.
pub(crate) struct OnceLines {
    text: String,
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

    /// Returns the key of the chunk that starts at this line.
    pub(crate) fn chunk(&self, line: u64, texts: &[&[u8]]) -> ModelResult<OnceKey> {
        let mut print = self.head.clone();
        texts.iter().for_each(|text| print.add(text));
        Ok(OnceKey::new(&*self.text, &print)?.part(line))
    }
}

/// Returns a response in its stored form.
pub(crate) fn kept(
    shape: Shape,
    path: &str,
    writes: &[Write],
    results: &[ModelResult<Outcome>],
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
            json::write_row(&mut body, table, table.read_by_default(), &row);
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

fn key_of<'v>(table: &Table, row: &[ValueRef<'v>], outcome: &'v Outcome) -> ValueRef<'v> {
    match &outcome.keys {
        Keys::One(key) => key.as_ref(),
        _ => row[table.key()],
    }
}
