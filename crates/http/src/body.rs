//! Bodies: whole ones ([`Body`]), and the files of this folder for bodies that are produced while
//! they are sent, or read while they arrive.
//!
//! | file | subject |
//! |---|---|
//! | `producer` | [`BodyStream`](crate::BodyStream): a body that is polled while it is sent |
//! | `body_sender` | [`BodySender`](crate::BodySender): a body that is pushed from any task or thread |
//! | `body_buffer` | a request's body between its connection and its handler |
//! | `coding` | bodies compressed as gzip, brotli or zstd |
//! | `budget` | the memory that clients make the server hold |
//!
//! Nothing here knows a request, a response or a socket: [`crate::message`] puts bodies into both,
//! and [`crate::connection`] moves their bytes.

pub(crate) mod body_buffer;
pub(crate) mod body_sender;
pub(crate) mod budget;
#[cfg(feature = "compression")]
pub(crate) mod coding;
pub(crate) mod producer;

use std::sync::Arc;

/// A whole body: bytes that are constant, owned or shared, and are not copied before they are sent.
/// [`BodyStream`](crate::BodyStream) is a body that is produced while it is sent.
///
/// It is made from texts and bytes by `into()`. Its representation is private to this file.
///
/// ```
/// use std::sync::Arc;
/// use marmota_http::{Body, Response};
///
/// let owned = Response::with_body("text/csv", "id,name\n".to_owned());
/// // In memory once, for all clients.
/// let shared: Arc<[u8]> = Arc::from(vec![0; 1 << 20]);
/// let large = Response::with_body("application/octet-stream", Arc::clone(&shared));
/// assert_eq!(large.body().len(), 1 << 20);
/// assert_eq!(Body::from("abc").as_bytes(), b"abc");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Body(Bytes);

/// The bytes of a body, by their owner.
#[derive(Clone, Debug)]
enum Bytes {
    /// Constant bytes of the program.
    Static(&'static [u8]),
    /// Bytes of this body alone.
    Owned(Vec<u8>),
    /// Bytes that other bodies may share.
    Counted(Arc<[u8]>),
    /// Bytes of the `bytes` crate, from a mounted service.
    #[cfg(feature = "tower")]
    Shared(bytes::Bytes),
}

impl Default for Bytes {
    fn default() -> Self {
        Self::Static(&[])
    }
}

impl Body {
    /// Returns an empty body.
    ///
    /// ```
    /// use marmota_http::Body;
    /// assert!(Body::empty().is_empty());
    /// ```
    pub const fn empty() -> Self {
        Self(Bytes::Static(&[]))
    }

    /// Returns the bytes.
    ///
    /// ```
    /// # use marmota_http::Body;
    /// assert_eq!(Body::from(vec![1, 2]).as_bytes(), [1, 2]);
    /// ```
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Static(bytes) => bytes,
            Bytes::Owned(bytes) => bytes,
            Bytes::Counted(bytes) => bytes,
            #[cfg(feature = "tower")]
            Bytes::Shared(bytes) => bytes,
        }
    }

    /// Returns the bytes in the type of the HTTP/2 library, without a copy.
    #[cfg(feature = "http2")]
    pub(crate) fn into_bytes(self) -> bytes::Bytes {
        match self.0 {
            Bytes::Static(bytes) => bytes::Bytes::from_static(bytes),
            Bytes::Owned(bytes) => bytes.into(),
            Bytes::Counted(bytes) => bytes::Bytes::from_owner(bytes),
            #[cfg(feature = "tower")]
            Bytes::Shared(bytes) => bytes,
        }
    }

    /// Returns the bytes of memory that are held for this body alone, which count as unread by its
    /// client ([`crate::Limits::unread_bytes_max`]).
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.0 {
            Bytes::Static(_) | Bytes::Counted(_) => 0,
            Bytes::Owned(bytes) => bytes.capacity(),
            #[cfg(feature = "tower")]
            Bytes::Shared(bytes) => bytes.len(),
        }
    }

    /// Returns the number of bytes.
    ///
    /// ```
    /// # use marmota_http::Body;
    /// assert_eq!(Body::from("é").len(), 2, "bytes, not characters");
    /// ```
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Returns true if the body has no bytes.
    ///
    /// ```
    /// # use marmota_http::Body;
    /// assert!(Body::from("").is_empty() && !Body::from(" ").is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<&'static [u8]> for Body {
    fn from(bytes: &'static [u8]) -> Self {
        Self(Bytes::Static(bytes))
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self(Bytes::Static(text.as_bytes()))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Bytes::Owned(bytes))
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self(Bytes::Owned(text.into_bytes()))
    }
}

/// Shared bytes: a body that is sent to many clients is in memory once.
impl From<Arc<[u8]>> for Body {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self(Bytes::Counted(bytes))
    }
}

#[cfg(feature = "tower")]
impl From<bytes::Bytes> for Body {
    fn from(bytes: bytes::Bytes) -> Self {
        Self(Bytes::Shared(bytes))
    }
}

#[cfg(feature = "tower")]
impl http_body::Body for Body {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
        let bytes = match std::mem::take(&mut self.0) {
            Bytes::Static(bytes) => bytes::Bytes::from_static(bytes),
            Bytes::Owned(bytes) => bytes.into(),
            Bytes::Counted(bytes) => bytes::Bytes::from_owner(bytes),
            Bytes::Shared(bytes) => bytes,
        };
        std::task::Poll::Ready((!bytes.is_empty()).then(|| Ok(http_body::Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.len() as u64)
    }
}
