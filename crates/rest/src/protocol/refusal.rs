//! Errors of requests: what is wrong in a URL, and the place of an error in a body.
//!
//! A URL is answered with 400 where the same error in a body is 422, because a URL has no fields
//! of a row. An error in one of several operations or lines has the member `index` or `line`:
//!
//! ```text
//! {"type":"urn:marmota:error:invalid",…,"status":422,…,"line":2,"errors":[{"field":"name",…}]}
//! ```

use marmota_http::Status;
use marmota_model::{Error, ErrorKind, Violation, json};
use marmota_web::ApiError;

/// Creates the error for an invalid URL: 400, where the same error in a body is 422. Other kinds
/// keep their status, for example 404 for an unknown tenant.
pub(crate) fn of_url(error: Error) -> ApiError {
    let is_invalid = error.kind() == ErrorKind::Invalid;
    let error = ApiError::from(error);
    if is_invalid { error.with_status(Status::BAD_REQUEST) } else { error }
}

/// Creates a 400 error for a URL parameter: its name, its value, the rule that it breaks, and the
/// values that are permitted.
pub(crate) fn of_param(name: &str, value: &str, rule: &str, message: String) -> ApiError {
    let mut quoted = Vec::new();
    json::write_string(&mut quoted, value);
    of_url(Error::invalid(vec![Violation {
        field: marmota_model::text::excerpt(name),
        value: marmota_model::text::excerpt(&String::from_utf8_lossy(&quoted)),
        rule: rule.to_owned(),
        message,
    }]))
}

/// Sets the index of the operation or row that is at fault, from 0: the member `index`.
pub(crate) fn at_index(error: impl Into<ApiError>, index: usize) -> ApiError {
    error.into().with_member("index", index as u64)
}

/// Sets the number of the line that is at fault, from 1: the member `line`.
pub(crate) fn at_line(error: impl Into<ApiError>, number: u64) -> ApiError {
    error.into().with_member("line", number)
}

/// Returns an error with only the first of its violations, for a response that lists the errors of
/// many operations.
pub(crate) fn brief(error: &ApiError) -> ApiError {
    let mut brief = Error::new(error.error().kind(), error.error().message());
    if let Some(first) = error.error().violations().first() {
        brief = brief.with_violation(first.clone());
    }
    ApiError::from(brief).with_status(error.status())
}
