//! The problem document of a model's error: the mapping from error kinds to statuses and titles,
//! and the kinds whose message stays in the log.
//!
//! An error of the kind `Conflict` becomes
//!
//! ```text
//! HTTP/1.1 409 Conflict
//! Content-Type: application/problem+json
//!
//! {"type":"urn:marmota:error:conflict","title":"The write conflicts with stored data",
//!  "status":409,"detail":"field `email`: …","errors":[{"field":"email",…}]}
//! ```
//!
//! Clients do not see everything that is logged: a message that may contain files, statements or
//! hosts appears only in the log, and the client gets a general one.

use marmota_http::{IntoResponse, ProblemDocument, Response, Status};
use marmota_model::{Error, ErrorKind};

/// The problem document of an error (RFC 9457), with the status of its kind.
///
/// It borrows the error, so that several documents can be written from it: for example one for each
/// failed operation of a batch. Handlers return [`ApiError`](crate::ApiError) instead.
///
/// ```
/// use marmota_model::{Error, ErrorKind};
/// use marmota_web::ErrorDocument;
///
/// let error = Error::new(ErrorKind::Busy, "32 writes wait");
/// let document = ErrorDocument::of(&error);
/// assert_eq!(document.status().code(), 503);
/// let mut json = Vec::new();
/// document.write(&mut json);
/// assert!(json.starts_with(b"{\"type\":\"urn:marmota:error:busy\""));
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct ErrorDocument<'e> {
    pub(crate) error: &'e Error,
    pub(crate) status: Status,
    /// The subject of the error, for a message that is not disclosed.
    pub(crate) subject: Option<&'e str>,
    /// Extension members that are numbers, in the order of the document.
    pub(crate) members: &'e [(&'static str, u64)],
    /// The value of `Allow`, for status 405.
    pub(crate) allow: Option<&'static str>,
}

impl<'e> ErrorDocument<'e> {
    /// Creates the document of an error. The status is that of the error's kind; an invalid request
    /// is 422 if the error names fields, else 400.
    ///
    /// ```
    /// use marmota_model::{Error, ErrorKind};
    /// use marmota_web::ErrorDocument;
    ///
    /// let error = Error::new(ErrorKind::NotFound, "there is no such row");
    /// assert_eq!(ErrorDocument::of(&error).status().code(), 404);
    /// ```
    pub fn of(error: &'e Error) -> Self {
        let status = status_of(error.kind(), !error.violations().is_empty());
        Self { error, status, subject: None, members: &[], allow: None }
    }

    /// Returns the status of the response.
    ///
    /// ```
    /// use marmota_model::{Error, ErrorKind};
    /// use marmota_web::ErrorDocument;
    ///
    /// let error = Error::new(ErrorKind::Stale, "the row has version 4");
    /// assert_eq!(ErrorDocument::of(&error).status().code(), 412);
    /// ```
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }

    /// Returns the additional header that the status requires: `Allow` for 405, `WWW-Authenticate`
    /// for 401, and `Retry-After` for an overload that passes.
    ///
    /// ```
    /// use marmota_model::{Error, ErrorKind};
    /// use marmota_web::ErrorDocument;
    ///
    /// let error = Error::new(ErrorKind::Busy, "32 writes wait");
    /// assert_eq!(ErrorDocument::of(&error).header(), Some(("Retry-After", "1")));
    /// ```
    #[must_use]
    pub fn header(&self) -> Option<(&'static str, &'static str)> {
        match (self.allow, self.error.kind()) {
            (Some(allow), _) => Some(("Allow", allow)),
            (None, ErrorKind::Unauthenticated) => Some(("WWW-Authenticate", "Bearer")),
            (None, ErrorKind::Busy | ErrorKind::Io | ErrorKind::Refused) => {
                Some(("Retry-After", "1"))
            }
            _ => None,
        }
    }

    /// Logs the details that clients may not see, at level error: those of the statuses 500 and
    /// above, except 501, which is the client's mistake.
    ///
    /// ```
    /// use marmota_model::{Error, ErrorKind};
    /// use marmota_web::ErrorDocument;
    ///
    /// // answered 503 to a request: …the disk of /srv/app.db is full…
    /// ErrorDocument::of(&Error::new(ErrorKind::Io, "the disk of /srv/app.db is full")).log();
    /// ```
    pub fn log(&self) {
        if self.status.code() >= 500 && self.status != Status::NOT_IMPLEMENTED {
            let subject = self.subject.unwrap_or("a request");
            log::error!("answered {} to {subject}: {:?}", self.status.code(), self.error);
        }
    }

    /// Appends the document as JSON.
    ///
    /// ```
    /// use marmota_model::{Error, ErrorKind};
    /// use marmota_web::ErrorDocument;
    ///
    /// let error = Error::new(ErrorKind::Engine, "/srv/app.db, line 7");
    /// let mut json = Vec::new();
    /// ErrorDocument::of(&error).write(&mut json);
    /// assert!(!String::from_utf8(json)?.contains("/srv/app.db"));
    /// # Ok::<(), std::string::FromUtf8Error>(())
    /// ```
    pub fn write(&self, out: &mut Vec<u8>) {
        let kind = self.error.kind();
        let type_uri = ["urn:marmota:error:", kind.name()].concat();
        let about;
        let detail = match (concealed(kind), self.subject) {
            (Some(words), Some(subject)) => {
                about = format!("{subject}: {words}");
                &about
            }
            (words, _) => words.unwrap_or(self.error.message()),
        };
        let document = ProblemDocument::new(self.status).type_uri(&type_uri).title(title(kind));
        document.detail(detail).write_with(out, |out| self.write_members(out));
    }

    /// Appends the extension members: the numbers, and `errors` with the fields at fault.
    fn write_members(&self, out: &mut Vec<u8>) {
        for (name, number) in self.members {
            out.extend_from_slice(format!(",\"{name}\":{number}").as_bytes());
        }
        if !self.error.violations().is_empty() {
            out.extend_from_slice(b",\"errors\":");
            // Four strings: serializing cannot fail.
            let _ = serde_json::to_writer(&mut *out, self.error.violations());
        }
    }
}

impl IntoResponse for ErrorDocument<'_> {
    fn into_response(self) -> Response {
        self.log();
        let mut body = Vec::new();
        self.write(&mut body);
        let mut response =
            Response::with_body(ProblemDocument::MEDIA_TYPE, body).with_status(self.status);
        if let Some((name, value)) = self.header() {
            // Constant names and values are always valid headers.
            let _ = response.add_header(name.into(), value.as_bytes().into());
        }
        response
    }
}

/// Returns an error's message for clients: kinds of errors whose message may contain files,
/// statements and hosts have a general message.
///
/// ```
/// use marmota_model::{Error, ErrorKind};
/// use marmota_web::public_message;
///
/// let taken = Error::new(ErrorKind::Conflict, "the name is taken");
/// assert_eq!(public_message(&taken), "the name is taken");
/// let inside = Error::new(ErrorKind::Bug, "/srv/app.db, line 7");
/// assert_eq!(public_message(&inside), "an internal error; see the service's log");
/// ```
#[must_use]
pub fn public_message(error: &Error) -> &str {
    concealed(error.kind()).unwrap_or(error.message())
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

/// Returns the title of a kind, which is the same for all errors of the kind.
const fn title(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "Not found",
        ErrorKind::Conflict => "The write conflicts with stored data",
        ErrorKind::Stale => "The row has changed since it was read",
        ErrorKind::Invalid => "The request is not valid",
        ErrorKind::Denied => "The caller may not do this",
        ErrorKind::Unauthenticated => "The caller is not authenticated",
        ErrorKind::Busy => "The service is busy",
        ErrorKind::Timeout => "The operation timed out",
        ErrorKind::Lost => "The outcome is unknown",
        ErrorKind::Refused => "The database cannot be reached",
        ErrorKind::Unsupported => "The service does not support this",
        ErrorKind::Io => "The storage cannot be written or read",
        ErrorKind::Closed => "The service is closing",
        _ => "The service failed",
    }
}

/// Returns the general message for kinds of errors whose own message may contain files, statements
/// and hosts; `None` for a kind whose message is for clients.
const fn concealed(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Io => Some("the disk is full, read-only or failing; nothing was written"),
        ErrorKind::Lost => Some(
            "the connection to the database was lost, or its disk failed: a write may or may not \
             have been committed; read the row before you retry, or send writes with an \
             Idempotency-Key",
        ),
        ErrorKind::Refused => Some("the database cannot be reached; nothing was done"),
        ErrorKind::Engine | ErrorKind::Protocol | ErrorKind::Bug => {
            Some("an internal error; see the service's log")
        }
        _ => None,
    }
}
