//! Errors as responses: the mapping from error kinds to statuses, and `application/problem+json`
//! (RFC 9457).
//!
//! Clients do not see everything that is logged: messages about the internals of the service appear
//! only in the log.

use marmota_http::{BodyError, CrossSite, IntoResponse, Response, Status};
use marmota_model::{Error, ErrorKind, Violation, json};

use crate::effects::Effects;

/// The media type of all errors.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// `Result` for handlers: both variants are responses.
pub type Result<T = Response, E = ApiError> = std::result::Result<T, E>;

/// An error with its HTTP status. Every Marmota error is converted by `?`, and the type is a
/// response:
///
/// ```
/// use marmota_http::{Request, Response};
/// use marmota_rest::ApiError;
///
/// async fn greet(request: Request) -> Result<Response, ApiError> {
///     let name = request.param("name").unwrap_or_default();
///     let age: marmota_model::Currency = "12.5".parse().map_err(|error| {
///         ApiError::bad_request(format!("no amount: {error}"))
///     })?;
///     Ok(Response::text(format!("{name} has {age}")))
/// }
/// ```
#[derive(Debug)]
pub struct ApiError {
    error: Error,
    status: Status,
    index: Option<usize>,
    /// The line of the error, and the results of earlier lines.
    line: Option<u64>,
    done: Option<Box<Effects>>,
    allow: Option<&'static str>,
    /// The subject of the error, if the reason is not disclosed.
    subject: Option<Box<str>>,
}

impl ApiError {
    /// Sets the subject, for errors whose own message appears only in the log.
    #[must_use]
    pub fn about(mut self, subject: &str) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Returns the error with another status than that of its kind.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// Creates a 400 error for an invalid request.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::from(Error::new(ErrorKind::Invalid, message)).with_status(Status::BAD_REQUEST)
    }

    /// Returns the status of the response.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }

    /// Returns the inner error.
    #[must_use]
    pub const fn error(&self) -> &Error {
        &self.error
    }

    /// Creates an error for an invalid URL: 400, where the same error in a body is 422.
    pub(crate) fn of_url(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Invalid => Status::BAD_REQUEST,
            kind => status_of(kind, false),
        };
        Self::from(error).with_status(status)
    }

    /// Creates a 400 error for a URL parameter.
    pub(crate) fn of_param(name: &str, value: &str, rule: &str, message: String) -> Self {
        let mut quoted = Vec::new();
        json::write_string(&mut quoted, value);
        Self::of_url(Error::invalid(vec![Violation {
            field: marmota_model::text::excerpt(name),
            value: marmota_model::text::excerpt(&String::from_utf8_lossy(&quoted)),
            rule: rule.to_owned(),
            message,
        }]))
    }

    /// Returns the error with only the first of its violations.
    pub(crate) fn brief(mut self) -> Self {
        let mut brief = Error::new(self.error.kind(), self.error.message());
        if let Some(first) = self.error.violations().first() {
            brief = brief.with_violation(first.clone());
        }
        self.error = brief;
        self
    }

    /// Sets the index of the operation or row with the error.
    pub(crate) fn at(mut self, index: usize) -> Self {
        self.index = Some(index);
        self
    }

    /// Sets the number of the line with the error.
    pub(crate) fn at_line(mut self, number: u64) -> Self {
        self.line = Some(number);
        self
    }

    /// Sets the results of earlier lines.
    pub(crate) fn behind(mut self, done: Effects) -> Self {
        self.done = Some(Box::new(done));
        self
    }

    /// Creates a 405 error with the allowed methods.
    pub(crate) fn not_allowed(allow: &'static str) -> Self {
        let message = format!("this resource answers {allow}");
        let mut error = Self::from(Error::new(ErrorKind::Unsupported, message))
            .with_status(Status::METHOD_NOT_ALLOWED);
        error.allow = Some(allow);
        error
    }

    /// Returns the additional header that the status requires.
    pub(crate) fn header(&self) -> Option<(&'static str, &'static str)> {
        match (self.allow, self.error.kind()) {
            (Some(allow), _) => Some(("Allow", allow)),
            (None, ErrorKind::Unauthenticated) => Some(("WWW-Authenticate", "Bearer")),
            (None, ErrorKind::Busy | ErrorKind::Io | ErrorKind::Refused) => {
                Some(("Retry-After", "1"))
            }
            _ => None,
        }
    }

    /// Logs the details that clients may not see.
    pub(crate) fn log(&self) {
        // An unsupported operation (501) is the client's mistake.
        if self.status.code() >= 500 && self.status != Status::NOT_IMPLEMENTED {
            let subject = self.subject.as_deref().unwrap_or("a request");
            log::error!("answered {} to {subject}: {:?}", self.status.code(), self.error);
        }
    }

    /// Appends the problem document as JSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let kind = self.error.kind();
        out.extend_from_slice(b"{\"type\":\"urn:marmota:error:");
        out.extend_from_slice(kind.name().as_bytes());
        out.extend_from_slice(b"\",\"title\":");
        json::write_string(out, title(kind));
        out.extend_from_slice(b",\"status\":");
        out.extend_from_slice(self.status.code().to_string().as_bytes());
        out.extend_from_slice(b",\"detail\":");
        match (concealed(kind), &self.subject) {
            (Some(words), Some(subject)) => json::write_string(out, &format!("{subject}: {words}")),
            (words, _) => json::write_string(out, words.unwrap_or(self.error.message())),
        }
        let index = self.index.map(|index| index as u64);
        for (name, number) in [("index", index), ("line", self.line)] {
            if let Some(number) = number {
                out.extend_from_slice(format!(",\"{name}\":{number}").as_bytes());
            }
        }
        if let Some(done) = &self.done {
            out.push(b',');
            done.write(out);
        }
        if !self.error.violations().is_empty() {
            out.extend_from_slice(b",\"errors\":");
            // Four strings: serializing cannot fail.
            let _ = serde_json::to_writer(&mut *out, self.error.violations());
        }
        out.push(b'}');
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let status = status_of(error.kind(), !error.violations().is_empty());
        Self { error, status, index: None, line: None, done: None, allow: None, subject: None }
    }
}

impl From<CrossSite> for ApiError {
    #[cold]
    fn from(refused: CrossSite) -> Self {
        let kind = match refused {
            CrossSite::ContentType(_) => ErrorKind::Unsupported,
            _ => ErrorKind::Denied,
        };
        Self::from(Error::new(kind, refused.to_string())).with_status(refused.status())
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        let kind = match error {
            BodyError::TimedOut => ErrorKind::Timeout,
            BodyError::NoRoom => ErrorKind::Busy,
            _ => ErrorKind::Invalid,
        };
        Self::from(Error::new(kind, error.to_string())).with_status(error.status())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.log();
        let mut body = Vec::new();
        self.write(&mut body);
        let mut response = Response::with_body(PROBLEM_JSON, body).with_status(self.status);
        if let Some((name, value)) = self.header() {
            // Constant names and values are always valid headers.
            let _ = response.add_header(name.into(), value.as_bytes().into());
        }
        response
    }
}

/// Returns the response for an error, for handlers that do not return [`ApiError`].
#[must_use]
pub fn problem(error: &Error) -> Response {
    ApiError::from(copy_of(error)).into_response()
}

/// Returns an error's message for clients: kinds of errors whose message may contain files,
/// statements and hosts have a general message.
#[must_use]
pub fn public_message(error: &Error) -> &str {
    concealed(error.kind()).unwrap_or(error.message())
}

/// Copies an error.
pub(crate) fn copy_of(error: &Error) -> Error {
    let mut copy = Error::new(error.kind(), error.message());
    for violation in error.violations() {
        copy = copy.with_violation(violation.clone());
    }
    match std::error::Error::source(error) {
        Some(source) => copy.with_source(source.to_string()),
        None => copy,
    }
}

/// Maps an error's kind to a status: the only such mapping.
fn status_of(kind: ErrorKind, names_fields: bool) -> Status {
    match kind {
        ErrorKind::NotFound => Status::NOT_FOUND,
        ErrorKind::Conflict => Status::CONFLICT,
        ErrorKind::Stale => Status::PRECONDITION_FAILED,
        // A well-formed request whose fields violate rules, or one that is inconsistent.
        ErrorKind::Invalid if names_fields => Status::UNPROCESSABLE_CONTENT,
        ErrorKind::Invalid => Status::BAD_REQUEST,
        ErrorKind::Denied => Status::FORBIDDEN,
        ErrorKind::Unauthenticated => Status::UNAUTHORIZED,
        ErrorKind::Busy | ErrorKind::Io | ErrorKind::Closed | ErrorKind::Refused => {
            Status::SERVICE_UNAVAILABLE
        }
        ErrorKind::Timeout => Status::GATEWAY_TIMEOUT,
        ErrorKind::Lost => Status::BAD_GATEWAY,
        ErrorKind::Unsupported => Status::NOT_IMPLEMENTED,
        _ => Status::INTERNAL_SERVER_ERROR,
    }
}

const fn title(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "There is no such thing",
        ErrorKind::Conflict => "The write collides with what is stored",
        ErrorKind::Stale => "The row has changed since it was read",
        ErrorKind::Invalid => "The request is not valid",
        ErrorKind::Denied => "The caller may not do this",
        ErrorKind::Unauthenticated => "Who calls has to be known",
        ErrorKind::Busy => "Too much is waiting",
        ErrorKind::Timeout => "It took too long",
        ErrorKind::Lost => "The outcome is unknown",
        ErrorKind::Refused => "The database cannot be reached",
        ErrorKind::Unsupported => "The service does not do this",
        ErrorKind::Io => "The storage does not take writes or cannot be read",
        ErrorKind::Closed => "The service is closing",
        _ => "The service failed",
    }
}

/// Returns the general message for kinds of errors whose own message may contain files, statements
/// and hosts.
const fn concealed(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Io => Some("the disk is full, read-only or failing; nothing was written"),
        ErrorKind::Lost => Some(
            "the database went away or its disk failed: whether a write took place is unknown; \
             read before you retry, or send writes with an Idempotency-Key",
        ),
        ErrorKind::Refused => Some("the database cannot be reached; nothing was done"),
        ErrorKind::Engine | ErrorKind::Protocol | ErrorKind::Bug => {
            Some("an internal error; see the service's log")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(error: &Error) -> serde_json::Value {
        serde_json::from_slice(problem(error).body().as_bytes()).unwrap()
    }

    #[test]
    fn fields_at_fault_are_named() {
        let violation = Violation {
            field: "age".into(),
            value: "-1".into(),
            rule: "range".into(),
            message: "must be at least 0".into(),
        };
        let body = body(&Error::invalid(vec![violation]));
        assert_eq!(body["status"], 422);
        assert_eq!(body["type"], "urn:marmota:error:invalid");
        assert_eq!(body["errors"][0]["field"], "age");
        assert_eq!(body["errors"][0]["rule"], "range");
    }

    #[test]
    fn the_inside_stays_inside() {
        for kind in [ErrorKind::Io, ErrorKind::Engine, ErrorKind::Bug, ErrorKind::Protocol] {
            let answer = problem(&Error::new(kind, "/secret/file.db near line 7"));
            assert!(answer.status().code() >= 500);
            let text = String::from_utf8_lossy(answer.body().as_bytes()).into_owned();
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn a_busy_service_says_when_to_come_back() {
        let answer = problem(&Error::new(ErrorKind::Busy, "32 writes wait"));
        assert_eq!(answer.status(), Status::SERVICE_UNAVAILABLE);
        assert_eq!(answer.headers().next(), Some(("Retry-After", &b"1"[..])));
    }
}
