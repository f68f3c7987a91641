//! The forms in which parameters and results are transferred: values as JSON, and streams.

use std::future::Future;
use std::pin::Pin;

use marmota_model::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

mod chunk_stream;
mod expected;
mod form;
mod items;
mod lines;
mod stream;

pub(crate) use chunk_stream::{ChunkStream, to_base64};
pub(crate) use expected::Expected;
pub use form::TransferForm;
pub(crate) use items::Decoding;
use items::Encoding;
pub use stream::{ByteStream, ItemSender, ItemStream};

/// The result of a call.
#[derive(Debug)]
pub enum Reply {
    /// JSON.
    Value(Vec<u8>),
    /// Bytes, or items as lines of JSON.
    Stream(ChunkStream),
}

/// The result of a call that is running.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;

/// A type that can be a parameter or a result: types that serde can serialize and deserialize, and
/// streams.
pub trait Transfer: Sized {
    /// The form in which the type is transferred.
    const FORM: TransferForm;

    /// Parses JSON.
    #[doc(hidden)]
    fn of_json(json: &str) -> serde_json::Result<Self>;

    /// Parses a query parameter; text needs no quotes.
    #[doc(hidden)]
    fn of_text(text: &str) -> serde_json::Result<Self>;

    /// Creates a stream from its pieces; `None` if the type is a value.
    #[doc(hidden)]
    fn of_pieces(pieces: ChunkStream, expected: Expected) -> Option<Self>;

    /// Encodes the value or stream.
    #[doc(hidden)]
    fn into_reply(self) -> serde_json::Result<Reply>;
}

impl<T: Serialize + DeserializeOwned> Transfer for T {
    const FORM: TransferForm = TransferForm::Value;

    fn of_json(json: &str) -> serde_json::Result<Self> {
        serde_json::from_str(json)
    }

    fn of_text(text: &str) -> serde_json::Result<Self> {
        let as_text = T::deserialize(serde_json::Value::String(text.to_owned()));
        as_text.or_else(|_| serde_json::from_str(text))
    }

    fn of_pieces(_: ChunkStream, _: Expected) -> Option<Self> {
        None
    }

    fn into_reply(self) -> serde_json::Result<Reply> {
        serde_json::to_vec(&self).map(Reply::Value)
    }
}

impl Transfer for ByteStream {
    const FORM: TransferForm = TransferForm::Bytes;

    fn of_json(_: &str) -> serde_json::Result<Self> {
        Err(no_value())
    }

    fn of_text(_: &str) -> serde_json::Result<Self> {
        Err(no_value())
    }

    fn of_pieces(pieces: ChunkStream, expected: Expected) -> Option<Self> {
        Some(Self::new(pieces.bounded(expected)))
    }

    fn into_reply(self) -> serde_json::Result<Reply> {
        Ok(Reply::Stream(ChunkStream::new(self)))
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Transfer for ItemStream<T> {
    const FORM: TransferForm = TransferForm::Items;

    fn of_json(_: &str) -> serde_json::Result<Self> {
        Err(no_value())
    }

    fn of_text(_: &str) -> serde_json::Result<Self> {
        Err(no_value())
    }

    fn of_pieces(pieces: ChunkStream, expected: Expected) -> Option<Self> {
        Some(Self::new(Decoding::new(pieces, expected)))
    }

    fn into_reply(self) -> serde_json::Result<Reply> {
        Ok(Reply::Stream(ChunkStream::new(Encoding::new(self))))
    }
}

/// The error for calling a value method on a stream type. Streams are handled by their form, so
/// this is not reached.
#[cold]
fn no_value() -> serde_json::Error {
    serde::de::Error::custom("a stream is not a value")
}

impl Reply {
    /// Converts the reply to the result type of a stub.
    pub(crate) fn read<T: Transfer>(self, expected: Expected) -> Result<T> {
        let what = expected.what.clone();
        let none = |why: &str| {
            let message = format!("{what} does not match its type: {why}");
            Error::new(ErrorKind::Protocol, message)
        };
        match (self, T::FORM) {
            (Self::Value(json), TransferForm::Value) => {
                let text = std::str::from_utf8(&json).map_err(|error| none(&error.to_string()))?;
                T::of_json(text).map_err(|error| none(&error.to_string()))
            }
            (Self::Stream(pieces), TransferForm::Bytes | TransferForm::Items) => {
                T::of_pieces(pieces, expected).ok_or_else(|| none("it is a stream"))
            }
            (Self::Stream(_), TransferForm::Value) => Err(none("it is a stream")),
            (Self::Value(_), _) => Err(none("it is not a stream")),
        }
    }
}
