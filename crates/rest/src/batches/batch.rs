//! `POST /api/batch`: several writes to any tables, in one transaction, with a result for each.
//!
//! ```text
//! POST /api/batch HTTP/1.1
//! Content-Type: application/json
//!
//! {"mode":"each","operations":[
//!   {"insert":"person","row":{"name":"Marie Curie"}},
//!   {"patch":"person","key":1,"row":{"visits":0},"version":5},
//!   {"delete":"person","key":7}]}
//!
//! HTTP/1.1 200 OK
//! Content-Type: application/json
//!
//! {"results":[
//!   {"status":201,"key":2,"version":1},
//!   {"status":200,"version":6},
//!   {"status":404,"error":{"type":"urn:marmota:error:not-found",…}}]}
//! ```
//!
//! In mode `all` a failure is the answer itself, a problem document with the member `index`:
//!
//! ```text
//! HTTP/1.1 409 Conflict
//! Content-Type: application/problem+json
//!
//! {"type":"urn:marmota:error:conflict",…,"status":409,…,"index":1}
//! ```
//!
//! The URL has no parameters. `Idempotency-Key` and `Prefer: durability=…` apply to the whole
//! batch. [`BatchCall::of`] parses the operations with [`write_of`]; the step passes them to the
//! store as one [`Operation::Batch`]. The same verb executes inserts with an idempotency key
//! ([`BatchCall::of_rows`]).

use marmota_http::Status;
use marmota_model::{NoRows, VIOLATIONS_MAX};
use marmota_store::operation::{BatchMode, OnConflict, Operation, Outcome, Write};
use marmota_store::registry::Registry;
use marmota_web::{ApiError, ApiResult};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::batches::batch_operation::{insert_of, write_of, write_results};
use crate::batches::linked::Linked;
use crate::protocol::body;
use crate::protocol::refusal::{at_index, brief};
use crate::protocol::scratch_buffer::ScratchBuffer;
use crate::request::answer::{Answer, Head, JSON};
use crate::request::call::{Execute, Interrupt, Next, Verb};
use crate::request::params;
use crate::request::request_context::RequestContext;
use crate::rows::once::{self, Once, Shape};

/// The body of a batch. Operations stay raw JSON here and are parsed one after the other, so that
/// an error in one of them can name its index, and in mode `each` does not fail the others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body<'a> {
    #[serde(default)]
    mode: Mode,
    #[serde(borrow)]
    operations: Vec<&'a RawValue>,
}

/// The member `mode`. Unknown words are refused with 400.
#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    /// `"all"`, the default: the first failure undoes everything, and is the answer.
    #[default]
    All,
    /// `"each"`: every operation has its own result, and a failure undoes only its own write.
    Each,
}

/// A batch that is checked and ready for execution.
///
/// All bodies are converted to writes before the first of them is executed. A step therefore only
/// executes, and a repeated step executes the same writes with the same times and keys.
pub(crate) struct BatchCall {
    mode: Mode,
    /// The writes, without the refused operations, and the links between them.
    linked: Linked,
    /// The errors of operations that were refused before their execution, with their positions; in
    /// mode `each` only.
    refused: Vec<(usize, ApiError)>,
    /// The results of the executed writes, in their order. The store fills it.
    results: Vec<marmota_model::Result<Outcome>>,
    /// The idempotency key, if there is one.
    once: Option<Once>,
}

impl BatchCall {
    /// Parses the body of `POST /api/batch`.
    ///
    /// In mode `all` the first invalid operation ends the parsing. In mode `each` it is recorded,
    /// and the others are executed. An answer contains at most [`VIOLATIONS_MAX`] violations in
    /// full: each operation could otherwise add as many, and a small request would get a very large
    /// answer.
    ///
    /// # Errors
    /// - 400 for parameters in the URL, or a body that is not an object with `operations`.
    /// - 413 for more than `batch_operations_max` operations.
    /// - 415 for a body that is not JSON, 422 for an invalid idempotency key.
    /// - The error of an operation, with its `index`, in mode `all`: 400, 403, 404 or 422.
    pub(crate) fn of(context: RequestContext<'_, Registry>) -> ApiResult<Self> {
        params::none(context.request)?;
        body::check_json(context.request)?;
        let no_batch = |why: &dyn std::fmt::Display| {
            ApiError::bad_request(format!(
                "the body must have the form \
                 {{\"operations\":[{{\"delete\":\"person\",\"key\":7}}]}}: {why}"
            ))
        };
        // serde would also read the members from an array, and report errors about those.
        if context.request.body().trim_ascii_start().first() == Some(&b'[') {
            return Err(no_batch(&"the operations must be in an object, not only in an array"));
        }
        let body: Body<'_> =
            serde_json::from_slice(context.request.body()).map_err(|error| no_batch(&error))?;
        let most = context.api.batch_operations_max;
        if body.operations.len() > most {
            let count = body.operations.len();
            let message = format!("the batch has {count} operations; at most {most} are allowed");
            return Err(ApiError::bad_request(message).with_status(Status::CONTENT_TOO_LARGE));
        }
        let mut batch = Self {
            mode: body.mode,
            linked: Linked::default(),
            refused: Vec::new(),
            results: Vec::new(),
            once: Once::of(context.request, Shape::Results)?,
        };
        // A response lists a limited number of violations, and for further operations only the
        // first one.
        let mut named = 0;
        for (index, operation) in body.operations.iter().enumerate() {
            match write_of(context.store, operation.get().as_bytes(), &batch.linked) {
                Ok(write) => batch.linked.add(Some(write)),
                Err(error) if batch.mode == Mode::All => return Err(at_index(error, index)),
                Err(error) => {
                    batch.linked.add(None);
                    named += error.error().violations().len();
                    let error = if named > VIOLATIONS_MAX { brief(&error) } else { error };
                    batch.refused.push((index, error));
                }
            }
        }
        Ok(batch)
    }

    /// Converts a row or an array of rows to an idempotent batch.
    ///
    /// An insert with `Idempotency-Key` has the same requirements as a batch with one: its answer
    /// is stored in the transaction of its writes. Executing it as a batch saves a second
    /// implementation. [`Once::shape`] keeps the format of the answer, so the client sees no
    /// difference.
    ///
    /// # Errors
    /// 400 for parameters: `on_conflict` makes an insert repeatable without a key. 415 for a body
    /// that is not JSON, and the errors of the rows, with the `index` of an array's row.
    pub(crate) fn of_rows(context: RequestContext<'_>, once: Once) -> ApiResult<Self> {
        if context.request.query_params().next().is_some() {
            return Err(params::no_key_beside_parameters());
        }
        body::check_json(context.request)?;
        let (table, json) = (context.subject, context.request.body());
        let mut linked = Linked::default();
        if once.shape == Shape::Row {
            linked.add(Some(insert_of(table, json, OnConflict::Refuse, &linked)?));
        } else {
            let rows: Vec<&RawValue> = serde_json::from_slice(json)
                .map_err(|error| ApiError::bad_request(format!("the body is not JSON: {error}")))?;
            for (index, row) in rows.iter().enumerate() {
                let json = row.get().as_bytes();
                let insert = insert_of(table, json, OnConflict::Refuse, &Linked::default());
                linked.add(Some(insert.map_err(|error| at_index(error, index))?));
            }
        }
        let (refused, results) = (Vec::new(), Vec::new());
        Ok(Self { mode: Mode::All, linked, refused, results, once: Some(once) })
    }
}

/// Writes the body of the answer: `{"results":[…]}`, with one result per operation of the request.
fn write_object(
    refused: &[(usize, ApiError)],
    writes: &[Write],
    results: &[marmota_model::Result<Outcome>],
    body: &mut Vec<u8>,
) {
    body.extend_from_slice(b"{\"results\":[");
    write_results(refused, writes, results, b',', body);
    body.extend_from_slice(b"]}");
}

impl Verb for BatchCall {
    type Subject = Registry;

    /// Executes the batch and answers 200 with the results.
    ///
    /// A batch whose operations were all refused, or that is empty, needs no transaction unless it
    /// has an idempotency key, whose answer must be stored. With a key, `keep` creates the answer
    /// to store from the results before the commit. A replayed answer comes from the store, not
    /// from this batch's results.
    ///
    /// In mode `all` the store returns the error of the batch, and the last of the results has the
    /// same error for the operation that failed, from which the `index` of the answer follows. The
    /// insert of one row with an idempotency key has no `index`: its client did not send an array.
    fn step(
        &mut self,
        context: RequestContext<'_, Registry>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        if !self.linked.writes.is_empty() || self.once.is_some() {
            let mode = match self.mode {
                Mode::All => BatchMode::AllOrNothing,
                Mode::Each => BatchMode::Each,
            };
            let Self { linked: Linked { writes, links, .. }, refused, results, once, .. } = self;
            let shape = once.as_ref().map_or(Shape::Results, |once| once.shape);
            let mut keep = |results: &[marmota_model::Result<Outcome>]| {
                let write = |body: &mut Vec<u8>| write_object(refused, writes, results, body);
                let (path, written) = (context.request.path(), (&**writes, results));
                once::kept(shape, path, written, context.store, write)
            };
            let once = match once {
                Some(Once { key, answered, .. }) => {
                    Some(context.api.store.once(key, &mut keep, answered)?)
                }
                None => None,
            };
            let ran =
                execute(&mut Operation::Batch { writes, links, mode, once, results }, &mut NoRows);
            let is_row = shape == Shape::Row;
            match (ran, self.mode) {
                (Err(Interrupt::Failed(error)), Mode::All) => {
                    let index = self.results.len().saturating_sub(1);
                    // The batch fails with the error of its last result.
                    return Err(match self.results.pop() {
                        Some(Err(failed)) if is_row => ApiError::from(failed).into(),
                        Some(Err(failed)) => at_index(failed, index).into(),
                        _ => error.into(),
                    });
                }
                (Err(interrupt), _) => return Err(interrupt),
                (Ok(outcome), _) => answer.committed(context.store, &outcome),
            }
        }
        if let Some(Once { answered: Some(answered), .. }) = &self.once {
            Once::answer(answered, answer)?;
            return Ok(Next::Answered);
        }
        let mut body = ScratchBuffer::take();
        write_object(&self.refused, &self.linked.writes, &self.results, &mut body);
        answer.whole(Head::new(Status::OK, JSON), &mut body);
        Ok(Next::Answered)
    }
}
