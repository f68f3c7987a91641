//! Errors of handlers, which are responses: [`ApiError`] is a model's error with its HTTP status.
//!
//! A handler returns `Result<_, ApiError>` and uses `?`. Errors of models, of bodies and of the
//! check for other sites are converted; the response is the [problem document](ErrorDocument).

use marmota_http::{BodyError, CrossSite, IntoResponse, Response, Status};
use marmota_model::{Error, ErrorKind};

use crate::error_document::ErrorDocument;

/// `Result` for handlers: both variants are responses.
///
/// ```
/// use marmota_http::{Request, Response};
/// use marmota_web::{ApiError, ApiResult};
///
/// async fn page(request: Request) -> ApiResult {
///     match request.query_params().next() {
///         None => Ok(Response::text("the first page")),
///         Some(_) => Err(ApiError::bad_request("this route accepts no parameters")),
///     }
/// }
/// # let _ = page;
/// ```
pub type ApiResult<T = Response, E = ApiError> = Result<T, E>;

/// An error with its HTTP status. Every Marmota error is converted by `?`, and the type is a
/// response:
///
/// ```
/// use marmota_http::{Request, Response, Router, TestRequest};
/// use marmota_web::ApiError;
///
/// async fn greet(request: Request) -> Result<Response, ApiError> {
///     let name = request.param("name").unwrap_or_default();
///     let amount: marmota_model::Currency = "12.5 €".parse().map_err(|error| {
///         ApiError::bad_request(format!("no amount: {error}"))
///     })?;
///     Ok(Response::text(format!("{name} has {amount}")))
/// }
///
/// let answer = Router::new().get("/{name}", greet).call(TestRequest::get("/ada"))?;
/// assert_eq!(answer.status().code(), 400);
/// assert!(answer.text().starts_with("{\"type\":\"urn:marmota:error:invalid\""));
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Debug)]
pub struct ApiError {
    error: Error,
    status: Status,
    /// Extension members of the document.
    members: Vec<(&'static str, u64)>,
    /// The value of `Allow`, for status 405.
    allow: Option<&'static str>,
    /// The subject of the error, if the reason is not disclosed.
    subject: Option<Box<str>>,
}

impl ApiError {
    /// Sets the subject, for errors whose own message appears only in the log.
    ///
    /// ```
    /// use marmota_http::IntoResponse;
    /// use marmota_model::{Error, ErrorKind};
    /// use marmota_web::ApiError;
    ///
    /// let error = ApiError::from(Error::new(ErrorKind::Bug, "line 7")).about("the report");
    /// let answer = error.into_response();
    /// let text = std::str::from_utf8(answer.body().as_bytes())?;
    /// assert!(text.contains("\"detail\":\"the report: an internal error; see the service's log\""));
    /// # Ok::<(), std::str::Utf8Error>(())
    /// ```
    #[must_use]
    pub fn about(mut self, subject: &str) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Returns the error with another status than that of its kind.
    ///
    /// ```
    /// use marmota_http::Status;
    /// use marmota_web::ApiError;
    ///
    /// let error = ApiError::bad_request("a name is needed").with_status(Status::UNPROCESSABLE_CONTENT);
    /// assert_eq!(error.status().code(), 422);
    /// ```
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// Adds an extension member to the document: a number, such as the line of a body that is at
    /// fault. Members are written in the order in which they are added.
    ///
    /// ```
    /// use marmota_web::ApiError;
    ///
    /// let mut json = Vec::new();
    /// ApiError::bad_request("not JSON").with_member("line", 7).document().write(&mut json);
    /// assert!(json.ends_with(b"\"detail\":\"not JSON\",\"line\":7}"));
    /// ```
    #[must_use]
    pub fn with_member(mut self, name: &'static str, number: u64) -> Self {
        self.members.push((name, number));
        self
    }

    /// Creates a 400 error for an invalid request.
    ///
    /// ```
    /// use marmota_web::ApiError;
    ///
    /// assert_eq!(ApiError::bad_request("`size` must be a number").status().code(), 400);
    /// ```
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::from(Error::new(ErrorKind::Invalid, message)).with_status(Status::BAD_REQUEST)
    }

    /// Creates a 405 error for a method that the resource does not have; `allow` is the header with
    /// the methods that it has.
    ///
    /// ```
    /// use marmota_web::ApiError;
    ///
    /// let error = ApiError::method_not_allowed("GET, HEAD");
    /// assert_eq!(error.status().code(), 405);
    /// assert_eq!(error.document().header(), Some(("Allow", "GET, HEAD")));
    /// ```
    #[must_use]
    pub fn method_not_allowed(allow: &'static str) -> Self {
        let message = format!("this resource allows only {allow}");
        let mut error = Self::from(Error::new(ErrorKind::Unsupported, message))
            .with_status(Status::METHOD_NOT_ALLOWED);
        error.allow = Some(allow);
        error
    }

    /// Returns the status of the response.
    ///
    /// ```
    /// use marmota_model::{Error, ErrorKind};
    /// use marmota_web::ApiError;
    ///
    /// let error = ApiError::from(Error::new(ErrorKind::Denied, "only administrators may do this"));
    /// assert_eq!(error.status().code(), 403);
    /// ```
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }

    /// Returns the model's error.
    ///
    /// ```
    /// use marmota_model::ErrorKind;
    /// use marmota_web::ApiError;
    ///
    /// assert_eq!(ApiError::bad_request("no").error().kind(), ErrorKind::Invalid);
    /// ```
    #[must_use]
    pub const fn error(&self) -> &Error {
        &self.error
    }

    /// Returns the problem document, for handlers that write it into a response of their own.
    ///
    /// ```
    /// use marmota_web::ApiError;
    ///
    /// let error = ApiError::bad_request("`size` must be a number");
    /// let mut json = Vec::new();
    /// error.document().write(&mut json);
    /// assert!(json.starts_with(b"{\"type\":\"urn:marmota:error:invalid\""));
    /// ```
    pub fn document(&self) -> ErrorDocument<'_> {
        ErrorDocument {
            error: &self.error,
            status: self.status,
            subject: self.subject.as_deref(),
            members: &self.members,
            allow: self.allow,
        }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let status = ErrorDocument::of(&error).status();
        Self { error, status, members: Vec::new(), allow: None, subject: None }
    }
}

/// A request that a page of another site may have caused: 403, 415 for a body that any page may send,
/// or 421 for a host that is not this server.
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

/// A body that did not arrive completely: 400, 408, 413 or 503.
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
        self.document().into_response()
    }
}

/// Returns the response for an error, for handlers that do not return [`ApiError`].
///
/// ```
/// use marmota_model::{Error, ErrorKind};
///
/// let answer = marmota_web::problem(&Error::new(ErrorKind::Timeout, "the report took too long"));
/// assert_eq!(answer.status().code(), 504);
/// ```
#[must_use]
pub fn problem(error: &Error) -> Response {
    ErrorDocument::of(error).into_response()
}

#[cfg(test)]
mod tests {
    use marmota_model::Violation;

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
