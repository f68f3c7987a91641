//! `/api/{table}/{id}/{field}/uploads`: uploads in several requests, by the protocol tus 1.0 with
//! the extensions creation, expiration, termination and checksum.
//!
//! ```text
//! POST /api/issue/1/attachment/uploads
//! Tus-Resumable: 1.0.0
//! Upload-Length: 48213
//! Upload-Metadata: filename bWFybW90LnBuZw==,filetype aW1hZ2UvcG5n
//!
//! HTTP/1.1 201 Created
//! Location: /api/issue/1/attachment/uploads/8c0f…
//!
//! PATCH /api/issue/1/attachment/uploads/8c0f…
//! Tus-Resumable: 1.0.0
//! Upload-Offset: 0
//! Content-Type: application/offset+octet-stream
//!
//! (bytes)
//!
//! HTTP/1.1 204 No Content
//! Upload-Offset: 48213
//! ```
//!
//! The request with the last byte writes the file to its row. If that request is interrupted after
//! the bytes were received, the next HEAD does.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use marmota_files::{PartialUpload, UploadPart};
use marmota_http::{Endpoint, Flow, IntoResponse, Request, Response, ResponseWriter, Status};
use marmota_model::{Error, ErrorKind, Uuid};
use marmota_store::rights::Right;
use marmota_web::{ApiError, ApiResult};

use super::field::{FileField, upload_error};
use super::upload::{body_error, commit};

const VERSION: &str = "1.0.0";
const EXTENSIONS: &str = "creation,expiration,termination,checksum";
/// The maximum length of `Upload-Metadata` that is read.
const METADATA_BYTES_MAX: usize = 4_096;

/// Returns the endpoint of OPTIONS, which describes the protocol.
pub(crate) fn options() -> Endpoint {
    Endpoint::direct(|_: &Request, out: &mut ResponseWriter<'_>| {
        out.status(Status::NO_CONTENT);
        for (name, value) in [
            ("Tus-Resumable", VERSION),
            ("Tus-Version", VERSION),
            ("Tus-Extension", EXTENSIONS),
            ("Tus-Checksum-Algorithm", "sha256"),
        ] {
            // A constant is always a valid header.
            let _ = out.header(name, value);
        }
        Flow::Done
    })
}

/// Creates an upload.
pub(crate) async fn create(mut field: FileField, request: Request) -> Response {
    let created = async {
        check(&field, &request)?;
        let length = number(&request, "upload-length")?;
        let limits = field.limits()?;
        limits.check_bytes(length).map_err(upload_error)?;
        field.read().await?;
        let metadata = metadata(&request);
        let named = |name: &str| {
            let found = metadata.iter().find(|(known, _)| known == name);
            found.map_or("", |(_, value)| value)
        };
        let (name, media_type) = (named("filename"), named("filetype"));
        let upload = PartialUpload::new(field.resource(), length, name, media_type);
        let upload = field.storage.create_upload(upload).await?;
        let location = format!("{}/{}", request.path(), upload.id);
        if length == 0 {
            let part = field.storage.append_upload(upload.clone(), false).await?;
            complete(&mut field, &upload, &part).await?;
        }
        let response = Response::from_status(Status::CREATED);
        Ok(with_headers(response, &field, &upload, &[("Location", location)]))
    };
    answered(created.await)
}

/// Answers HEAD: how much has arrived.
pub(crate) async fn offset(mut field: FileField, request: Request) -> Response {
    let found = async {
        check(&field, &request)?;
        let (upload, offset) = find(&field, &request).await?;
        if offset == upload.length {
            let part = field.storage.append_upload(upload.clone(), false).await?;
            complete(&mut field, &upload, &part).await?;
        }
        let headers = [
            ("Upload-Offset", offset.to_string()),
            ("Upload-Length", upload.length.to_string()),
            ("Cache-Control", "no-store".to_owned()),
        ];
        Ok(with_headers(Response::from_status(Status::NO_CONTENT), &field, &upload, &headers))
    };
    answered(found.await)
}

/// Answers PATCH: appends bytes.
pub(crate) async fn append(mut field: FileField, request: Request) -> Response {
    let appended = async {
        check(&field, &request)?;
        let media_type = request.header_text("content-type").unwrap_or_default();
        if media_type != "application/offset+octet-stream" {
            let message = "the `Content-Type` must be application/offset+octet-stream";
            return Err(ApiError::bad_request(message).with_status(Status::UNSUPPORTED_MEDIA_TYPE));
        }
        let from = number(&request, "upload-offset")?;
        let checksum = checksum(&request)?;
        let (upload, _) = find(&field, &request).await?;
        let mut part = field.storage.append_upload(upload.clone(), checksum.is_none()).await?;
        if part.offset() != from {
            let message = format!(
                "the upload has {} bytes, so `Upload-Offset: {from}` does not continue it; ask for \
                 the offset by HEAD",
                part.offset()
            );
            return Err(Error::new(ErrorKind::Conflict, message).into());
        }
        let mut reader = request.reader();
        loop {
            let mut piece = Vec::new();
            match reader.read(&mut piece).await.map_err(body_error)? {
                0 => break,
                _ => part.write(piece).await?,
            }
        }
        let offset = part.finish(checksum).await.map_err(|error| match error.kind() {
            // The status of the extension for a wrong checksum.
            ErrorKind::Invalid => match Status::new(460) {
                Some(status) => ApiError::from(error).with_status(status),
                None => error.into(),
            },
            _ => error.into(),
        })?;
        if offset == upload.length {
            complete(&mut field, &upload, &part).await?;
        }
        let headers = [("Upload-Offset", offset.to_string())];
        Ok(with_headers(Response::from_status(Status::NO_CONTENT), &field, &upload, &headers))
    };
    answered(appended.await)
}

/// Answers DELETE: ends the upload, and removes its bytes.
pub(crate) async fn remove(field: FileField, request: Request) -> Response {
    let removed = async {
        check(&field, &request)?;
        let (upload, _) = find(&field, &request).await?;
        field.storage.remove_upload(upload.id).await?;
        Ok(with_headers(Response::from_status(Status::NO_CONTENT), &field, &upload, &[]))
    };
    answered(removed.await)
}

/// Makes the file of an upload whose bytes are complete, and writes it to the row. `part` keeps
/// other requests from the upload meanwhile.
async fn complete(
    field: &mut FileField,
    upload: &PartialUpload,
    part: &UploadPart,
) -> ApiResult<()> {
    let made = async {
        let mut file = field.storage.upload(field.limits()?, &upload.name, &upload.content_type)?;
        part.pass_on(&mut file).await?;
        file.finish().await
    };
    let file = match made.await {
        Ok(file) => file,
        Err(error) => {
            // Another attempt would find the same bytes.
            if error.kind() == ErrorKind::Invalid {
                field.storage.remove_upload(upload.id).await?;
            }
            return Err(upload_error(error));
        }
    };
    commit(field, &file, None).await?;
    // The file is in its row: an upload that remains expires.
    if let Err(error) = field.storage.remove_upload(upload.id).await {
        log::warn!(target: "marmota", "files: {error}; the upload will expire");
    }
    Ok(())
}

/// Checks the version of the protocol, and the right to change the row.
fn check(field: &FileField, request: &Request) -> ApiResult<()> {
    crate::request::params::none(request)?;
    if request.header_text("tus-resumable") != Some(VERSION) {
        let message = format!("`Tus-Resumable: {VERSION}` is required: this is the protocol tus");
        return Err(ApiError::bad_request(message).with_status(Status::PRECONDITION_FAILED));
    }
    Ok(field.submission.store().check_right(Right::Update, &field.table)?)
}

/// Returns the upload in the path, which must be of the field in the path.
async fn find(field: &FileField, request: &Request) -> ApiResult<(PartialUpload, u64)> {
    let missing = || {
        let message = "there is no such upload; it may be finished, deleted or expired";
        ApiError::from(Error::new(ErrorKind::NotFound, message))
    };
    let id = request.param("upload").and_then(|id| Uuid::try_parse(&id).ok());
    let found = field.storage.find_upload(id.ok_or_else(missing)?).await?;
    match found.0.resource == field.resource() {
        true => Ok(found),
        false => Err(missing()),
    }
}

fn number(request: &Request, name: &'static str) -> ApiResult<u64> {
    let text = request.header_text(name);
    let digits = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|text| text.parse().ok()).ok_or_else(|| {
        ApiError::bad_request(format!("the header `{name}` must be a number of bytes"))
    })
}

/// Returns the digest in `Upload-Checksum`.
fn checksum(request: &Request) -> ApiResult<Option<[u8; 32]>> {
    let Some(header) = request.header_text("upload-checksum") else { return Ok(None) };
    let digest = header.split_once(' ').filter(|(algorithm, _)| *algorithm == "sha256");
    let digest = digest.and_then(|(_, digest)| STANDARD.decode(digest.trim()).ok());
    match digest.and_then(|digest| digest.try_into().ok()) {
        Some(digest) => Ok(Some(digest)),
        None => Err(ApiError::bad_request(
            "`Upload-Checksum` must be `sha256` and the digest in base64",
        )),
    }
}

/// Returns the pairs of `Upload-Metadata` whose values are texts.
fn metadata(request: &Request) -> Vec<(String, String)> {
    let header = request.header_text("upload-metadata").unwrap_or_default();
    if header.len() > METADATA_BYTES_MAX {
        return Vec::new();
    }
    let pair = |pair: &str| {
        let (name, value) = pair.trim().split_once(' ')?;
        let value = String::from_utf8(STANDARD.decode(value.trim()).ok()?).ok()?;
        Some((name.to_owned(), value))
    };
    header.split(',').filter_map(pair).collect()
}

fn with_headers(
    mut response: Response,
    field: &FileField,
    upload: &PartialUpload,
    headers: &[(&'static str, String)],
) -> Response {
    let expires = upload.expires(field.storage.options()).micros();
    let expires = Duration::from_micros(u64::try_from(expires).unwrap_or(0));
    let fixed = [
        ("Tus-Resumable", VERSION.to_owned()),
        ("Upload-Expires", httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + expires)),
    ];
    for (name, value) in headers.iter().cloned().chain(fixed) {
        // Each value is ASCII without control characters.
        let _ = response.add_header(name.into(), value.into_bytes().into());
    }
    response
}

fn answered(result: ApiResult<Response>) -> Response {
    result.unwrap_or_else(IntoResponse::into_response)
}
