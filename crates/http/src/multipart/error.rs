//! Errors of forms, and the answers that they are.

use std::fmt;
use std::io;

use crate::body::body_buffer::BodyError;
use crate::message::response::{IntoResponse, Response};
use crate::proto::status::Status;

/// The reason why a form cannot be read. A handler can return it: it is an answer too, a problem
/// document (RFC 9457) with the status that is given here for each variant.
///
/// ```
/// use marmota_http::{IntoResponse, MultipartError, Status};
///
/// let answer = MultipartError::TooLarge("photo".to_owned()).into_response();
/// assert_eq!(answer.status(), Status::CONTENT_TOO_LARGE);
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum MultipartError {
    /// The request's media type is not `multipart/form-data` with a boundary (415).
    NoForm,
    /// The body is incomplete, late or too large. The status is that of
    /// [`BodyError::status`](crate::BodyError::status).
    Body(BodyError),
    /// The form is malformed; the text is the reason (400).
    Malformed(&'static str),
    /// There are more parts than [`MultipartLimits::parts_max`](super::MultipartLimits::parts_max)
    /// (413).
    TooMany,
    /// The part of this name is longer than its limit (413).
    TooLarge(String),
    /// The part of this name is not UTF-8, and was read as text (400).
    NoText(String),
    /// A file cannot be written (500). The cause is logged, and is not part of the answer.
    Io(io::Error),
}

impl MultipartError {
    /// Converts an error of the parser.
    pub(super) fn of_parser(error: multer::Error) -> Self {
        use multer::Error;
        match error {
            Error::FieldSizeExceeded { field_name, .. } => {
                Self::TooLarge(field_name.unwrap_or_default())
            }
            Error::IncompleteFieldData { .. } => Self::Malformed("the form ends inside a part"),
            Error::IncompleteHeaders
            | Error::ReadHeaderFailed(_)
            | Error::DecodeHeaderName { .. }
            | Error::DecodeHeaderValue { .. } => {
                Self::Malformed("the header of a part is malformed")
            }
            // `IncompleteStream`, for both. The others need settings that are not used.
            _ => Self::Malformed("the form has no end, or a boundary line is malformed"),
        }
    }
}

impl fmt::Display for MultipartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoForm => f.write_str("send multipart/form-data with a boundary"),
            Self::Body(error) => error.fmt(f),
            Self::Malformed(how) => write!(f, "the form is malformed: {how}"),
            Self::TooMany => f.write_str("the form has too many parts"),
            Self::TooLarge(name) => write!(f, "the part {name:?} is too large"),
            Self::NoText(name) => write!(f, "the part {name:?} is not UTF-8"),
            Self::Io(_) => f.write_str("the file cannot be stored"),
        }
    }
}

impl std::error::Error for MultipartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Body(error) => Some(error),
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<BodyError> for MultipartError {
    fn from(error: BodyError) -> Self {
        Self::Body(error)
    }
}

impl From<io::Error> for MultipartError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl IntoResponse for MultipartError {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::NoForm => Status::UNSUPPORTED_MEDIA_TYPE,
            Self::Body(error) => error.status(),
            Self::Malformed(_) | Self::NoText(_) => Status::BAD_REQUEST,
            Self::TooMany | Self::TooLarge(_) => Status::CONTENT_TOO_LARGE,
            Self::Io(error) => {
                log::error!("an upload cannot be stored: {error}");
                Status::INTERNAL_SERVER_ERROR
            }
        };
        Response::problem(status, &self.to_string())
    }
}
