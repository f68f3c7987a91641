//! A stream in transfer, independent of its content: pieces of bytes, or of lines of JSON with an
//! item each.

use std::pin::Pin;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use futures_lite::stream::Stream;
use marmota_model::Result;
use serde_json::value::RawValue;

use super::expected::Expected;
use super::form::TransferForm;
use super::lines;

/// A stream of pieces. A piece may start and end within a line.
pub struct ChunkStream(Pin<Box<dyn Stream<Item = Result<Vec<u8>>> + Send>>);

impl ChunkStream {
    pub(crate) fn new(pieces: impl Stream<Item = Result<Vec<u8>>> + Send + 'static) -> Self {
        Self(Box::pin(pieces))
    }

    /// Creates a stream of bytes that are already available.
    pub(crate) fn whole(bytes: Vec<u8>) -> Self {
        Self::new(futures_lite::stream::once(Ok(bytes)))
    }

    /// Parses a stream encoded in JSON: bytes as base64url (RFC 4648, with or without padding),
    /// items as an array.
    ///
    /// # Errors
    /// A description of the expected JSON.
    pub(crate) fn of_json(form: TransferForm, json: &str) -> Result<Self, &'static str> {
        match form {
            TransferForm::Bytes => {
                let text: Option<String> = serde_json::from_str(json).ok();
                let bytes = text.and_then(|text| BASE64.decode(text.trim_end_matches('=')).ok());
                bytes.map(Self::whole).ok_or("a text in base64url")
            }
            _ => {
                let items: Vec<&RawValue> =
                    serde_json::from_str(json).map_err(|_| "an array with one item each")?;
                let mut lines = Vec::new();
                for item in items {
                    lines::put(&mut lines, item.get().as_bytes());
                }
                Ok(Self::whole(lines))
            }
        }
    }

    /// Limits the size of the stream; more bytes are an error.
    pub(crate) fn bounded(self, expected: Expected) -> Bounded {
        Bounded { pieces: self, left: expected.stream_bytes_max, expected }
    }

    pub(crate) async fn next(&mut self) -> Option<Result<Vec<u8>>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for ChunkStream {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl std::fmt::Debug for ChunkStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ChunkStream")
    }
}

/// Encodes bytes as in JSON.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// The stream that [`ChunkStream::bounded`] returns.
pub(crate) struct Bounded {
    pieces: ChunkStream,
    left: u64,
    expected: Expected,
}

impl Stream for Bounded {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = Pin::new(&mut self.pieces).poll_next(context);
        if let Poll::Ready(Some(Ok(piece))) = &polled {
            match self.left.checked_sub(piece.len() as u64) {
                Some(left) => self.left = left,
                None => return Poll::Ready(Some(Err(self.expected.too_long()))),
            }
        }
        polled
    }
}
