//! `GET` and `HEAD /api/{table}/{id}/{field}` of a file field.
//!
//! ```text
//! GET /api/issue/1/attachment HTTP/1.1
//! Range: bytes=0-3
//!
//! HTTP/1.1 206 Partial Content
//! Content-Type: image/png
//! Content-Range: bytes 0-3/48213
//! Content-Disposition: inline; filename="marmot.png"
//! ETag: "9f86d081884c7d65…"
//! X-Content-Type-Options: nosniff
//! ```
//!
//! | parameter | |
//! |---|---|
//! | `download=1` | `Content-Disposition: attachment`, for all types |
//! | `thumbnail=200x200` | a smaller version of an image, which fits into this size |
//! | `expires`, `signature` | a signed URL, which needs no other authentication |

use std::ops::Range;

use base64::Engine as _;
use marmota_files::{File, FileStorage};
use marmota_http::{BodyStream, IntoResponse, Method, Request, RequestedRange, Response, Status};
use marmota_web::{ApiError, ApiResult};

use super::disposition;
use super::field::{FileField, tag};
use crate::request::answer::{PRIVATE, VARY_CALLER};

/// The parameters of a read.
#[derive(Default)]
struct Parameters {
    download: bool,
    thumbnail: Option<(u32, u32)>,
}

/// Reads the file of a row, and returns the response.
pub(crate) async fn answer(mut field: FileField, request: Request) -> Response {
    match respond(&mut field, &request).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

async fn respond(field: &mut FileField, request: &Request) -> ApiResult<Response> {
    let parameters = parameters(request)?;
    let (file, _) = field.read_file().await?;
    if let Some(size) = parameters.thumbnail {
        return thumbnail(&field.storage, &file, size, request).await;
    }
    let etag = tag(&file);
    if is_known(request, &etag) {
        return with_headers(Response::from_status(Status::NOT_MODIFIED), &[("ETag", etag)]);
    }
    let disposition = disposition::of_response(&file.name, &file.content_type, parameters.download);
    let mut headers = vec![
        ("ETag", etag.clone()),
        ("Content-Disposition", disposition),
        ("Accept-Ranges", "bytes".to_owned()),
        ("Repr-Digest", repr_digest(&file)),
    ];
    if !matches!(&*file.content_type, "application/pdf") {
        // The viewer of PDF files of a browser does not work in a sandbox.
        headers.push(("Content-Security-Policy", "default-src 'none'; sandbox".to_owned()));
    }
    let (status, range) = match request.requested_range(&etag, file.bytes) {
        RequestedRange::Part(start, end) => {
            let range = format!("bytes {start}-{}/{}", end - 1, file.bytes);
            headers.push(("Content-Range", range));
            (Status::PARTIAL_CONTENT, start..end)
        }
        RequestedRange::Nothing => {
            let range = format!("bytes */{}", file.bytes);
            let response = Response::from_status(Status::RANGE_NOT_SATISFIABLE);
            return with_headers(response, &[("Content-Range", range)]);
        }
        // A server may send the whole file for several parts (RFC 9110, 14.2).
        RequestedRange::Whole | RequestedRange::Parts(_) => (Status::OK, 0..file.bytes),
    };
    let body = body(&field.storage, &file, range, request).await?;
    let content_type = match &*file.content_type {
        "text/plain" => "text/plain; charset=utf-8".to_owned(),
        _ => file.content_type.clone(),
    };
    with_headers(Response::streamed(content_type, body).with_status(status), &headers)
}

/// Returns the body: a part of the file, read while it is sent. HEAD opens no file.
async fn body(
    storage: &FileStorage,
    file: &File,
    range: Range<u64>,
    request: &Request,
) -> ApiResult<BodyStream> {
    let length = range.end - range.start;
    if request.method() == Method::Head {
        let never = |_: &mut Vec<u8>| Ok(std::ops::ControlFlow::Break(()));
        return Ok(BodyStream::new(never).with_length(length));
    }
    let mut reader = storage.reader(file, range).await?;
    let body = BodyStream::write(move |mut out| async move {
        while let Some(piece) = reader.next().await? {
            out.send(piece).await?;
        }
        Ok(())
    });
    Ok(body.with_length(length))
}

#[cfg(feature = "thumbnails")]
async fn thumbnail(
    storage: &FileStorage,
    file: &File,
    (width, height): (u32, u32),
    request: &Request,
) -> ApiResult<Response> {
    let etag = format!("\"{}-{width}x{height}\"", file.sha256);
    if is_known(request, &etag) {
        return with_headers(Response::from_status(Status::NOT_MODIFIED), &[("ETag", etag)]);
    }
    let image = storage.thumbnail(file, width, height).await?;
    let response = Response::with_body(image.content_type, image.bytes.to_vec());
    with_headers(response, &[("ETag", etag)])
}

#[cfg(not(feature = "thumbnails"))]
#[allow(clippy::unused_async, reason = "it waits with the feature")]
async fn thumbnail(_: &FileStorage, _: &File, _: (u32, u32), _: &Request) -> ApiResult<Response> {
    let message =
        "this build makes no thumbnails: enable the Cargo feature `thumbnails` of marmota";
    Err(marmota_model::Error::new(marmota_model::ErrorKind::Unsupported, message).into())
}

fn parameters(request: &Request) -> ApiResult<Parameters> {
    let mut parameters = Parameters::default();
    for (name, value) in request.query_params() {
        match &*name {
            "download" if matches!(&*value, "1" | "true") => parameters.download = true,
            "download" if matches!(&*value, "0" | "false") => {}
            "thumbnail" => parameters.thumbnail = Some(size(&value)?),
            "expires" | "signature" => {}
            _ => {
                let name = marmota_model::text::excerpt(&name);
                return Err(ApiError::bad_request(format!(
                    "`{name}` is not a parameter of a file, or its value is wrong; use \
                     `download=1` or `thumbnail=200x200`"
                )));
            }
        }
    }
    Ok(parameters)
}

fn size(text: &str) -> ApiResult<(u32, u32)> {
    let size = text
        .split_once('x')
        .and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    size.ok_or_else(|| {
        let text = marmota_model::text::excerpt(text);
        ApiError::bad_request(format!("`thumbnail={text}` must be a size such as 200x200"))
    })
}

/// Returns true if the client has this version already (`If-None-Match`).
fn is_known(request: &Request, etag: &str) -> bool {
    request.header_text("if-none-match").is_some_and(|tags| {
        tags.split(',')
            .map(str::trim)
            .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
    })
}

/// Returns the digest of a file as a header (RFC 9530).
fn repr_digest(file: &File) -> String {
    let hex = file.sha256.as_bytes().chunks_exact(2);
    let bytes: Vec<u8> = hex
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    format!("sha-256=:{}:", base64::engine::general_purpose::STANDARD.encode(bytes))
}

/// Adds headers, and those that all responses with files have.
fn with_headers(mut response: Response, headers: &[(&'static str, String)]) -> ApiResult<Response> {
    let fixed =
        [("X-Content-Type-Options", "nosniff"), ("Cache-Control", PRIVATE), ("Vary", VARY_CALLER)];
    let fixed = fixed.iter().map(|(name, value)| (*name, (*value).to_owned()));
    for (name, value) in headers.iter().cloned().chain(fixed) {
        // Each value is ASCII without control characters.
        let _ = response.add_header(name.into(), value.into_bytes().into());
    }
    Ok(response)
}
