//! Destinations of a response: the connection's buffer, or a separate response for a request that
//! had to wait. Verbs do not depend on which is used.
//!
//! ```text
//! verb ── Head, bytes ──► Answer::Direct ──► the connection's buffer
//!                         Answer::Later  ──► Response, when the engine is ready
//! ```
//!
//! A verb creates a [`Head`] and appends the body to the buffer that [`Answer::body`] returns. With
//! an engine that completes at once, a row is therefore written once, directly into the bytes that
//! are sent.

use marmota_http::{IntoResponse, ProblemDocument, Response, ResponseWriter, Status};
use marmota_store::Store;
use marmota_store::change::Position;
use marmota_store::operation::Outcome;
use marmota_web::ApiError;

use crate::protocol::etag::Etag;

pub(crate) const JSON: &str = "application/json";
/// The media type of a page whose rows are arrays of values.
pub(crate) const JSON_COLUMNS: &str = "application/json; profile=columns";
/// The `Cache-Control` of responses that depend on the caller: shared caches must not reuse them.
pub(crate) const PRIVATE: &str = "private, no-cache";
/// The `Vary` of such responses: a cache of one machine must not give them to another user.
pub(crate) const VARY_CALLER: &str = "Authorization, Cookie";
/// The `Vary` of a list: one URL has pages, lines and events, and `Prefer` selects its count.
pub(crate) const VARY_LIST: &str = "Accept, Prefer";
/// The header with the position of a write in the change feed.
pub(crate) const POSITION: &str = "Marmota-Position";
/// The header with the number of rows of a list.
pub(crate) const COUNT: &str = "Marmota-Count";

/// Bodies of at least this size are passed on instead of copied. Below it, a copy into the
/// connection's buffer is cheaper than another system call.
const COPY_BYTES_MAX: usize = 32 * 1024;

/// The head of a response: the status and those headers that verbs set. `Content-Length`, `Date`
/// and the connection's headers are added by the server.
#[derive(Debug)]
pub(crate) struct Head {
    /// The status code.
    pub(crate) status: Status,
    /// The media type of the body; empty for a response without a body.
    pub(crate) content_type: &'static str,
    /// The tag of the row or body that the response represents (`ETag`).
    pub(crate) etag: Option<Etag>,
    /// The path of a created row (`Location`), percent-encoded.
    pub(crate) location: Option<String>,
    /// The next page of a list (`Link`, RFC 8288).
    pub(crate) link: Option<String>,
    /// True if `Prefer: return=minimal` was applied. The response then has `Preference-Applied`
    /// (RFC 7240).
    pub(crate) minimal: bool,
    /// The number of rows of a list (`Marmota-Count`).
    pub(crate) count: Option<u64>,
    /// The preference `count` that was applied (`Preference-Applied`).
    pub(crate) counted: Option<&'static str>,
    /// True for a list, whose form depends on the request (`Vary`).
    pub(crate) is_list: bool,
    /// An additional header, for one that only a few responses have, such as `Retry-After` or
    /// `Idempotent-Replayed`.
    pub(crate) extra: Option<(&'static str, &'static str)>,
    /// What the head has in common with all responses to the request.
    common: Common,
}

/// What the responses to a request have in common.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Common {
    /// True if the response is private to its caller.
    private: bool,
    /// The position of the write in the change feed (`Marmota-Position`).
    position: Option<Position>,
    /// True if a replica executed a read of the request (`Preference-Applied: replica`).
    from_replica: bool,
}

impl Head {
    /// Creates a head without further headers.
    pub(crate) const fn new(status: Status, content_type: &'static str) -> Self {
        Self {
            status,
            content_type,
            etag: None,
            location: None,
            link: None,
            minimal: false,
            count: None,
            counted: None,
            is_list: false,
            extra: None,
            common: Common { private: false, position: None, from_replica: false },
        }
    }

    /// Sets the entity tag, or none.
    pub(crate) const fn etag(mut self, etag: Option<Etag>) -> Self {
        self.etag = etag;
        self
    }

    /// Makes it the head of a list.
    pub(crate) const fn list(mut self) -> Self {
        self.is_list = true;
        self
    }

    /// Passes each header that is set to `put`, in a fixed order. Both destinations use it, so that
    /// a response has the same headers whether it had to wait or not.
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
        if self.common.private {
            put("Cache-Control", PRIVATE);
            put("Vary", VARY_CALLER);
        }
        if self.is_list {
            put("Vary", VARY_LIST);
        }
        if let Some(position) = self.common.position {
            put(POSITION, &position.to_string());
        }
        if self.minimal {
            put("Preference-Applied", "return=minimal");
        }
        if let Some(count) = self.count {
            put(COUNT, &count.to_string());
        }
        if let Some(counted) = self.counted {
            put("Preference-Applied", counted);
        }
        if self.common.from_replica {
            put("Preference-Applied", "replica");
        }
        if let Some((name, value)) = self.extra {
            put(name, value);
        }
    }
}

/// A response that is being written.
///
/// It is `Direct` as long as the request is answered in one step. When the engine must wait,
/// [`Answer::into_later`] copies what was written, because the connection's buffer is then used for
/// other requests. A response can be started several times: the last call of [`Answer::body`],
/// [`Answer::empty`], [`Answer::whole`] or [`Answer::fail`] replaces what was written before, so a
/// repeated step can simply write again.
pub(crate) enum Answer<'o, 'w> {
    /// Written to the connection's buffer. `head` is `None` until the response was started.
    Direct { out: &'o mut ResponseWriter<'w>, head: Option<Head>, common: Common },
    /// Collected until it is complete. The head is kept apart from the body, so that a later call
    /// can still replace it.
    Later { head: Option<Head>, body: Vec<u8>, common: Common },
}

impl<'o, 'w> Answer<'o, 'w> {
    /// Creates an empty response in the connection's buffer.
    const fn direct(out: &'o mut ResponseWriter<'w>, private: bool) -> Self {
        let common = Common { private, position: None, from_replica: false };
        Self::Direct { out, head: None, common }
    }

    /// Returns what all responses to the request have in common.
    const fn common(&self) -> Common {
        match self {
            Self::Direct { common, .. } | Self::Later { common, .. } => *common,
        }
    }

    /// Records the position of a write in the change feed, for the heads of the responses after it.
    pub(crate) fn committed(&mut self, store: &Store, outcome: &Outcome) {
        if outcome.commit.is_some() {
            let (Self::Direct { common, .. } | Self::Later { common, .. }) = self;
            common.position = store.position_of(outcome);
        }
    }

    /// Records that a replica executed a read, also in a head that was written with its first row. A
    /// replica always lets the request wait, so the head is not sent yet.
    pub(crate) fn read_from_replica(&mut self) {
        if let Self::Later { head, common, .. } = self {
            common.from_replica = true;
            if let Some(head) = head {
                head.common.from_replica = true;
            }
        }
    }

    /// Finishes the head and returns the body, for appending.
    ///
    /// The body of a response that waits starts empty on each call. In the connection's buffer, the
    /// head is written before the body, so the status, the tag and the other headers must be known
    /// here. A body whose tag is its hash is written to another buffer first and passed to
    /// [`Answer::whole`].
    pub(crate) fn body(&mut self, mut begin: Head) -> &mut Vec<u8> {
        begin.common = self.common();
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

    /// Writes a response without a body, such as 204 or 304.
    pub(crate) fn empty(&mut self, mut begin: Head) {
        begin.common = self.common();
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

    /// Writes a response with a complete body. Afterwards `ready` can be reused by the caller: its
    /// memory was either copied from, or taken and replaced by an empty buffer.
    ///
    /// It is for a body that must be complete before its head, such as a row whose tag is a hash of
    /// it, and for one that was created elsewhere, such as the results of a batch.
    pub(crate) fn whole(&mut self, mut begin: Head, ready: &mut Vec<u8>) {
        begin.common = self.common();
        match self {
            Self::Direct { out, head, .. } if ready.len() >= COPY_BYTES_MAX => {
                out.respond(response(&begin, std::mem::take(ready)));
                *head = Some(begin);
            }
            _ => self.body(begin).extend_from_slice(ready),
        }
    }

    /// Writes the error as a problem document (RFC 9457), and replaces the response written so far.
    /// Errors of the server (500 and above) are also logged. Headers that belong to the error are
    /// set, such as `Retry-After` for 503.
    pub(crate) fn fail(&mut self, error: &ApiError) {
        let document = error.document();
        document.log();
        let mut head = Head::new(document.status(), ProblemDocument::MEDIA_TYPE);
        head.extra = document.header();
        document.write(self.body(head));
    }

    /// Converts the unfinished response, to be continued later. The part of the body that is in the
    /// connection's buffer is copied: a list keeps the rows that it has written when a later read
    /// must wait.
    pub(crate) fn into_later(self) -> Answer<'static, 'static> {
        match self {
            Self::Direct { out, head, common } => {
                let length = out.body_len();
                let body = match length {
                    0 => Vec::new(),
                    length => {
                        let bytes = out.body_mut();
                        bytes[bytes.len() - length..].to_vec()
                    }
                };
                Answer::Later { head, body, common }
            }
            Self::Later { head, body, common } => Answer::Later { head, body, common },
        }
    }

    /// Returns the response as a value, or `None` if it is in the connection's buffer, where it
    /// needs no further step. The result is for [`Out::end`].
    pub(crate) fn into_kept(self) -> Option<Response> {
        match self {
            Self::Direct { .. } => None,
            later @ Self::Later { .. } => Some(later.into_response()),
        }
    }

    /// Returns the response as a value. A response that was never started would be a fault of the
    /// verb, and is answered with 500 instead of an empty 200.
    pub(crate) fn into_response(self) -> Response {
        match self {
            Self::Later { head: Some(head), body, .. } => response(&head, body),
            // A direct response is in its buffer; this arm is never sent to a client.
            Self::Later { head: None, .. } | Self::Direct { .. } => {
                Response::from_status(Status::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

/// Writes the head into the connection's buffer, as the start of a new response: what an earlier
/// call wrote there is discarded by [`ResponseWriter::status`] and the following calls.
fn write_head(out: &mut ResponseWriter<'_>, head: &Head) {
    out.status(head.status);
    if !head.content_type.is_empty() {
        out.content_type(head.content_type);
    }
    head.headers(|name, value| {
        // Tags and percent-encoded paths are valid header values.
        let _ = out.header(name, value);
    });
}

/// Creates a response from a head and a complete body. An empty content type stands for no body, as
/// in [`write_head`].
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

/// The destination of a handler's response.
///
/// Handlers do not return a response, because that would copy the body of each answer that is ready
/// at once. They write into an `Out`, and [`Out::begin`] and [`Out::end`] enclose one response.
pub(crate) enum Out<'o, 'w> {
    /// The connection's buffer.
    Direct(&'o mut ResponseWriter<'w>),
    /// This slot, for a request that had to wait before its handler was called.
    Kept(&'o mut Option<Response>),
}

impl<'w> Out<'_, 'w> {
    /// Starts a response, to be passed to [`Out::end`]. `private` is true if the caller has rights
    /// of its own, and adds `Cache-Control` and `Vary`.
    pub(crate) const fn begin(&mut self, private: bool) -> Answer<'_, 'w> {
        match self {
            Self::Direct(out) => Answer::direct(out, private),
            Self::Kept(_) => {
                let common = Common { private, position: None, from_replica: false };
                Answer::Later { head: None, body: Vec::new(), common }
            }
        }
    }

    /// Stores the result of [`Answer::into_kept`]. It has no effect for a direct response. A verb
    /// that waits has no result yet: its future returns the response later.
    pub(crate) fn end(&mut self, kept: Option<Response>) {
        if let (Self::Kept(slot), Some(response)) = (self, kept) {
            **slot = Some(response);
        }
    }

    /// Writes a complete response, for handlers that create one without a verb.
    pub(crate) fn respond(&mut self, response: Response) {
        match self {
            Self::Direct(out) => out.respond(response),
            Self::Kept(slot) => **slot = Some(response),
        }
    }
}

/// Writes an error that occurred outside of a call: an unknown table or path, an invalid parameter,
/// a caller without rights.
pub(crate) fn refuse(error: ApiError, out: &mut Out<'_, '_>) {
    out.respond(error.into_response());
}
