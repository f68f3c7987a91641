//! Why a head is refused, or not parsed yet.

use crate::proto::status::Status;

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeadError {
    /// The method is no token.
    Method,
    /// The target is not one of the four forms, or has a byte that must be percent-encoded.
    Target,
    /// The target is too long.
    TargetTooLong,
    /// No `HTTP/d.d` where the version belongs.
    VersionMalformed,
    /// A version other than 1.x.
    VersionUnsupported,
    /// A CR without LF, or an LF without CR.
    LineEnd,
    /// A line that starts with white space.
    Folded,
    /// A header name that is empty or no token.
    HeaderName,
    /// A control character in a value.
    HeaderValue,
    /// No `Host`, two of them, or one that is none.
    Host,
    /// A `Content-Length` that is no number, or more than one.
    ContentLength,
    /// `Transfer-Encoding` beside `Content-Length`, twice, in HTTP/1.0, or not ending in chunked.
    TransferEncoding,
    /// A transfer coding other than chunked.
    TransferCoding,
    /// An `Expect` other than `100-continue`.
    Expectation,
    /// The head is too long or has too many headers.
    TooLarge,
}

impl HeadError {
    /// The status that answers this error.
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

    /// What was wrong, for the client.
    pub fn text(self) -> &'static str {
        match self {
            Self::Method => "the method is not a token",
            Self::Target => {
                "the request target is malformed: percent-encode what is not visible ASCII"
            }
            Self::TargetTooLong => "the request target is too long",
            Self::VersionMalformed => "the request line has no HTTP version",
            Self::VersionUnsupported => "only HTTP/1.0 and HTTP/1.1 are spoken here",
            Self::LineEnd => "lines end in CR LF, never in one of them",
            Self::Folded => "folded header lines are obsolete",
            Self::HeaderName => "a header name is malformed",
            Self::HeaderValue => "a header value has a control character",
            Self::Host => "exactly one valid Host header is required",
            Self::ContentLength => "Content-Length must be one decimal number",
            Self::TransferEncoding => "Transfer-Encoding is malformed or contradicts the length",
            Self::TransferCoding => "the only transfer coding understood is chunked",
            Self::Expectation => "the only expectation understood is 100-continue",
            Self::TooLarge => "the request head is too large",
        }
    }
}

/// Why parsing stopped before the end.
pub(super) enum Stop {
    Incomplete,
    Refused(HeadError),
}

impl From<HeadError> for Stop {
    fn from(error: HeadError) -> Self {
        Self::Refused(error)
    }
}
