//! `POST /api/{table}` with `Content-Type: application/x-ndjson`: one row per line, inserted as
//! they arrive.
//!
//! Lines are grouped into chunks, and each chunk is a batch insert, so that long uploads do not
//! need much memory or a long transaction. The contract follows from that: the rows before the
//! first invalid line are stored, the rows from it on are not, and the response names the line. For
//! this, a chunk that fails is retried in parts, up to that line.
//!
//! With an `Idempotency-Key` each chunk is executed once, and completely or not at all: a part of a
//! chunk would be another request when the body is resent.
//!
//! ```text
//! POST /api/person
//! Content-Type: application/x-ndjson
//!
//! {"name":"Hertha Ayrton"}
//! {"name":""}
//! {"name":"Mary Cartwright"}
//!
//! HTTP/1.1 422 Unprocessable Content
//! Content-Type: application/problem+json
//!
//! {"type":"urn:marmota:error:invalid",…,"status":422,…,"line":2,"inserted":1,"errors":[…]}
//! ```
//!
//! A complete insert is answered with 201 and `{"inserted":2}`. With `on_conflict` the counts
//! `replaced`, `updated` and `ignored` follow ([`Effects`]), in errors, too.
//!
//! The parameters and headers are `?on_conflict=`, `Prefer: durability=…` and `Idempotency-Key`.
//! The latter excludes parameters.
//!
//! [`LineChunks`] reads the body and cuts it into chunks; [`Objects`] parses the lines of a chunk
//! while the engine inserts them; [`Submission`] executes one chunk at a time, and authenticates
//! the caller again before each. Reading continues when a chunk is stored, so a slow engine slows
//! the client down instead of filling the memory.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_http::{Flow, IntoResponse, Request, Response, Status};
use marmota_model::{
    Error, ErrorKind, NoRows, Result as ModelResult, RowSource, Scratch, Table, Value,
};
use marmota_store::operation::{BatchMode, Keys, OnConflict, Operation, Outcome, UpsertEffect};
use marmota_store::prepare::WriteTimestamp;
use marmota_web::ApiResult;

use crate::batches::batch_operation;
use crate::batches::effects::Effects;
use crate::batches::line_chunks::{Cut, LineChunks};
use crate::batches::linked::Linked;
use crate::protocol::body::{self, empty_row};
use crate::protocol::refusal::at_line;
use crate::request::answer::JSON;
use crate::request::params;
use crate::request::request_context::RequestContext;
use crate::request::state::ApiState;
use crate::request::submission::Submission;
use crate::rows::insert_many::Objects;
use crate::rows::once::{OnceLines, REPLAYED};

/// Starts the insert after the request's head was read, and before the body has arrived.
///
/// # Errors
/// - 400 for an invalid parameter or durability, or for a parameter with `Idempotency-Key`.
/// - 422 for an invalid idempotency key.
pub(crate) fn begin(context: RequestContext<'_>) -> ApiResult<Flow> {
    let on_conflict = params::on_conflict(context.request)?;
    let once = OnceLines::of(context.request)?;
    if once.is_some() && on_conflict != OnConflict::Refuse {
        return Err(params::no_key_beside_parameters());
    }
    let insert = InsertLines {
        submission: Submission::of_long(context, body::durability(context.request)?),
        table: Arc::clone(context.subject),
        on_conflict,
        once,
        done: Effects::new(on_conflict),
        is_new: false,
    };
    let (api, request) = (Arc::clone(context.api), context.request.clone());
    Ok(Flow::Later(Box::pin(insert.answer(api, request))))
}

/// An upload in progress.
struct InsertLines {
    submission: Submission,
    table: Arc<Table>,
    on_conflict: OnConflict,
    /// The idempotency key, of which each chunk has a part.
    once: Option<OnceLines>,
    /// The rows that are stored so far, for the response or the error.
    done: Effects,
    /// True if a chunk was executed now, not found as executed before.
    is_new: bool,
}

impl InsertLines {
    /// Inserts all lines and returns the response: 201 with the counts, or the error of the first
    /// invalid line with the counts of the lines before it.
    ///
    /// `Idempotent-Replayed: true` is added if every chunk was found as executed before. An empty
    /// body has no chunks, and is not a repeat.
    async fn answer(mut self, api: Arc<ApiState>, request: Request) -> Response {
        if let Err(error) = self.insert_all(&api, &request).await {
            return self.done.add_to(error).into_response();
        }
        let mut body = vec![b'{'];
        self.done.write(&mut body);
        body.push(b'}');
        let response = Response::with_body(JSON, body).with_status(Status::CREATED);
        if self.once.is_none() || self.is_new || self.done.is_empty() {
            return response;
        }
        let (name, value) = REPLAYED;
        response.with_header(name, value).unwrap_or_else(IntoResponse::into_response)
    }

    /// Inserts chunk after chunk until the body ends.
    ///
    /// # Errors
    /// That of the first invalid line, with its number, or that of the body, for example if it is
    /// truncated.
    async fn insert_all(&mut self, api: &ApiState, request: &Request) -> ApiResult<()> {
        let mut chunks = LineChunks::new(request, api.line_bytes_max, Cut::Full);
        while chunks.next().await? {
            match self.once.take() {
                None => self.insert_chunk(&chunks).await?,
                Some(once) => {
                    let inserted = self.insert_once(api, &once, &chunks).await;
                    self.once = Some(once);
                    inserted?;
                }
            }
        }
        Ok(())
    }

    /// Inserts the rows of a chunk, or those before the first invalid one.
    ///
    /// A failed attempt stores nothing, and is repeated with fewer lines. If the source has refused
    /// a line, its index is known, and the lines before it are inserted next. A conflict has no
    /// index, so the range is halved until one line is left. In an update, a line with other fields
    /// than the first one is refused by the source too, and begins the next insert.
    ///
    /// # Errors
    /// That of the first invalid line. An error that is not of a row (a full disk, a revoked right)
    /// has the number of the first line that is not stored.
    async fn insert_chunk(&mut self, chunk: &LineChunks) -> ApiResult<()> {
        let (mut from, mut until) = (0, chunk.len());
        while from < until {
            let refused = Cell::new(None);
            match self.insert(&chunk.texts(from..until), &refused).await {
                Ok(outcome) => {
                    self.count(until - from, &outcome);
                    (from, until) = (until, chunk.len());
                }
                Err(error) if until - from == 1 || !is_of_a_row(&error) => {
                    return Err(at_line(error, chunk.number(from)));
                }
                Err(_) => {
                    until = match refused.get() {
                        // The rows before one that could not be parsed.
                        Some(index) if index > 0 => from + index,
                        Some(_) => from + 1,
                        None => from + (until - from) / 2,
                    };
                }
            }
        }
        Ok(())
    }

    /// Adds the effects of an insert of this number of rows.
    fn count(&mut self, rows: usize, outcome: &Outcome) {
        match &outcome.keys {
            Keys::Upserted(placed) => {
                placed.iter().for_each(|row| self.done.add(row.effect, 1));
            }
            _ => self.done.add(outcome.effect, rows as u64),
        }
    }

    /// Inserts all of these rows or none; `refused` is set to the index of a row that is invalid.
    ///
    /// The rows are parsed again whenever the operation is polled, but generated keys and the time
    /// stay the same. A single row is inserted by an operation for one row, which is cheaper than
    /// one for many.
    async fn insert(
        &mut self,
        texts: &[&[u8]],
        refused: &Cell<Option<usize>>,
    ) -> ModelResult<Outcome> {
        let stamp = WriteTimestamp::now(&self.table);
        let mut keys = Vec::new();
        let Self { submission, table, on_conflict, .. } = self;
        let mut poll = |context: &mut Context<'_>, keys: &mut Vec<Value>| -> Poll<_> {
            let scratch = Scratch::new();
            let mut rows = Objects::new(table, texts, &scratch, stamp, keys, refused);
            rows.on_conflict = *on_conflict;
            let on_conflict = rows.on_conflict_of_first();
            if texts.len() > 1 {
                let mut operation = Operation::InsertMany { table, rows: &mut rows, on_conflict };
                return submission.poll(&mut operation, &mut NoRows, context);
            }
            // An error of a single row needs no index.
            let mut row = empty_row(table);
            rows.next(&mut row)?;
            let mut operation = Operation::Insert { table, row: &row, on_conflict };
            submission.poll(&mut operation, &mut NoRows, context)
        };
        std::future::poll_fn(|context| poll(context, &mut keys)).await
    }

    /// Inserts all rows of a chunk or none, unless that was done before.
    ///
    /// The inserts and the record of the key are one batch, in one transaction. The stored response
    /// is empty: the number of rows is known from the lines, since a chunk is stored whole.
    ///
    /// # Errors
    /// That of the first invalid or conflicting line, with its number; no line of the chunk is
    /// stored then.
    async fn insert_once(
        &mut self,
        api: &ApiState,
        once: &OnceLines,
        chunk: &LineChunks,
    ) -> ApiResult<()> {
        let texts = chunk.texts(0..chunk.len());
        let mut linked = Linked::default();
        for (index, text) in texts.iter().enumerate() {
            let insert = batch_operation::insert_of(
                &self.table,
                text,
                OnConflict::Refuse,
                &Linked::default(),
            );
            linked.add(Some(insert.map_err(|error| at_line(error, chunk.number(index)))?));
        }
        let key = once.chunk(chunk.number(0), &texts)?;
        let (mut results, mut answered) = (Vec::new(), None);
        let submission = &mut self.submission;
        let poll = |context: &mut Context<'_>| {
            // The result of a repeated chunk is the number of its rows, so nothing is stored.
            let mut nothing = |_: &[ModelResult<Outcome>]| Vec::new();
            let once = Some(api.store.once(&key, &mut nothing, &mut answered)?);
            let (writes, links, mode) = (&linked.writes, &[], BatchMode::AllOrNothing);
            let mut operation =
                Operation::Batch { writes, links, mode, once, results: &mut results };
            submission.poll(&mut operation, &mut NoRows, context)
        };
        if let Err(error) = std::future::poll_fn(poll).await {
            let at = results.len().saturating_sub(1);
            return Err(match results.pop() {
                Some(Err(failed)) => at_line(failed, chunk.number(at)),
                _ => at_line(error, chunk.number(0)),
            });
        }
        self.is_new |= answered.is_none_or(|answered| !answered.repeated);
        self.done.add(UpsertEffect::Inserted, texts.len() as u64);
        Ok(())
    }
}

/// Returns true if an error may be caused by a single row, so that an insert of fewer rows can
/// succeed.
fn is_of_a_row(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Conflict)
}
