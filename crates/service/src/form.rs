//! The forms in which parameters and results are transferred: values as JSON, and streams.

use marmota_model::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};

use crate::pieces::Pieces;
use crate::stream::{ByteStream, ItemStream};

/// The form in which a parameter or a result is transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// A complete JSON value.
    #[default]
    Value,
    /// Bytes, piece by piece ([`ByteStream`]).
    Bytes,
    /// Items, one after the other ([`ItemStream`]).
    Items,
}

impl Form {
    /// Returns true for a JSON value.
    #[must_use]
    pub const fn is_value(&self) -> bool {
        matches!(self, Self::Value)
    }

    /// Returns the name used in contracts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Bytes => "bytes",
            Self::Items => "items",
        }
    }
}

impl Serialize for Form {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The result of a call.
#[derive(Debug)]
pub enum Reply {
    /// JSON.
    Value(Vec<u8>),
    /// Bytes, or items as lines of JSON.
    Stream(Pieces),
}

/// The limits of a stream, and how invalid content is reported.
#[derive(Clone, Debug)]
pub struct Expected {
    /// A description for messages: `numbers of files.sum`.
    pub(crate) what: String,
    /// The kind of error for invalid content.
    pub(crate) fault: ErrorKind,
    pub(crate) item_bytes_max: usize,
    pub(crate) stream_bytes_max: u64,
}

/// A type that can be a parameter or a result: types that serde can serialize and deserialize, and
/// streams.
pub trait Transfer: Sized {
    /// The form in which the type is transferred.
    const FORM: Form;

    /// Parses JSON.
    #[doc(hidden)]
    fn of_json(json: &str) -> serde_json::Result<Self>;

    /// Parses a query parameter; text needs no quotes.
    #[doc(hidden)]
    fn of_text(text: &str) -> serde_json::Result<Self>;

    /// Creates a stream from its pieces; `None` if the type is a value.
    #[doc(hidden)]
    fn of_pieces(pieces: Pieces, expected: Expected) -> Option<Self>;

    /// Encodes the value or stream.
    #[doc(hidden)]
    fn into_reply(self) -> serde_json::Result<Reply>;
}

impl<T: Serialize + DeserializeOwned> Transfer for T {
    const FORM: Form = Form::Value;

    fn of_json(json: &str) -> serde_json::Result<Self> {
        serde_json::from_str(json)
    }

    fn of_text(text: &str) -> serde_json::Result<Self> {
        let as_text = T::deserialize(serde_json::Value::String(text.to_owned()));
        as_text.or_else(|_| serde_json::from_str(text))
    }

    fn of_pieces(_: Pieces, _: Expected) -> Option<Self> {
        None
    }

    fn into_reply(self) -> serde_json::Result<Reply> {
        serde_json::to_vec(&self).map(Reply::Value)
    }
}

impl Transfer for ByteStream {
    const FORM: Form = Form::Bytes;

    fn of_json(_: &str) -> serde_json::Result<Self> {
        Err(no_value())
    }

    fn of_text(_: &str) -> serde_json::Result<Self> {
        Err(no_value())
    }

    fn of_pieces(pieces: Pieces, expected: Expected) -> Option<Self> {
        Some(Self::new(pieces.bounded(expected)))
    }

    fn into_reply(self) -> serde_json::Result<Reply> {
        Ok(Reply::Stream(Pieces::new(self)))
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Transfer for ItemStream<T> {
    const FORM: Form = Form::Items;

    fn of_json(_: &str) -> serde_json::Result<Self> {
        Err(no_value())
    }

    fn of_text(_: &str) -> serde_json::Result<Self> {
        Err(no_value())
    }

    fn of_pieces(pieces: Pieces, expected: Expected) -> Option<Self> {
        Some(Self::new(crate::lines::Decoding::new(pieces, expected)))
    }

    fn into_reply(self) -> serde_json::Result<Reply> {
        Ok(Reply::Stream(Pieces::new(crate::lines::Encoding::new(self))))
    }
}

/// The error for calling a value method on a stream type. Streams are handled by their form, so
/// this is not reached.
#[cold]
fn no_value() -> serde_json::Error {
    serde::de::Error::custom("a stream is no value")
}

impl Reply {
    /// Converts the reply to the result type of a stub.
    pub(crate) fn read<T: Transfer>(self, expected: Expected) -> Result<T> {
        let what = expected.what.clone();
        let none = |why: &str| {
            let message = format!("{what} is not of its type: {why}");
            Error::new(ErrorKind::Protocol, message)
        };
        match (self, T::FORM) {
            (Self::Value(json), Form::Value) => {
                let text = std::str::from_utf8(&json).map_err(|error| none(&error.to_string()))?;
                T::of_json(text).map_err(|error| none(&error.to_string()))
            }
            (Self::Stream(pieces), Form::Bytes | Form::Items) => {
                T::of_pieces(pieces, expected).ok_or_else(|| none("it is a stream"))
            }
            (Self::Stream(_), Form::Value) => Err(none("it is a stream")),
            (Self::Value(_), _) => Err(none("it is no stream")),
        }
    }
}
