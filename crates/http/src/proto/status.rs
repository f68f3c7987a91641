//! Status codes and their reason phrases (RFC 9110, 15, and the registry of IANA).

use std::fmt;

/// A status code, 100 to 599. Each code that servers use often is a constant; [`Status::new`] makes
/// the others. As the answer of a handler it is an answer without content of its own
/// ([`Response::from_status`](crate::Response::from_status)).
///
/// ```
/// use marmota_http::{Request, Router, Status, TestRequest};
/// async fn find(request: Request) -> Result<String, Status> {
///     request.query_param("name").map(|name| name.into_owned()).ok_or(Status::BAD_REQUEST)
/// }
/// let router = Router::new().get("/find", find);
/// assert_eq!(router.call(TestRequest::get("/find?name=a"))?.status(), Status::OK);
/// assert_eq!(router.call(TestRequest::get("/find"))?.status(), Status::BAD_REQUEST);
/// assert_eq!(Status::BAD_REQUEST.to_string(), "400 Bad Request");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

/// Makes a constant per code, and the table of reason phrases.
macro_rules! statuses {
    ($($code:literal $name:ident $reason:literal;)*) => {
        impl Status {
            $(#[doc = concat!("`", $code, " ", $reason, "`")]
            pub const $name: Status = Status($code);)*

            /// Returns the reason phrase; empty for a code without a constant.
            ///
            /// ```
            /// # use marmota_http::Status;
            /// assert_eq!(Status::NOT_FOUND.reason(), "Not Found");
            /// assert_eq!(Status::new(499).map(Status::reason), Some(""));
            /// ```
            pub fn reason(self) -> &'static str {
                match self.0 { $($code => $reason,)* _ => "" }
            }
        }
    };
}

statuses! {
    100 CONTINUE "Continue";
    101 SWITCHING_PROTOCOLS "Switching Protocols";
    200 OK "OK";
    201 CREATED "Created";
    202 ACCEPTED "Accepted";
    204 NO_CONTENT "No Content";
    205 RESET_CONTENT "Reset Content";
    206 PARTIAL_CONTENT "Partial Content";
    207 MULTI_STATUS "Multi-Status";
    300 MULTIPLE_CHOICES "Multiple Choices";
    301 MOVED_PERMANENTLY "Moved Permanently";
    302 FOUND "Found";
    303 SEE_OTHER "See Other";
    304 NOT_MODIFIED "Not Modified";
    307 TEMPORARY_REDIRECT "Temporary Redirect";
    308 PERMANENT_REDIRECT "Permanent Redirect";
    400 BAD_REQUEST "Bad Request";
    401 UNAUTHORIZED "Unauthorized";
    403 FORBIDDEN "Forbidden";
    404 NOT_FOUND "Not Found";
    405 METHOD_NOT_ALLOWED "Method Not Allowed";
    406 NOT_ACCEPTABLE "Not Acceptable";
    408 REQUEST_TIMEOUT "Request Timeout";
    409 CONFLICT "Conflict";
    410 GONE "Gone";
    411 LENGTH_REQUIRED "Length Required";
    412 PRECONDITION_FAILED "Precondition Failed";
    413 CONTENT_TOO_LARGE "Content Too Large";
    414 URI_TOO_LONG "URI Too Long";
    415 UNSUPPORTED_MEDIA_TYPE "Unsupported Media Type";
    416 RANGE_NOT_SATISFIABLE "Range Not Satisfiable";
    417 EXPECTATION_FAILED "Expectation Failed";
    421 MISDIRECTED_REQUEST "Misdirected Request";
    422 UNPROCESSABLE_CONTENT "Unprocessable Content";
    423 LOCKED "Locked";
    424 FAILED_DEPENDENCY "Failed Dependency";
    426 UPGRADE_REQUIRED "Upgrade Required";
    428 PRECONDITION_REQUIRED "Precondition Required";
    429 TOO_MANY_REQUESTS "Too Many Requests";
    431 HEADERS_TOO_LARGE "Request Header Fields Too Large";
    500 INTERNAL_SERVER_ERROR "Internal Server Error";
    501 NOT_IMPLEMENTED "Not Implemented";
    502 BAD_GATEWAY "Bad Gateway";
    503 SERVICE_UNAVAILABLE "Service Unavailable";
    504 GATEWAY_TIMEOUT "Gateway Timeout";
    505 VERSION_NOT_SUPPORTED "HTTP Version Not Supported";
    507 INSUFFICIENT_STORAGE "Insufficient Storage";
}

impl Status {
    /// Returns the status of a final answer; `None` unless the code is 200 to 599. Interim answers
    /// (100 to 199) are the server's own.
    ///
    /// ```
    /// use marmota_http::Status;
    /// assert_eq!(Status::new(404), Some(Status::NOT_FOUND));
    /// assert_eq!(Status::new(42), None);
    /// ```
    pub fn new(code: u16) -> Option<Self> {
        (200..600).contains(&code).then_some(Self(code))
    }

    /// Returns the code as a number.
    ///
    /// ```
    /// # use marmota_http::Status;
    /// assert_eq!(Status::CREATED.code(), 201);
    /// assert!(Status::SERVICE_UNAVAILABLE > Status::OK, "statuses are ordered by their code");
    /// ```
    pub fn code(self) -> u16 {
        self.0
    }

    /// Returns true if an answer with this status has no body by definition (RFC 9110, 6.4.1):
    /// interim answers, 204 and 304.
    pub(crate) fn bodiless(self) -> bool {
        matches!(self.0, 100..200 | 204 | 304)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.reason())
    }
}
