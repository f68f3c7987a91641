//! Where an answer goes: straight into the connection's buffer, or, for one
//! that had to wait, into a response of its own. The verbs do not see which.

use marmota_http::{IntoResponse, Response, ResponseWriter, Status};

use crate::etag::Etag;
use crate::problem::{ApiError, PROBLEM_JSON};

pub(crate) const JSON: &str = "application/json";
/// What is said of answers that depend on who asks: no cache between may give
/// them to another.
pub(crate) const PRIVATE: &str = "private, no-cache";

/// A body of at least this many bytes is handed over instead of copied.
const COPY_BYTES_MAX: usize = 32 * 1024;

/// What stands before the body.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: Status,
    /// Empty for an answer without a body.
    pub(crate) content_type: &'static str,
    pub(crate) etag: Option<Etag>,
    pub(crate) location: Option<String>,
    pub(crate) link: Option<String>,
    /// `Prefer: return=minimal` was followed.
    pub(crate) minimal: bool,
    /// One more header.
    pub(crate) extra: Option<(&'static str, &'static str)>,
    /// It is for its caller alone.
    private: bool,
}

impl Head {
    pub(crate) const fn new(status: Status, content_type: &'static str) -> Self {
        Self {
            status,
            content_type,
            etag: None,
            location: None,
            link: None,
            minimal: false,
            extra: None,
            private: false,
        }
    }

    pub(crate) const fn etag(mut self, etag: Option<Etag>) -> Self {
        self.etag = etag;
        self
    }

    fn headers(&self, mut put: impl FnMut(&'static str, &str)) {
        if let Some(etag) = self.etag {
            put("ETag", etag.text().as_str());
        }
        if let Some(location) = &self.location {
            put("Location", location);
        }
        if let Some(link) = &self.link {
            put("Link", link);
        }
        if self.private {
            put("Cache-Control", PRIVATE);
        }
        if self.minimal {
            put("Preference-Applied", "return=minimal");
        }
        if let Some((name, value)) = self.extra {
            put(name, value);
        }
    }
}

/// An answer in the making.
pub(crate) enum Answer<'o, 'w> {
    /// Into the connection's buffer.
    Direct { out: &'o mut ResponseWriter<'w>, head: Option<Head>, private: bool },
    /// Kept until it is whole.
    Later { head: Option<Head>, body: Vec<u8>, private: bool },
}

impl<'o, 'w> Answer<'o, 'w> {
    const fn direct(out: &'o mut ResponseWriter<'w>, private: bool) -> Self {
        Self::Direct { out, head: None, private }
    }

    const fn is_private(&self) -> bool {
        match self {
            Self::Direct { private, .. } | Self::Later { private, .. } => *private,
        }
    }

    /// Ends the head and gives the body, to be appended to.
    pub(crate) fn body(&mut self, mut begin: Head) -> &mut Vec<u8> {
        begin.private = self.is_private();
        match self {
            Self::Direct { out, head, .. } => {
                write_head(out, &begin);
                *head = Some(begin);
                out.body_mut()
            }
            Self::Later { head, body, .. } => {
                *head = Some(begin);
                body.clear();
                body
            }
        }
    }

    /// The whole of an answer without a body.
    pub(crate) fn empty(&mut self, mut begin: Head) {
        begin.private = self.is_private();
        match self {
            Self::Direct { out, head, .. } => {
                write_head(out, &begin);
                *head = Some(begin);
            }
            Self::Later { head, body, .. } => {
                body.clear();
                *head = Some(begin);
            }
        }
    }

    /// The whole of an answer whose body is ready. What `ready` holds then is
    /// for the caller to use again.
    pub(crate) fn whole(&mut self, mut begin: Head, ready: &mut Vec<u8>) {
        begin.private = self.is_private();
        match self {
            Self::Direct { out, head, .. } if ready.len() >= COPY_BYTES_MAX => {
                out.respond(response(&begin, std::mem::take(ready)));
                *head = Some(begin);
            }
            _ => self.body(begin).extend_from_slice(ready),
        }
    }

    /// The answer to what went wrong, in the place of what was begun.
    pub(crate) fn fail(&mut self, error: &ApiError) {
        error.log();
        let mut head = Head::new(error.status(), PROBLEM_JSON);
        head.extra = error.header();
        error.write(self.body(head));
    }

    /// The answer as far as it has come, to go on later.
    pub(crate) fn into_later(self) -> Answer<'static, 'static> {
        match self {
            Self::Direct { out, head, private } => {
                let length = out.body_len();
                let body = match length {
                    0 => Vec::new(),
                    length => {
                        let bytes = out.body_mut();
                        bytes[bytes.len() - length..].to_vec()
                    }
                };
                Answer::Later { head, body, private }
            }
            Self::Later { head, body, private } => Answer::Later { head, body, private },
        }
    }

    /// The answer as a value, unless it is in the connection's buffer.
    pub(crate) fn into_kept(self) -> Option<Response> {
        match self {
            Self::Direct { .. } => None,
            later @ Self::Later { .. } => Some(later.into_response()),
        }
    }

    /// The answer as a value.
    pub(crate) fn into_response(self) -> Response {
        match self {
            Self::Later { head: Some(head), body, .. } => response(&head, body),
            // A direct answer is in its buffer; this arm is never a client's.
            Self::Later { head: None, .. } | Self::Direct { .. } => {
                Response::from_status(Status::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

fn write_head(out: &mut ResponseWriter<'_>, head: &Head) {
    out.status(head.status);
    if !head.content_type.is_empty() {
        out.content_type(head.content_type);
    }
    head.headers(|name, value| {
        // Tags, and paths that are percent-encoded: nothing that a header cannot have.
        let _ = out.header(name, value);
    });
}

fn response(head: &Head, body: Vec<u8>) -> Response {
    let mut response = if head.content_type.is_empty() {
        Response::new(head.status)
    } else {
        Response::with_body(head.content_type, body).with_status(head.status)
    };
    head.headers(|name, value| {
        let _ = response.add_header(name.into(), value.as_bytes().to_vec().into());
    });
    response
}

/// Where a handler leaves its answer.
pub(crate) enum Out<'o, 'w> {
    /// In the connection's buffer.
    Direct(&'o mut ResponseWriter<'w>),
    /// Here, for a request whose caller had to be found first.
    #[cfg_attr(not(feature = "auth"), allow(dead_code, reason = "no caller is looked up"))]
    Kept(&'o mut Option<Response>),
}

impl<'w> Out<'_, 'w> {
    /// Begins an answer, to be given to [`Out::end`].
    pub(crate) const fn begin(&mut self, private: bool) -> Answer<'_, 'w> {
        match self {
            Self::Direct(out) => Answer::direct(out, private),
            Self::Kept(_) => Answer::Later { head: None, body: Vec::new(), private },
        }
    }

    /// Keeps what [`Answer::into_kept`] gave.
    pub(crate) fn end(&mut self, kept: Option<Response>) {
        if let (Self::Kept(slot), Some(response)) = (self, kept) {
            **slot = Some(response);
        }
    }

    /// Gives a whole answer.
    pub(crate) fn respond(&mut self, response: Response) {
        match self {
            Self::Direct(out) => out.respond(response),
            Self::Kept(slot) => **slot = Some(response),
        }
    }
}

/// An error outside any call, as an answer.
pub(crate) fn refuse(error: ApiError, out: &mut Out<'_, '_>) {
    out.respond(error.into_response());
}
