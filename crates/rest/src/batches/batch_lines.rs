//! `POST /api/batch` with `Content-Type: application/x-ndjson`: one operation per line, executed as
//! they arrive, with one result line each.
//!
//! ```text
//! POST /api/batch HTTP/1.1
//! Content-Type: application/x-ndjson
//!
//! {"insert":"person","row":{"name":"Mary Ward"}}
//! {"increment":"person","key":{"$result":0},"field":"visits","by":3}
//! {"delete":"person","key":99}
//!
//! HTTP/1.1 200 OK
//! Content-Type: application/x-ndjson
//!
//! {"status":201,"key":4,"version":1}
//! {"status":200,"value":3,"version":2}
//! {"status":404,"error":{"type":"urn:marmota:error:not-found",…}}
//! ```
//!
//! As rows in lines, operations are grouped into chunks, each of which is a transaction. Unlike
//! rows, each operation is independent: an invalid line gets an error and the next one is executed.
//! A chunk ends early if no more data has arrived: a client may wait for a result before it
//! continues. Chunk boundaries are not visible to the client, so a reference may refer to an
//! earlier chunk; the keys of the last operations are kept for that.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::task::Context;

use marmota_http::{BodyStream, BoxError, Flow, IntoResponse, Response};
use marmota_model::{ErrorKind, NoRows, Result as ModelResult, Scratch, Value, json};
use marmota_store::operation::{Answered, BatchMode, Operation, Outcome, Write, key_made};
use marmota_store::registry::Registry;
use marmota_web::ApiResult;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::batches::batch_operation::{write_error, write_of, write_results};
use crate::batches::line_chunks::{Cut, LineChunks};
use crate::batches::linked::Linked;
use crate::protocol::body;
use crate::protocol::ndjson::NDJSON;
use crate::protocol::refusal::at_line;
use crate::request::params;
use crate::request::request_context::RequestContext;
use crate::request::state::ApiState;
use crate::request::submission::Submission;
use crate::rows::once::{OnceLines, REPLAYED};

/// Starts the execution after the request's head was read.
///
/// The answer is a future in any case, because the body is read while it arrives. The durability is
/// fixed here. The caller is authenticated again before each chunk ([`Submission::of_long`]).
///
/// # Errors
/// 400 for parameters in the URL or an unknown durability, 422 for an invalid idempotency key.
pub(crate) fn begin(context: RequestContext<'_, Registry>) -> ApiResult<Flow> {
    params::none(context.request)?;
    let once = OnceLines::of(context.request)?;
    // A repeated request must have the same chunks.
    let cut = if once.is_some() { Cut::Full } else { Cut::Idle };
    let lines = BatchLines {
        submission: Submission::of_long(context, body::durability(context.request)?),
        chunks: LineChunks::new(context.request, context.api.line_bytes_max, cut),
        api: Arc::clone(context.api),
        linked: Linked::default(),
        once,
        is_repeated: false,
    };
    Ok(Flow::Later(Box::pin(lines.answer())))
}

/// A batch in lines, between two chunks. Its memory is limited by one chunk and the keys of the
/// last 1,000 operations, independent of the length of the body.
struct BatchLines {
    /// Passes operations to the store, for the caller of the request.
    submission: Submission,
    /// The current chunk of the body.
    chunks: LineChunks,
    api: Arc<ApiState>,
    /// The writes of the current chunk, and the keys of earlier inserts.
    linked: Linked,
    /// The idempotency key, from which each chunk gets its own.
    once: Option<OnceLines>,
    /// True if the last chunk was executed by an earlier request.
    is_repeated: bool,
}

impl BatchLines {
    /// Returns the response once the first chunk is executed: earlier failures can still set the
    /// status.
    ///
    /// A body that has ended after one chunk also streams, with a second call of [`Self::chunk`]
    /// that finds the end. `Idempotent-Replayed` depends on the first chunk only, because headers
    /// are sent before the others are executed.
    async fn answer(mut self) -> Response {
        let mut first = Vec::new();
        let response = match self.chunk(&mut first).await {
            Err(error) => return error.into_response(),
            Ok(ControlFlow::Break(())) => return Response::with_body(NDJSON, first),
            Ok(ControlFlow::Continue(())) => {
                let is_repeated = self.is_repeated;
                let body = BodyStream::write(|mut out| async move {
                    out.send(first).await?;
                    self.rest(out).await
                });
                (Response::streamed(NDJSON, body), is_repeated)
            }
        };
        match response {
            (response, false) => response,
            (response, true) => response
                .with_header(REPLAYED.0, REPLAYED.1)
                .unwrap_or_else(IntoResponse::into_response),
        }
    }

    /// Sends the first results, and executes the other chunks while the client reads.
    ///
    /// `send` waits while the client does not read, and the next chunk is then not read from the
    /// connection either: neither side can make the server buffer without a limit. An error ends
    /// the stream with a line that has the error and its `line`, and the connection stays
    /// well-formed.
    async fn rest(mut self, mut out: marmota_http::BodySender) -> Result<(), BoxError> {
        loop {
            let mut lines = Vec::new();
            match self.chunk(&mut lines).await {
                Ok(ControlFlow::Continue(())) => out.send(lines).await?,
                Ok(ControlFlow::Break(())) => return Ok(()),
                Err(error) => {
                    write_error(error.document(), &mut lines);
                    lines.push(b'\n');
                    out.send(lines).await?;
                    return Ok(());
                }
            }
        }
    }

    /// Executes the next chunk and appends its results; returns `Break` after the last.
    ///
    /// A chunk with tables of two databases cannot be one transaction. It is divided in halves
    /// until each part is in one database, without a change of the order. With an idempotency key
    /// such a chunk is refused, because its answer is stored as a whole.
    ///
    /// # Errors
    /// The error of the chunk as a whole, with its `line`, after which nothing more is executed. If
    /// a part of the chunk was executed already, the results of that part are followed by a line
    /// with the error instead.
    async fn chunk(&mut self, out: &mut Vec<u8>) -> ApiResult<ControlFlow<()>> {
        if !self.chunks.next().await? {
            return Ok(ControlFlow::Break(()));
        }
        let whole = self.chunks.len();
        let (mut from, mut until) = (0, whole);
        while from < until {
            match self.carry_out(from..until, out).await {
                Ok(()) => (from, until) = (until, whole),
                // Writes to two databases, which no transaction covers.
                Err(error)
                    if error.kind() == ErrorKind::Unsupported
                        && until - from > 1
                        && self.once.is_none() =>
                {
                    until = from + (until - from) / 2;
                }
                Err(error) => {
                    let number = self.chunks.number(from);
                    // Executed lines of the chunk keep their results.
                    if out.is_empty() {
                        return Err(at_line(error, number));
                    }
                    write_error(at_line(error, number).document(), out);
                    out.push(b'\n');
                    self.chunks.stop();
                    return Ok(ControlFlow::Continue(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Executes these lines of the chunk in one transaction, and appends a result line for each.
    ///
    /// Invalid lines get their error as a result and are left out of the transaction. With an
    /// idempotency key the chunk is executed even if no line is valid, so that a repeat gets the
    /// same answer. After a replay the keys for `{"$result":n}` are read from the stored lines, as
    /// no write was executed.
    ///
    /// # Errors
    /// The error of the transaction; no result was appended then.
    async fn carry_out(&mut self, range: Range<usize>, out: &mut Vec<u8>) -> ModelResult<()> {
        let Self { submission, chunks, api, linked, once, is_repeated } = self;
        let number = chunks.number(range.start);
        let texts = chunks.texts(range);
        linked.forget_chunk();
        let mut refused = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            match write_of(submission.store(), text, linked) {
                Ok(write) => linked.add(Some(write)),
                Err(error) => {
                    linked.add(None);
                    refused.push((index, error));
                }
            }
        }
        let Linked { writes, links, .. } = &*linked;
        let key = once.as_ref().map(|once| once.chunk(number, &texts)).transpose()?;
        let (mut results, mut answered) = (Vec::new(), None);
        let poll = |context: &mut Context<'_>| {
            let mut keep = |results: &[ModelResult<Outcome>]| {
                let mut lines = Vec::new();
                write_results(&refused, writes, results, b'\n', &mut lines);
                lines
            };
            let once = match &key {
                Some(key) => Some(api.store.once(key, &mut keep, &mut answered)?),
                None => None,
            };
            let (mode, results) = (BatchMode::Each, &mut results);
            let mut operation = Operation::Batch { writes, links, mode, once, results };
            submission.poll(&mut operation, &mut NoRows, context)
        };
        if !writes.is_empty() || key.is_some() {
            std::future::poll_fn(poll).await?;
        }
        match answered {
            Some(Answered { bytes, repeated }) => {
                *is_repeated = repeated;
                let lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
                linked.next_chunk(|write, _, number| key_kept(write, lines.get(number)?));
                out.extend_from_slice(&bytes);
            }
            None => {
                write_results(&refused, writes, &results, b'\n', out);
                linked.next_chunk(|write, place, _| {
                    results
                        .get(place)?
                        .as_ref()
                        .ok()
                        .and_then(|done| key_made(write, done).cloned())
                });
            }
        }
        out.push(b'\n');
        Ok(())
    }
}

/// Returns the key of an insert from its stored result line, or `None` for the result of a failure.
/// The line was written by this program, but maybe by an earlier version of it, so it is parsed
/// like any input.
fn key_kept(write: &Write, line: &[u8]) -> Option<Value> {
    #[derive(Deserialize)]
    struct Kept<'a> {
        #[serde(borrow)]
        key: Option<&'a RawValue>,
    }
    let kept: Kept<'_> = serde_json::from_slice(line).ok()?;
    let (table, scratch) = (write.table(), Scratch::new());
    let key = json::read_value(&table.fields()[table.key()], kept.key?.get(), &scratch).ok()?;
    Some(key.to_value())
}
