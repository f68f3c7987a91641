//! `POST /api/{table}` with `Content-Type: application/x-ndjson`: rows, a line each, inserted as
//! they come.
//!
//! Lines are gathered to chunks, and a chunk is one batch insert, so neither memory nor a
//! transaction lasts as long as an upload may. What follows from that is the contract: the rows
//! before the first line at fault are stored, those from it on are not, and the answer says
//! which line it is. To keep it, a chunk that fails is tried again in parts, up to that line.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_http::{Flow, IntoResponse, Request, Response, Status};
use marmota_model::{
    Error, ErrorKind, NoRows, Result as ModelResult, RowSource, Scratch, Table, Value,
};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::prepare::Stamp;

use crate::answer::JSON;
use crate::api::Shared;
use crate::body::{self, empty_row};
use crate::call::On;
use crate::insert_many::Objects;
use crate::ndjson::{Line, Lines, TooLong};
use crate::params;
use crate::problem::{ApiError, Result};
use crate::submission::Submission;

/// Lines in a chunk.
const CHUNK_ROWS: usize = 1_000;
/// A chunk is inserted when its lines take this much, however few they are (empty ones as well).
const CHUNK_BYTES: usize = 256 * 1024;

/// Begins to insert, when the head has come.
pub(crate) fn begin(on: On<'_>) -> Result<Flow> {
    params::none(on.request)?;
    let insert = InsertLines {
        submission: Submission::new(
            on.api.store_for(on.request).into_owned(),
            body::durability(on.request)?,
            None,
        ),
        table: Arc::clone(on.subject),
        inserted: 0,
    };
    let (api, request) = (Arc::clone(on.api), on.request.clone());
    Ok(Flow::Later(Box::pin(insert.answer(api, request))))
}

struct InsertLines {
    submission: Submission,
    table: Arc<Table>,
    inserted: u64,
}

impl InsertLines {
    async fn answer(mut self, api: Arc<Shared>, request: Request) -> Response {
        match self.insert_all(&api, &request).await {
            Ok(()) => {
                let body = format!("{{\"inserted\":{}}}", self.inserted);
                Response::with_body(JSON, body).with_status(Status::CREATED)
            }
            Err(error) => error.behind(self.inserted).into_response(),
        }
    }

    async fn insert_all(&mut self, api: &Shared, request: &Request) -> Result<()> {
        let mut reader = request.reader();
        let mut bytes = Vec::new();
        let mut lines = Lines::new(api.line_bytes_max);
        let mut chunk = Vec::new();
        loop {
            let ended = reader.read(&mut bytes).await? == 0;
            loop {
                let line = lines.next(&bytes, ended);
                let more = matches!(line, Ok(Some(_)));
                if let Ok(Some(line)) = line {
                    chunk.push(line);
                }
                let full = chunk.len() == CHUNK_ROWS || lines.taken() >= CHUNK_BYTES;
                if full || (!more && ended) || line.is_err() {
                    self.insert_chunk(&bytes, &chunk).await?;
                    chunk.clear();
                    lines.cut(&mut bytes);
                }
                if let Err(TooLong(number)) = line {
                    return Err(too_long(api.line_bytes_max).at_line(number));
                }
                if !more {
                    break;
                }
            }
            if ended {
                return Ok(());
            }
        }
    }

    /// Inserts the rows of a chunk, or those before the first at fault.
    async fn insert_chunk(&mut self, bytes: &[u8], lines: &[Line]) -> Result<()> {
        let (mut from, mut until) = (0, lines.len());
        while from < until {
            let refused = Cell::new(None);
            match self.insert(bytes, &lines[from..until], &refused).await {
                Ok(()) => {
                    self.inserted += (until - from) as u64;
                    (from, until) = (until, lines.len());
                }
                Err(error) if until - from == 1 || !is_of_a_row(&error) => {
                    return Err(ApiError::from(error).at_line(lines[from].number));
                }
                Err(_) => {
                    until = match refused.get() {
                        // The rows before one that was not even read.
                        Some(index) if index > 0 => from + index,
                        Some(_) => from + 1,
                        None => from + (until - from) / 2,
                    };
                }
            }
        }
        Ok(())
    }

    /// Inserts these rows, all or none; `refused` is the one that is no row of the table.
    async fn insert(
        &mut self,
        bytes: &[u8],
        lines: &[Line],
        refused: &Cell<Option<usize>>,
    ) -> ModelResult<()> {
        let texts: Vec<&[u8]> = lines.iter().map(|line| &bytes[line_range(*line)]).collect();
        let stamp = Stamp::now(&self.table);
        let mut keys = Vec::new();
        let Self { submission, table, .. } = self;
        let mut poll = |context: &mut Context<'_>, keys: &mut Vec<Value>| -> Poll<_> {
            let scratch = Scratch::new();
            let mut rows = Objects::new(table, &texts, &scratch, stamp, keys, refused);
            if texts.len() > 1 {
                let mut operation = Operation::insert_many(table, &mut rows);
                return submission.poll(&mut operation, &mut NoRows, context);
            }
            // An error of this one need not say which row it is of.
            let mut row = empty_row(table);
            rows.next(&mut row)?;
            let mut operation = Operation::insert(table, &row);
            submission.poll(&mut operation, &mut NoRows, context)
        };
        let _: Outcome = std::future::poll_fn(|context| poll(context, &mut keys)).await?;
        Ok(())
    }
}

fn line_range(line: Line) -> Range<usize> {
    line.start..line.end
}

/// Whether an error may be that of one row among others.
fn is_of_a_row(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Conflict)
}

fn too_long(bytes_max: usize) -> ApiError {
    let message = format!("a line takes {bytes_max} bytes at most");
    ApiError::from(Error::new(ErrorKind::Invalid, message)).with_status(Status::CONTENT_TOO_LARGE)
}
