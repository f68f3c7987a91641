//! The reasons why a head is refused, and why parsing stops early.

use crate::proto::status::Status;

/// The reason why a head is refused. The connection answers with [`HeadError::status`] and
/// [`HeadError::text`], and is closed, because nothing after the fault can be understood.
///
/// ```
/// use marmota_http::Status;
/// use marmota_http::head::{Head, HeadError, HeadLimits};
///
/// let limits = HeadLimits { bytes_max: 1024, headers_max: 10, target_bytes_max: 100 };
/// let error = |text: &str| Head::default().parse(text.as_bytes(), 0, &limits).unwrap_err();
/// assert_eq!(error("GET / HTTP/1.1\nHost: a\r\n\r\n"), HeadError::LineEnd);
/// assert_eq!(error("GET / HTTP/1.1\r\n\r\n"), HeadError::Host);
/// assert_eq!(error("GET / HTTP/3.0\r\n\r\n").status(), Status::VERSION_NOT_SUPPORTED);
/// assert_eq!(HeadError::Host.text(), "exactly one valid Host header is required");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeadError {
    /// The method is not a token.
    Method,
    /// The target is not one of the four forms (RFC 9112, 3.2), or has a byte that must be
    /// percent-encoded.
    Target,
    /// The target is too long (414).
    TargetTooLong,
    /// The request line has no `HTTP/d.d` after the target.
    VersionMalformed,
    /// The version is not 1.x (505).
    VersionUnsupported,
    /// A CR without LF, or an LF without CR.
    LineEnd,
    /// A line starts with white space.
    Folded,
    /// The name of a header is empty or not a token.
    HeaderName,
    /// A value has a control character.
    HeaderValue,
    /// `Host` is missing, repeated, or not a host (RFC 9112, 3.2).
    Host,
    /// `Content-Length` is not a number, or is repeated.
    ContentLength,
    /// `Transfer-Encoding` together with `Content-Length`, repeated, in HTTP/1.0, or not ending in
    /// `chunked`.
    TransferEncoding,
    /// A transfer coding other than `chunked` (501).
    TransferCoding,
    /// An `Expect` other than `100-continue` (417).
    Expectation,
    /// The head has too many bytes or headers (431).
    TooLarge,
}

impl HeadError {
    /// Returns the status of the answer.
    ///
    /// ```
    /// use marmota_http::{Status, head::HeadError};
    /// assert_eq!(HeadError::TooLarge.status(), Status::HEADERS_TOO_LARGE);
    /// assert_eq!(HeadError::LineEnd.status(), Status::BAD_REQUEST);
    /// ```
    pub fn status(self) -> Status {
        match self {
            Self::TargetTooLong => Status::URI_TOO_LONG,
            Self::VersionUnsupported => Status::VERSION_NOT_SUPPORTED,
            Self::TransferCoding => Status::NOT_IMPLEMENTED,
            Self::Expectation => Status::EXPECTATION_FAILED,
            Self::TooLarge => Status::HEADERS_TOO_LARGE,
            _ => Status::BAD_REQUEST,
        }
    }

    /// Returns the fault in words, for the client: the `detail` of a problem document.
    ///
    /// ```
    /// use marmota_http::head::HeadError;
    /// assert_eq!(HeadError::Folded.text(), "folded header lines are obsolete and not allowed");
    /// ```
    pub fn text(self) -> &'static str {
        match self {
            Self::Method => "the method is not a token",
            Self::Target => {
                "the request target is malformed: percent-encode what is not visible ASCII"
            }
            Self::TargetTooLong => "the request target is too long",
            Self::VersionMalformed => "the request line has no HTTP version",
            Self::VersionUnsupported => "only HTTP/1.0 and HTTP/1.1 are supported here",
            Self::LineEnd => "lines must end in CR LF, not in CR or LF alone",
            Self::Folded => "folded header lines are obsolete and not allowed",
            Self::HeaderName => "a header name is malformed",
            Self::HeaderValue => "a header value has a control character",
            Self::Host => "exactly one valid Host header is required",
            Self::ContentLength => "Content-Length must be one decimal number",
            Self::TransferEncoding => "Transfer-Encoding is malformed or contradicts the length",
            Self::TransferCoding => "the only supported transfer coding is chunked",
            Self::Expectation => "the only supported expectation is 100-continue",
            Self::TooLarge => "the request head is too large",
        }
    }
}

/// The reason why parsing stopped before the end of the head.
pub(super) enum Stop {
    /// More bytes are needed.
    Incomplete,
    /// No further byte can help.
    Refused(HeadError),
}

impl From<HeadError> for Stop {
    fn from(error: HeadError) -> Self {
        Self::Refused(error)
    }
}
