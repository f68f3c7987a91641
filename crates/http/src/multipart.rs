//! Forms with files (`multipart/form-data`, RFC 7578), part by part while they arrive.
//!
//! The crate `multer` parses the body: boundaries, the heads of parts, and the data between them.
//! This module connects it to a request. [`Multipart`] reads pieces of the body from the request's
//! [`BodyReader`](crate::BodyReader) and passes one at a time to the parser (`feed.rs`), so only
//! one piece of a file is in memory. It also adds the limits that the parser does not have:
//! the number of parts, the length of a part's head, and the length of a text; and it checks that
//! the first boundary begins a line.
//!
//! It is not a layer: a handler that wants a form calls [`Multipart::of`]. Other bodies of forms
//! (`application/x-www-form-urlencoded`) are read by [`Form`](crate::extract::Form).

mod error;
mod feed;
mod limits;
mod part;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::task::{Poll, ready};

pub use error::MultipartError;
pub use limits::MultipartLimits;
pub use part::Part;

use feed::Feed;
use limits::{BOUNDARY_BYTES_MAX, HEAD_BYTES_MAX};

use crate::message::request::Request;

/// Bytes of the body that may arrive without completing a head: the bytes before the first
/// boundary, or a boundary's line and the head after it.
const HEADLESS_BYTES_MAX: usize = 2 * HEAD_BYTES_MAX;

/// A form that arrives part by part.
///
/// On a route with [`Endpoint::streamed`](crate::Endpoint::streamed) a form of any length takes
/// constant memory. On other routes the body is complete before the handler runs, and limited by
/// [`Limits::body_bytes_max`](crate::Limits::body_bytes_max).
///
/// ```
/// use marmota_http::{Endpoint, Method, Multipart, MultipartError, Request, Router, TestRequest};
///
/// async fn upload(request: Request) -> Result<String, MultipartError> {
///     let mut form = Multipart::of(&request)?;
///     let mut summary = String::new();
///     while let Some(mut part) = form.next().await? {
///         let name = part.name().to_owned();
///         summary += &match part.file_name().map(str::to_owned) {
///             Some(file) => format!("{name}: {file}\n"),
///             None => format!("{name} = {}\n", part.text().await?),
///         };
///     }
///     Ok(summary)
/// }
///
/// let router = Router::new()
///     .on(Method::Post, "/upload", Endpoint::future(upload).streamed(1 << 30));
/// let form = "--x\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nA marmot\r\n\
///     --x\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"m.jpg\"\r\n\r\n...\r\n\
///     --x--\r\n";
/// let request = TestRequest::post("/upload")
///     .header("Content-Type", "multipart/form-data; boundary=x")
///     .body(form);
/// assert_eq!(router.call(request)?.text(), "title = A marmot\nphoto: m.jpg\n");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Debug)]
pub struct Multipart {
    form: multer::Multipart<'static>,
    feed: Feed,
    /// The latest part. The parser refuses to continue while its handle exists, so it is dropped
    /// before the next one is requested.
    field: Option<multer::Field<'static>>,
    limits: MultipartLimits,
    /// Parts so far.
    parts: usize,
}

impl Multipart {
    /// Returns the form in a request's body, with the default [`MultipartLimits`].
    ///
    /// ```
    /// use marmota_http::{Multipart, MultipartError, Request, Router, TestRequest};
    ///
    /// async fn count(request: Request) -> Result<String, MultipartError> {
    ///     let mut form = Multipart::of(&request)?;
    ///     let mut parts = 0;
    ///     while form.next().await?.is_some() {
    ///         parts += 1;
    ///     }
    ///     Ok(parts.to_string())
    /// }
    ///
    /// let router = Router::new().post("/", count);
    /// // Without a form, the error is the answer.
    /// assert_eq!(router.call(TestRequest::post("/").body("x"))?.status().code(), 415);
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    ///
    /// # Errors
    /// - [`MultipartError::NoForm`] if `Content-Type` is not `multipart/form-data` with a boundary.
    /// - [`MultipartError::Malformed`] if the boundary is empty or longer than 70 bytes.
    pub fn of(request: &Request) -> Result<Self, MultipartError> {
        Self::with_limits(request, MultipartLimits::default())
    }

    /// Returns the form in a request's body, with these limits.
    ///
    /// ```
    /// use marmota_http::{Multipart, MultipartError, MultipartLimits, Request};
    ///
    /// fn avatar(request: &Request) -> Result<Multipart, MultipartError> {
    ///     let mut limits = MultipartLimits::default();
    ///     limits.parts_max = 1;
    ///     limits.part_bytes_max = 2 << 20; // 2 MiB
    ///     Multipart::with_limits(request, limits)
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`Multipart::of`].
    pub fn with_limits(request: &Request, limits: MultipartLimits) -> Result<Self, MultipartError> {
        let media_type = request.header_text("content-type").unwrap_or_default();
        let boundary = multer::parse_boundary(media_type).map_err(|_| MultipartError::NoForm)?;
        if boundary.is_empty() || boundary.len() > BOUNDARY_BYTES_MAX {
            let reason = "the boundary is empty or longer than 70 bytes";
            return Err(MultipartError::Malformed(reason));
        }
        let (feed, pieces) = Feed::new(request.reader(), &boundary);
        let sizes = multer::SizeLimit::new().per_field(limits.part_bytes_max);
        let constraints = multer::Constraints::new().size_limit(sizes);
        let form = multer::Multipart::with_constraints(pieces, boundary, constraints);
        Ok(Self { form, feed, field: None, limits, parts: 0 })
    }

    /// Returns the next part once its head has arrived; `None` at the end of the form. Unread data
    /// of the previous part is skipped, up to [`MultipartLimits::part_bytes_max`].
    ///
    /// # Errors
    /// [`MultipartError`], if the body cannot be read, is malformed or exceeds a limit. The rest
    /// of the form cannot be read afterwards.
    pub async fn next(&mut self) -> Result<Option<Part<'_>>, MultipartError> {
        while self.next_data().await?.is_some() {}
        self.field = None;
        let Some(field) = self.next_field().await? else {
            // The bytes after the last boundary have no meaning, but the next request of the
            // connection begins after them.
            self.feed.skip_rest().await?;
            return Ok(None);
        };
        self.parts += 1;
        if self.parts > self.limits.parts_max {
            return Err(MultipartError::TooMany);
        }
        check_head(&field)?;
        self.field = Some(field);
        Ok(Some(Part::new(self)))
    }

    /// Returns the next field of the parser, feeding it with at most [`HEADLESS_BYTES_MAX`] bytes:
    /// the parser itself collects a head of any length.
    async fn next_field(&mut self) -> Result<Option<multer::Field<'static>>, MultipartError> {
        let Self { form, feed, .. } = self;
        let mut fed = 0;
        poll_fn(|context| {
            loop {
                if let Poll::Ready(next) = form.poll_next_field(context) {
                    return Poll::Ready(next.map_err(MultipartError::of_parser));
                }
                if fed >= HEADLESS_BYTES_MAX {
                    let reason = "the header of a part is too large";
                    return Poll::Ready(Err(MultipartError::Malformed(reason)));
                }
                fed += ready!(feed.poll_feed(context, HEAD_BYTES_MAX))?;
            }
        })
        .await
    }
}

/// Checks the head of a part beyond what the parser checks.
fn check_head(field: &multer::Field<'_>) -> Result<(), MultipartError> {
    let mut bytes = 0;
    for (name, value) in field.headers() {
        bytes += name.as_str().len() + value.len();
        if std::str::from_utf8(value.as_bytes()).is_err() {
            return Err(MultipartError::Malformed("the header of a part is not UTF-8"));
        }
    }
    if bytes > HEAD_BYTES_MAX {
        return Err(MultipartError::Malformed("the header of a part is too large"));
    }
    match field.name() {
        Some(_) => Ok(()),
        None => Err(MultipartError::Malformed("a part has no name")),
    }
}
