//! `POST /api/batch`: several writes to any tables, in one transaction, with a result for each.

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body<'a> {
    #[serde(default)]
    mode: Mode,
    #[serde(borrow)]
    operations: Vec<&'a RawValue>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    All,
    Each,
}

pub(crate) struct BatchCall {
    mode: Mode,
    linked: Linked,
    /// The errors of operations that were refused before their execution, with their positions; in
    /// mode `each` only.
    refused: Vec<(usize, ApiError)>,
    results: Vec<marmota_model::Result<Outcome>>,
    /// The idempotency key, if there is one.
    once: Option<Once>,
}

impl BatchCall {
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
                once::kept(shape, context.request.path(), writes, results, write)
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
                (Ok(_), _) => {}
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
