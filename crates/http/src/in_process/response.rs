//! The whole answer to a request made in the process: what the writer of answers has put into a
//! buffer, taken apart again.

use crate::in_process::error::CallError;
use crate::message::writer::written::Written;
use crate::proto::status::Status;

/// The whole answer of [`Router::call`](crate::Router::call).
///
/// ```
/// use marmota_http::{Response, Router, Status, TestRequest};
///
/// let router = Router::new().get("/", |_| async { Response::json_bytes("[1,2]") });
/// let answer = router.call(TestRequest::get("/"))?;
/// assert_eq!(answer.status(), Status::OK);
/// assert_eq!(answer.header("Content-Type"), Some("application/json"));
/// assert_eq!(answer.json::<Vec<u32>>().expect("a list"), [1, 2]);
/// assert!(answer.headers().any(|(name, value)| (name, value) == ("Content-Length", "5")));
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TestResponse {
    status: Status,
    /// In the order in which they were written, without `Transfer-Encoding`.
    headers: Vec<(String, String)>,
    /// Without chunks: streamed pieces are appended as they are produced.
    pub(super) body: Vec<u8>,
}

impl TestResponse {
    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Returns the value of the first header with this name. Case is ignored.
    ///
    /// ```
    /// use marmota_http::{Router, TestRequest};
    ///
    /// let router = Router::new().get("/", |_| async { "text" });
    /// let answer = router.call(TestRequest::get("/"))?;
    /// assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    /// assert_eq!(answer.header("X-Missing"), None);
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns all headers, as names and values, in the order in which they were written.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Returns the body. If `Content-Encoding` is set, it is in that coding.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns the body as text; empty if it is not UTF-8.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or_default()
    }

    /// Returns the value in a body of JSON.
    ///
    /// # Errors
    /// The body is not JSON of this type.
    #[cfg(feature = "extract")]
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// Parses the output of a [`ResponseWriter`](crate::ResponseWriter).
    pub(super) fn parse(output: &[u8]) -> Result<Self, CallError> {
        let broken = || CallError::Body("the handler overwrote the head of its answer".into());
        let written = Written::of(output).ok_or_else(broken)?;
        let headers = written.headers().filter(|(name, _)| *name != "Transfer-Encoding");
        let headers = headers
            .map(|(name, value)| (name.to_owned(), String::from_utf8_lossy(value).into_owned()));
        Ok(Self {
            status: written.status,
            headers: headers.collect(),
            body: written.body.to_owned(),
        })
    }
}
