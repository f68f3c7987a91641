//! Signed URLs: reads of one file without authentication, until a time.
//!
//! ```text
//! POST /api/issue/1/attachment/signed-url?expires_in=600
//!
//! HTTP/1.1 200 OK
//!
//! {"url":"/api/issue/1/attachment?expires=1795600000&signature=5d41…","expires":"2026-11-26T…"}
//! ```
//!
//! Only a caller who may read the row gets such a URL. It shows the file that the row has at the
//! time of the read.

use std::sync::Arc;
use std::time::SystemTime;

use marmota_http::{Flow, IntoResponse, Method, Request, Response};
use marmota_model::text::integer;
use marmota_model::{Error, ErrorKind, Timestamp};
use marmota_web::{ApiError, ApiResult};

use super::download;
use super::field::FileField;
use crate::request::answer::JSON;
use crate::request::request_context::RequestContext;
use crate::request::state::ApiState;

/// The default lifetime in seconds: an hour.
const SECONDS: u64 = 3_600;
/// The maximum lifetime in seconds: seven days.
const SECONDS_MAX: u64 = 7 * 24 * 3_600;

/// Returns a signed URL for the file.
pub(crate) async fn answer(mut field: FileField, request: Request) -> Response {
    match sign(&mut field, &request).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

async fn sign(field: &mut FileField, request: &Request) -> ApiResult<Response> {
    let mut seconds = SECONDS;
    for (name, value) in request.query_params() {
        let parsed = integer(&value).and_then(|seconds| u64::try_from(seconds).ok());
        let parsed = parsed.filter(|seconds| (1..=SECONDS_MAX).contains(seconds));
        seconds = match (&*name, parsed) {
            ("expires_in", Some(seconds)) => seconds,
            _ => {
                return Err(ApiError::bad_request(format!(
                    "the only parameter is `expires_in`, in seconds, from 1 to {SECONDS_MAX}"
                )));
            }
        };
    }
    field.read_file().await?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let expires = now.as_secs() + seconds;
    let signature = field.storage.sign(&field.resource(), expires)?;
    let path = request.path().strip_suffix("/signed-url").unwrap_or_default();
    let at = i64::try_from(expires).ok().and_then(|seconds| seconds.checked_mul(1_000_000));
    let at = at.and_then(|micros| Timestamp::from_micros(micros).ok()).unwrap_or_default();
    let body = serde_json::json!({
        "url": format!("{path}?expires={expires}&signature={signature}"),
        "expires": at.to_string(),
    });
    Ok(Response::with_body(JSON, body.to_string().into_bytes()))
}

/// Answers a read with a signature; `None` for other requests. The signature replaces the
/// authentication of a caller.
pub(crate) fn read(api: &Arc<ApiState>, request: &Request) -> Option<Flow> {
    if !matches!(request.method(), Method::Get | Method::Head)
        || api.files.is_none()
        || request.query_param("signature").is_none()
    {
        return None;
    }
    Some(match signed(api, request) {
        Ok(field) => Flow::Later(Box::pin(download::answer(field, request.clone()))),
        Err(error) => {
            let response = error.into_response();
            Flow::Later(Box::pin(async move { response }))
        }
    })
}

fn signed(api: &Arc<ApiState>, request: &Request) -> ApiResult<FileField> {
    let name = request.param("table").unwrap_or_default();
    let invalid = || {
        let message = "the signature of this URL is invalid, or it has expired; request a new one";
        ApiError::from(Error::new(ErrorKind::Denied, message))
    };
    // What exists is not revealed without a valid signature.
    let table = api.store.exposed_table(&name).map_err(|_| invalid())?;
    let context = RequestContext { api, store: &api.store, request, subject: table };
    let field = FileField::of_api(context).map_err(|_| invalid())?;
    let expires = request.query_param("expires").and_then(|text| text.parse().ok()).unwrap_or(0);
    let signature = request.query_param("signature").unwrap_or_default();
    match field.storage.is_signed(&field.resource(), expires, &signature) {
        true => Ok(field),
        false => Err(invalid()),
    }
}
