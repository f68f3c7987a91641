//! Binary messages between peers, which carry streams. Their first byte distinguishes them from JSON,
//! which cannot begin with it.
//!
//! | byte | then | meaning | sender |
//! |---|---|---|---|
//! | 1 | number, bytes | the next bytes of the stream | stream sender |
//! | 2 | number | successful end | stream sender |
//! | 3 | number, JSON-RPC error | end with that error | stream sender |
//! | 4 | number, 4 bytes | grants this number of bytes more | stream receiver |
//! | 5 | number | cancels the stream | stream receiver |
//!
//! A stream's number has 8 bytes and is assigned by its sender; numbers are little-endian.

use marmota_model::{Error, ErrorKind, Result};

use crate::failure::Failure;

/// The maximum number of stream bytes in one message.
pub(crate) const FRAME_BYTES_MAX: usize = 16 * 1024;
/// The length of a message's header: the type and the stream number.
const HEAD_BYTES: usize = 9;

/// A message about a stream.
#[derive(Debug)]
pub(crate) enum Frame<'a> {
    Data(u64, &'a [u8]),
    End(u64),
    Fail(u64, Failure),
    Credit(u64, u32),
    Cancel(u64),
}

/// Returns true if a message is a frame.
pub(crate) fn is_frame(message: &[u8]) -> bool {
    // Whitespace, which may precede JSON, has greater byte values.
    message.first().is_some_and(|first| (1..=8).contains(first))
}

impl<'a> Frame<'a> {
    /// Parses a message.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] if the message is not a valid frame.
    pub(crate) fn read(message: &'a [u8]) -> Result<Self> {
        let Some((head, rest)) = message.split_at_checked(HEAD_BYTES) else {
            return Err(none("it is too short"));
        };
        let number = u64::from_le_bytes(head[1..].try_into().unwrap_or_default());
        let frame = match (head[0], rest) {
            (1, bytes) if bytes.len() <= FRAME_BYTES_MAX => Self::Data(number, bytes),
            (2, []) => Self::End(number),
            (3, json) => Self::Fail(
                number,
                serde_json::from_slice(json).map_err(|error| none(&error.to_string()))?,
            ),
            (4, &[a, b, c, d]) => Self::Credit(number, u32::from_le_bytes([a, b, c, d])),
            (5, []) => Self::Cancel(number),
            _ => return Err(none("it has an unknown kind or a wrong length")),
        };
        Ok(frame)
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let head = |kind: u8, number: u64| {
            let mut out = Vec::with_capacity(HEAD_BYTES);
            out.push(kind);
            out.extend_from_slice(&number.to_le_bytes());
            out
        };
        match self {
            Self::Data(number, bytes) => [&head(1, *number), *bytes].concat(),
            Self::End(number) => head(2, *number),
            Self::Fail(number, failure) => {
                let mut out = head(3, *number);
                // The failure holds only strings and a number: serializing cannot fail.
                let _ = serde_json::to_writer(&mut out, failure);
                out
            }
            Self::Credit(number, bytes) => {
                [&head(4, *number)[..], &bytes.to_le_bytes()[..]].concat()
            }
            Self::Cancel(number) => head(5, *number),
        }
    }
}

#[cold]
fn none(why: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("a message about a stream is not valid: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            number: u64,
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            credit: u32,
            text: String,
        ) {
            let error = Error::new(ErrorKind::Stale, text.clone());
            let frames = [
                Frame::Data(number, &bytes),
                Frame::End(number),
                Frame::Fail(number, Failure::of(&error, "a.b")),
                Frame::Credit(number, credit),
                Frame::Cancel(number),
            ];
            for frame in frames {
                let written = frame.write();
                prop_assert!(is_frame(&written));
                let read = Frame::read(&written).unwrap();
                prop_assert_eq!(format!("{:?}", read), format!("{:?}", frame));
            }
        }

        #[test]
        fn strangers_do_no_harm(bytes: Vec<u8>) {
            let _ = Frame::read(&bytes);
            prop_assert!(!is_frame(&bytes) || serde_json::from_slice::<serde_json::Value>(&bytes).is_err());
        }
    }
}
