//! Problem documents (RFC 9457): errors as answers that programs can read, from the server, its
//! router and its layers. They have the members that those of REST have.

use crate::message::response::Response;
use crate::proto::status::Status;

/// The media type of a problem document.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

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

/// Returns the document as JSON.
pub(crate) fn document(status: Status, detail: Option<&str>) -> Vec<u8> {
    let mut out = b"{\"type\":\"about:blank\",\"title\":".to_vec();
    string(&mut out, status.reason());
    out.extend_from_slice(format!(",\"status\":{}", status.code()).as_bytes());
    if let Some(detail) = detail {
        out.extend_from_slice(b",\"detail\":");
        string(&mut out, detail);
    }
    out.push(b'}');
    out
}

/// Appends a string of JSON (RFC 8259, 7). The crate has no JSON library without the feature
/// `extract`.
fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
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
        let detail = "a \"b\" \\ \n\u{1} é";
        let document = document(Status::BAD_REQUEST, Some(detail));
        let read: serde_json::Value = serde_json::from_slice(&document).unwrap();
        assert_eq!(read["detail"], detail);
        assert_eq!(read["status"], 400);
        assert_eq!(read["title"], "Bad Request");
    }
}
