//! `PUT /api/{table}/{id}/{field}` of a file field: the body is the file.
//!
//! ```text
//! PUT /api/issue/1/attachment HTTP/1.1
//! Content-Type: image/png
//! Content-Disposition: attachment; filename="marmot.png"
//! If-Match: "v4"
//!
//! (bytes)
//!
//! HTTP/1.1 200 OK
//! ETag: "9f86d081884c7d65…"
//! Content-Type: application/json
//!
//! {"id":"8c0f…","name":"marmot.png","type":"image/png","bytes":48213,…}
//! ```
//!
//! The bytes are on the disk before the row is written, and the row before the response.

use marmota_files::File;
use marmota_http::{BodyError, IntoResponse, Request, Response};
use marmota_model::{Error, ErrorKind};
use marmota_store::operation::Outcome;
use marmota_store::rights::Right;
use marmota_web::{ApiError, ApiResult};

use super::disposition;
use super::field::{FileCondition, FileField, tag, upload_error};
use crate::protocol::body::wants_minimal;
use crate::request::answer::{JSON, POSITION};

/// Receives the file and writes it to the row.
pub(crate) async fn answer(mut field: FileField, request: Request) -> Response {
    match receive(&mut field, &request).await {
        Ok((file, outcome)) => written(&field, &request, &file, &outcome),
        Err(error) => error.into_response(),
    }
}

async fn receive(field: &mut FileField, request: &Request) -> ApiResult<(File, Outcome)> {
    crate::request::params::none(request)?;
    // The check before the body also accepts the right to insert, because a PUT of a row may insert.
    field.submission.store().check_right(Right::Update, &field.table)?;
    let condition = FileCondition::of(request, &field.table)?;
    let limits = field.limits()?;
    let announced = request.header_text("content-length").and_then(|text| text.parse().ok());
    limits.check_bytes(announced.unwrap_or(0)).map_err(upload_error)?;
    // The row is checked before the bytes are sent, if the caller may read it.
    let may_read = field.submission.store().check_right(Right::Read, &field.table).is_ok();
    let before = if may_read { Some(field.read().await?) } else { None };
    if let Some(before) = &before {
        condition.check(before)?;
    } else if condition.sha256.is_some() {
        let message = "the tag of the file can only be compared by a caller who may read the row";
        return Err(Error::new(ErrorKind::Denied, message).into());
    }
    let (name, declared) =
        (disposition::of_request(request), request.header_text("content-type").unwrap_or_default());
    let mut upload = field.storage.upload(limits, &name, declared)?;
    let mut reader = request.reader();
    loop {
        let mut piece = Vec::new();
        match reader.read(&mut piece).await.map_err(body_error)? {
            0 => break,
            _ => upload.write(piece).await.map_err(upload_error)?,
        }
    }
    let file = upload.finish().await.map_err(upload_error)?;
    let before = before.and_then(|before| before.file).filter(|_| condition.sha256.is_some());
    if let Some(before) = before {
        field.storage.expect_before(&file, &before);
    }
    let outcome = commit(field, &file, condition.row.version).await?;
    Ok((file, outcome))
}

/// Writes an uploaded file to its row. If that fails, or the client disconnects, its bytes are
/// removed unless the row has it.
pub(crate) async fn commit(
    field: &mut FileField,
    file: &File,
    version: Option<i64>,
) -> ApiResult<Outcome> {
    let uncommitted = Uncommitted { storage: field.storage.clone(), file: Some(file.clone()) };
    let outcome = field.write(Some(file), version).await.map_err(upload_error)?;
    uncommitted.settle();
    Ok(outcome)
}

/// An uploaded file whose row is not committed yet.
pub(crate) struct Uncommitted {
    pub(crate) storage: marmota_files::FileStorage,
    pub(crate) file: Option<File>,
}

impl Uncommitted {
    /// Reports that the row is committed.
    pub(crate) fn settle(mut self) {
        if let Some(file) = self.file.take() {
            self.storage.settle(&file);
        }
    }
}

impl Drop for Uncommitted {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            self.storage.discard(file);
        }
    }
}

fn written(field: &FileField, request: &Request, file: &File, outcome: &Outcome) -> Response {
    let mut response = match wants_minimal(request) {
        true => Response::from_status(marmota_http::Status::NO_CONTENT),
        false => Response::with_body(JSON, file.to_json().into_bytes()),
    };
    let _ = response.add_header("ETag".into(), tag(file).into_bytes().into());
    if let Some(position) = field.submission.store().position_of(outcome) {
        let _ = response.add_header(POSITION.into(), position.to_string().into_bytes().into());
    }
    response
}

/// Returns the error of a body that cannot be read.
pub(crate) fn body_error(error: BodyError) -> ApiError {
    error.into()
}
