//! `POST /api/{table}` with `multipart/form-data`: inserts a row with its files.
//!
//! ```text
//! curl http://localhost:8080/api/issue -F title=Sounds -F attachment=@notes.txt
//! ```
//!
//! Each part is a field. The parts of file fields are uploaded as they arrive; the others are texts
//! in the form that filters have. An empty text in a field that is not a text is NULL.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_files::{FileLimits, FileStorage};
use marmota_http::{
    Flow, IntoResponse, Multipart, MultipartError, MultipartLimits, Request, Response, Status,
};
use marmota_model::rule::violation;
use marmota_model::{
    Error, FieldSet, Kind, NoRows, Scratch, Table, Value, ValueRef, Violation, json, text,
};
use marmota_store::operation::{Keys, Operation};
use marmota_store::prepare::{self, ValueSource, WriteTimestamp};
use marmota_web::{ApiError, ApiResult};

use super::field::{storage, upload_error};
use super::upload::Uncommitted;
use crate::protocol::body;
use crate::request::answer::{JSON, POSITION};
use crate::request::params;
use crate::request::request_context::RequestContext;
use crate::request::submission::Submission;
use crate::rows::insert::location;

/// Returns true if the body is a form with parts.
pub(crate) fn is_sent(request: &Request) -> bool {
    let kind = request.header_text("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("multipart/form-data")
}

/// Begins the insert after the head of the request.
///
/// # Errors
/// 400 for a parameter or an unknown durability, 501 without a storage of files.
pub(crate) fn begin(context: RequestContext<'_>) -> ApiResult<Flow> {
    params::none(context.request)?;
    let insert = FormInsert {
        storage: storage(context)?,
        table: Arc::clone(context.subject),
        submission: Submission::of_long(context, body::durability(context.request)?),
        row: vec![Value::Absent; context.table().fields().len()],
        violations: Vec::new(),
        files: Vec::new(),
    };
    let request = context.request.clone();
    Ok(Flow::Later(Box::pin(async move {
        insert.answer(&request).await.unwrap_or_else(|failed| match failed {
            FormFailure::Form(error) => error.into_response(),
            FormFailure::Row(error) => error.into_response(),
        })
    })))
}

/// The insert of a form.
struct FormInsert {
    storage: FileStorage,
    table: Arc<Table>,
    submission: Submission,
    row: Vec<Value>,
    violations: Vec<Violation>,
    /// The files of the row; they are removed if it is not inserted.
    files: Vec<Uncommitted>,
}

/// The failure of a form.
enum FormFailure {
    /// Of the form itself.
    Form(MultipartError),
    /// Of the row or of a file.
    Row(ApiError),
}

impl From<MultipartError> for FormFailure {
    fn from(error: MultipartError) -> Self {
        Self::Form(error)
    }
}

impl From<ApiError> for FormFailure {
    fn from(error: ApiError) -> Self {
        Self::Row(error)
    }
}

impl From<Error> for FormFailure {
    fn from(error: Error) -> Self {
        Self::Row(error.into())
    }
}

impl FormInsert {
    async fn answer(mut self, request: &Request) -> Result<Response, FormFailure> {
        self.read(request).await?;
        let stamp = WriteTimestamp::now(&self.table);
        let Self { table, submission, row: values, violations, files, .. } = &mut self;
        let mut violations = std::mem::take(violations);
        let mut uuid = None;
        let outcome = std::future::poll_fn(|task| {
            let scratch = Scratch::new();
            let mut row: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
            if let Some(uuid) = uuid {
                row[table.key()] = ValueRef::Uuid(uuid);
            }
            prepare::insert_into(
                table,
                &mut row,
                ValueSource::Values,
                stamp,
                &scratch,
                &mut violations,
            );
            prepare::finish(std::mem::take(&mut violations))?;
            // A repeated poll inserts the same key.
            if let ValueRef::Uuid(key) = row[table.key()] {
                uuid = Some(key);
            }
            submission.poll(&mut Operation::insert(table, &row), &mut NoRows, task)
        })
        .await
        .map_err(upload_error)?;
        files.drain(..).for_each(Uncommitted::settle);
        let key = match (&outcome.keys, uuid) {
            (Keys::One(key), _) => key.clone(),
            (_, Some(uuid)) => Value::Uuid(uuid),
            _ => values[table.key()].clone(),
        };
        // The row is stored: a failure to read it back does not make the insert fail.
        let shown = table.read_by_default();
        let mut json = Vec::new();
        let _ = std::future::poll_fn(|task| {
            json.clear();
            let mut sink = |row: &[ValueRef<'_>]| {
                json::write_row(&mut json, table, shown, row);
                ControlFlow::Break(())
            };
            let mut get = Operation::Get { table, key: key.as_ref(), fields: shown };
            submission.poll(&mut get, &mut sink, task)
        })
        .await;
        let mut response = match json.is_empty() || body::wants_minimal(request) {
            true => Response::from_status(Status::CREATED),
            false => Response::with_body(JSON, json).with_status(Status::CREATED),
        };
        let location = location(request.path(), key.as_ref());
        let _ = response.add_header("Location".into(), location.into_bytes().into());
        if let Some(position) = submission.store().position_of(&outcome) {
            let _ = response.add_header(POSITION.into(), position.to_string().into_bytes().into());
        }
        Ok(response)
    }

    /// Reads the parts: texts into the row, files into the storage.
    async fn read(&mut self, request: &Request) -> Result<(), FormFailure> {
        // The limits of the fields apply to their files.
        let mut limits = MultipartLimits::default();
        limits.part_bytes_max = u64::MAX;
        let mut form = Multipart::with_limits(request, limits)?;
        let table = Arc::clone(&self.table);
        let mut seen = FieldSet::EMPTY;
        while let Some(mut part) = form.next().await? {
            let Some(position) = table.find(part.name()) else {
                self.violations.push(table.unknown_field(part.name(), ""));
                return Err(Error::invalid(std::mem::take(&mut self.violations)).into());
            };
            let field = &table.fields()[position];
            if seen.contains(position) {
                let twice = violation(field, ValueRef::Null, "twice", "must occur only once");
                return Err(Error::invalid(vec![twice]).into());
            }
            seen = seen.with(position);
            if !matches!(field.kind, Kind::File { .. }) {
                let text = part.text().await?;
                match value(&field.kind, &text) {
                    Ok(value) => self.row[position] = value,
                    Err(expected) => self.violations.push(violation(
                        field,
                        ValueRef::Text(&text),
                        "type",
                        format!("must be {expected}"),
                    )),
                }
                continue;
            }
            let name = part.file_name().unwrap_or_default().to_owned();
            let limits = FileLimits::new(&table, &field.name)?;
            let mut upload = self.storage.upload(limits, &name, part.content_type())?;
            let mut bytes = 0;
            loop {
                let mut piece = Vec::new();
                match part.read(&mut piece).await? {
                    0 => break,
                    count => bytes += count,
                }
                upload.write(piece).await.map_err(upload_error)?;
            }
            // A browser sends an empty part for a file that was not chosen.
            if bytes == 0 && name.is_empty() {
                continue;
            }
            let file = upload.finish().await.map_err(upload_error)?;
            self.row[position] = Value::Json(file.to_json());
            self.files.push(Uncommitted { storage: self.storage.clone(), file: Some(file) });
        }
        Ok(())
    }
}

/// Returns the value of a text of a form.
fn value(kind: &Kind, text: &str) -> Result<Value, &'static str> {
    let is_text = matches!(kind, Kind::Text { .. });
    match text {
        "" if !is_text => Ok(Value::Null),
        // What a browser sends for a checkbox.
        "on" if *kind == Kind::Bool => Ok(Value::Bool(true)),
        text => text::parse(kind, text).map(|value| value.to_value()),
    }
}
