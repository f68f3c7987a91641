//! The bytes of a message's body, constant or owned, which are not copied.

pub(crate) mod body_buffer;
pub(crate) mod body_sender;
pub(crate) mod budget;
#[cfg(feature = "compression")]
pub(crate) mod coding;
pub(crate) mod producer;

use std::sync::Arc;

/// A whole body; [`crate::BodyStream`] is a body that is produced while it is sent. Its
/// representation is private to this file.
#[derive(Clone, Debug, Default)]
pub struct Body(Bytes);

#[derive(Clone, Debug)]
enum Bytes {
    Static(&'static [u8]),
    Owned(Vec<u8>),
    Counted(Arc<[u8]>),
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
    pub const fn empty() -> Self {
        Self(Bytes::Static(&[]))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Static(bytes) => bytes,
            Bytes::Owned(bytes) => bytes,
            Bytes::Counted(bytes) => bytes,
            #[cfg(feature = "tower")]
            Bytes::Shared(bytes) => bytes,
        }
    }

    /// Returns the bytes for sharing.
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

    /// Returns the bytes of memory that are held for this body alone.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.0 {
            Bytes::Static(_) | Bytes::Counted(_) => 0,
            Bytes::Owned(bytes) => bytes.capacity(),
            #[cfg(feature = "tower")]
            Bytes::Shared(bytes) => bytes.len(),
        }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Returns true if the body is empty.
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
