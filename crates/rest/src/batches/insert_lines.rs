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

/// Starts the insert after the request's head was read.
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

struct InsertLines {
    submission: Submission,
    table: Arc<Table>,
    on_conflict: OnConflict,
    once: Option<OnceLines>,
    done: Effects,
    /// True if a chunk was executed now, not found as executed before.
    is_new: bool,
}

impl InsertLines {
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

    fn count(&mut self, rows: usize, outcome: &Outcome) {
        match &outcome.keys {
            Keys::Upserted(placed) => {
                placed.iter().for_each(|row| self.done.add(row.effect, 1));
            }
            _ => self.done.add(outcome.effect, rows as u64),
        }
    }

    /// Inserts all of these rows or none; `refused` is the index of a row that is invalid.
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

/// Returns true if an error may be caused by a single row.
fn is_of_a_row(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Conflict)
}
