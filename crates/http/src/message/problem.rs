//! Errors as answers that programs can read: the JSON of problem documents (RFC 9457).
//!
//! [`ProblemDocument`] writes every problem document of the workspace: those of the server, its
//! router and its layers ([`Response::problem`]), and those of models' errors (`marmota-web`),
//! which add a type and members.

use crate::message::response::Response;
use crate::proto::status::Status;

/// The media type of a problem document.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// A problem document (RFC 9457): an error as JSON, with the media type
/// `application/problem+json`.
///
/// ```
/// use marmota_http::{ProblemDocument, Status};
///
/// let mut json = Vec::new();
/// ProblemDocument::new(Status::CONFLICT)
///     .type_uri("urn:example:taken")
///     .title("The name is taken")
///     .detail("`ada` exists already")
///     .write_with(&mut json, |json| json.extend_from_slice(b",\"row\":7"));
/// assert_eq!(
///     String::from_utf8(json)?,
///     "{\"type\":\"urn:example:taken\",\"title\":\"The name is taken\",\"status\":409,\
///       \"detail\":\"`ada` exists already\",\"row\":7}"
/// );
/// # Ok::<(), std::string::FromUtf8Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct ProblemDocument<'p> {
    type_uri: &'p str,
    title: &'p str,
    status: Status,
    detail: Option<&'p str>,
}

impl<'p> ProblemDocument<'p> {
    /// The media type of a problem document.
    ///
    /// ```
    /// assert_eq!(marmota_http::ProblemDocument::MEDIA_TYPE, "application/problem+json");
    /// ```
    pub const MEDIA_TYPE: &'static str = PROBLEM_JSON;

    /// Creates the document of a status, with the type `about:blank`, the status' name as the
    /// title, and no detail.
    ///
    /// ```
    /// use marmota_http::{ProblemDocument, Status};
    /// let mut json = Vec::new();
    /// ProblemDocument::new(Status::NOT_FOUND).write(&mut json);
    /// assert_eq!(json, b"{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404}");
    /// ```
    pub fn new(status: Status) -> Self {
        Self { type_uri: "about:blank", title: status.reason(), status, detail: None }
    }

    /// Sets the URI of the kind of problem. Default: `about:blank`, for a problem that is described
    /// by its status.
    ///
    /// ```
    /// use marmota_http::{ProblemDocument, Status};
    /// let problem = ProblemDocument::new(Status::CONFLICT).type_uri("urn:example:taken");
    /// # let mut json = Vec::new();
    /// # problem.write(&mut json);
    /// # assert!(json.starts_with(b"{\"type\":\"urn:example:taken\""));
    /// ```
    pub const fn type_uri(mut self, uri: &'p str) -> Self {
        self.type_uri = uri;
        self
    }

    /// Sets the summary of the kind of problem, which is the same for each occurrence. Default: the
    /// status' name.
    ///
    /// ```
    /// use marmota_http::{ProblemDocument, Status};
    /// let problem = ProblemDocument::new(Status::CONFLICT).title("The name is taken");
    /// # let mut json = Vec::new();
    /// # problem.write(&mut json);
    /// # assert!(json.ends_with(b"\"title\":\"The name is taken\",\"status\":409}"));
    /// ```
    pub const fn title(mut self, title: &'p str) -> Self {
        self.title = title;
        self
    }

    /// Sets the explanation of this occurrence. Default: none.
    ///
    /// ```
    /// use marmota_http::{ProblemDocument, Status};
    /// let problem = ProblemDocument::new(Status::CONFLICT).detail("`ada` exists already");
    /// # let mut json = Vec::new();
    /// # problem.write(&mut json);
    /// # assert!(json.ends_with(b"\"detail\":\"`ada` exists already\"}"));
    /// ```
    pub const fn detail(mut self, detail: &'p str) -> Self {
        self.detail = Some(detail);
        self
    }

    /// Appends the document as JSON.
    ///
    /// ```
    /// use marmota_http::{ProblemDocument, Status};
    /// let mut json = Vec::new();
    /// ProblemDocument::new(Status::GONE).detail("deleted yesterday").write(&mut json);
    /// assert!(json.ends_with(b",\"status\":410,\"detail\":\"deleted yesterday\"}"));
    /// ```
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_with(out, |_| {});
    }

    /// Appends the document as JSON with extension members: `members` appends them, a comma before
    /// each.
    ///
    /// ```
    /// use marmota_http::{ProblemDocument, Status};
    /// let mut json = Vec::new();
    /// let line = 7;
    /// ProblemDocument::new(Status::BAD_REQUEST)
    ///     .write_with(&mut json, |json| json.extend_from_slice(format!(",\"line\":{line}").as_bytes()));
    /// assert!(json.ends_with(b",\"status\":400,\"line\":7}"));
    /// ```
    pub fn write_with(&self, out: &mut Vec<u8>, members: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(b"{\"type\":");
        write_string(out, self.type_uri);
        out.extend_from_slice(b",\"title\":");
        write_string(out, self.title);
        out.extend_from_slice(format!(",\"status\":{}", self.status.code()).as_bytes());
        if let Some(detail) = self.detail {
            out.extend_from_slice(b",\"detail\":");
            write_string(out, detail);
        }
        members(out);
        out.push(b'}');
    }
}

impl Response {
    /// Returns an error as a problem document (RFC 9457, `application/problem+json`): the status,
    /// its reason phrase as `title`, and the cause as `detail`. A status without a body
    /// ([`Status::NOT_MODIFIED`]) has none here either. Do not put secrets into `detail`.
    ///
    /// ```
    /// use marmota_http::{Response, Status};
    /// let answer = Response::problem(Status::NOT_FOUND, "no person has this name");
    /// let text = std::str::from_utf8(answer.body().as_bytes())?;
    /// assert_eq!(
    ///     text,
    ///     "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,\
    ///       \"detail\":\"no person has this name\"}"
    /// );
    /// # Ok::<(), std::str::Utf8Error>(())
    /// ```
    pub fn problem(status: Status, detail: &str) -> Self {
        Self::of_problem(status, Some(detail))
    }

    /// Returns a problem document with or without a `detail`.
    #[cold]
    pub(crate) fn of_problem(status: Status, detail: Option<&str>) -> Self {
        if status.bodiless() {
            return Self::new(status);
        }
        Self::with_body(PROBLEM_JSON, document(status, detail)).with_status(status)
    }
}

/// Returns the JSON of a problem document of a status, for answers that are written as bytes.
pub(crate) fn document(status: Status, detail: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    ProblemDocument { detail, ..ProblemDocument::new(status) }.write(&mut out);
    out
}

/// Appends a string as JSON, with the short escapes that exist (RFC 8259, section 7). Without the
/// feature `extract`, the crate has no JSON library.
fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_detail_is_a_string_of_json() {
        let detail = "a \"b\" \\ \n\r\t\u{1} é";
        let document = document(Status::BAD_REQUEST, Some(detail));
        let read: serde_json::Value = serde_json::from_slice(&document).unwrap();
        assert_eq!(read["detail"], detail);
        assert_eq!(read["status"], 400);
        assert_eq!(read["title"], "Bad Request");
    }
}
