//! The client's side of a WebSocket (RFC 6455), without a socket: the key of the handshake, and
//! frames with masks. [`super::Decoder::of_server`] decodes the server's frames.
//!
//! ```
//! use marmota_http::websocket::client::{ClientFrame, ClientKey};
//!
//! // Both are random in a program: the key for each connection, the mask for each frame.
//! let key = ClientKey::new(*b"the sample nonce");
//! assert_eq!(key.as_str(), "dGhlIHNhbXBsZSBub25jZQ==");
//! assert_eq!(key.accepted(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
//! let mut out = Vec::new();
//! ClientFrame::Text("Hello").put(&mut out, [0x37, 0xfa, 0x21, 0x3d]);
//! assert_eq!(out, [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::frame::{CONTROL_BYTES_MAX, Opcode, put_header, unmask};

/// The key of a client's handshake: `Sec-WebSocket-Key` (RFC 6455, 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientKey(String);

impl ClientKey {
    /// Creates the key of 16 random bytes, which are chosen anew for each connection.
    #[must_use]
    pub fn new(random: [u8; 16]) -> Self {
        Self(BASE64.encode(random))
    }

    /// Returns the header's value.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the value of `Sec-WebSocket-Accept` with which a server accepts this key.
    #[must_use]
    pub fn accepted(&self) -> String {
        super::accepted(self.0.as_bytes())
    }
}

/// A frame that a client sends: a whole message, or a control frame.
///
/// The payload of a control frame has at most 125 bytes; of a longer one only these are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientFrame<'a> {
    /// A text message.
    Text(&'a str),
    /// A binary message.
    Binary(&'a [u8]),
    /// Requests a Pong with the same bytes.
    Ping(&'a [u8]),
    /// Answers a Ping.
    Pong(&'a [u8]),
    /// The last frame of this side, with a code of RFC 6455, 7.4.1.
    Close(Option<u16>),
}

impl ClientFrame<'_> {
    /// Appends the frame. The mask must not be predictable for the program that chooses the payload
    /// (RFC 6455, 10.3): choose a random one for each frame.
    pub fn put(self, out: &mut Vec<u8>, mask: [u8; 4]) {
        let control = |payload: &'_ [u8]| payload.len().min(CONTROL_BYTES_MAX);
        match self {
            Self::Text(text) => put_masked(out, Opcode::Text, text.as_bytes(), mask),
            Self::Binary(bytes) => put_masked(out, Opcode::Binary, bytes, mask),
            Self::Ping(bytes) => put_masked(out, Opcode::Ping, &bytes[..control(bytes)], mask),
            Self::Pong(bytes) => put_masked(out, Opcode::Pong, &bytes[..control(bytes)], mask),
            Self::Close(None) => put_masked(out, Opcode::Close, &[], mask),
            Self::Close(Some(code)) => {
                put_masked(out, Opcode::Close, &code.to_be_bytes(), mask);
            }
        }
    }
}

fn put_masked(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], mask: [u8; 4]) {
    let head = out.len();
    put_header(out, opcode, false, payload.len());
    out[head + 1] |= 0x80;
    out.extend_from_slice(&mask);
    let start = out.len();
    out.extend_from_slice(payload);
    unmask(&mut out[start..], mask, 0);
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::websocket::decoder::{Decoder, Incoming};
    use crate::websocket::frame::FrameError;
    use crate::websocket::frame::put_frame;
    use crate::websocket::message::Message;

    /// What one side sends: messages in fragments, control frames between them.
    #[derive(Clone, Debug)]
    enum Sent {
        Text(String),
        Binary(Vec<u8>),
        Ping(Vec<u8>),
        Pong(Vec<u8>),
    }

    fn sent() -> impl Strategy<Value = Sent> {
        prop_oneof![
            any::<String>().prop_map(Sent::Text),
            vec(any::<u8>(), 0..70_000).prop_map(Sent::Binary),
            vec(any::<u8>(), 0..=CONTROL_BYTES_MAX).prop_map(Sent::Ping),
            vec(any::<u8>(), 0..=CONTROL_BYTES_MAX).prop_map(Sent::Pong),
        ]
    }

    impl Sent {
        fn incoming(&self) -> Incoming {
            match self {
                Self::Text(text) => Incoming::Message(Message::Text(text.clone())),
                Self::Binary(bytes) => Incoming::Message(Message::Binary(bytes.clone())),
                Self::Ping(bytes) => Incoming::Ping(bytes.clone()),
                Self::Pong(_) => Incoming::Pong,
            }
        }
    }

    /// Appends a message in two fragments with a Ping between them; `put` appends one frame.
    fn put_fragments(
        out: &mut Vec<u8>,
        (opcode, payload): (Opcode, &[u8]),
        at: usize,
        put: &mut impl FnMut(&mut Vec<u8>, Opcode, &[u8]),
    ) {
        let (first, last) = payload.split_at(at % (payload.len() + 1));
        let start = out.len();
        put(out, opcode, first);
        out[start] &= 0x7f;
        put(out, Opcode::Ping, b"between");
        put(out, Opcode::Continuation, last);
    }

    fn decoded(
        mut decoder: Decoder,
        bytes: &[u8],
        pieces: usize,
    ) -> Result<Vec<Incoming>, FrameError> {
        let (mut buffer, mut found) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(pieces) {
            buffer.extend_from_slice(piece);
            loop {
                let (used, incoming) = decoder.decode(&buffer)?;
                buffer.drain(..used);
                match incoming {
                    Some(incoming) => found.push(incoming),
                    None => break,
                }
            }
        }
        assert!(buffer.is_empty());
        Ok(found)
    }

    proptest! {
        #[test]
        fn a_server_reads_what_a_client_sends(
            all in vec((sent(), any::<[u8; 4]>()), 0..8),
            code in proptest::option::of(3000_u16..5000),
            pieces in 1_usize..5000,
        ) {
            let mut out = Vec::new();
            for (one, mask) in &all {
                match one {
                    Sent::Text(text) => ClientFrame::Text(text).put(&mut out, *mask),
                    Sent::Binary(bytes) => ClientFrame::Binary(bytes).put(&mut out, *mask),
                    Sent::Ping(bytes) => ClientFrame::Ping(bytes).put(&mut out, *mask),
                    Sent::Pong(bytes) => ClientFrame::Pong(bytes).put(&mut out, *mask),
                }
            }
            ClientFrame::Close(code).put(&mut out, [1, 2, 3, 4]);
            let mut expected: Vec<_> = all.iter().map(|(one, _)| one.incoming()).collect();
            expected.push(Incoming::Close(code.map(|code| (code, String::new()))));
            let found = decoded(Decoder::new(1 << 20, false), &out, pieces);
            prop_assert_eq!(found, Ok(expected));
            // A client refuses masked frames.
            let fault = decoded(Decoder::of_server(1 << 20), &out, pieces).unwrap_err();
            prop_assert_eq!(fault.code, 1002);
        }

        #[test]
        fn a_client_reads_what_a_server_sends(
            all in vec(sent(), 1..8),
            pieces in 1_usize..5000,
        ) {
            let mut out = Vec::new();
            for one in &all {
                let (opcode, payload) = match one {
                    Sent::Text(text) => (Opcode::Text, text.as_bytes()),
                    Sent::Binary(bytes) => (Opcode::Binary, &bytes[..]),
                    Sent::Ping(bytes) => (Opcode::Ping, &bytes[..]),
                    Sent::Pong(bytes) => (Opcode::Pong, &bytes[..]),
                };
                put_frame(&mut out, opcode, false, payload);
            }
            put_frame(&mut out, Opcode::Close, false, b"\x03\xe8bye");
            let mut expected: Vec<_> = all.iter().map(Sent::incoming).collect();
            expected.push(Incoming::Close(Some((1000, "bye".to_owned()))));
            let found = decoded(Decoder::of_server(1 << 20), &out, pieces);
            prop_assert_eq!(found, Ok(expected));
            // A server refuses frames without masks.
            let fault = decoded(Decoder::new(1 << 20, false), &out, pieces).unwrap_err();
            prop_assert_eq!(fault.code, 1002);
        }

        #[test]
        fn fragments_are_put_together_by_both(
            bytes in vec(any::<u8>(), 0..2000),
            mask: [u8; 4],
            at: usize,
            pieces in 1_usize..500,
        ) {
            let expected = vec![
                Incoming::Ping(b"between".to_vec()),
                Incoming::Message(Message::Binary(bytes.clone())),
            ];
            let mut masked = Vec::new();
            put_fragments(&mut masked, (Opcode::Binary, &bytes), at, &mut |out, opcode, payload| {
                put_masked(out, opcode, payload, mask);
            });
            let found = decoded(Decoder::new(4096, false), &masked, pieces);
            prop_assert_eq!(found, Ok(expected.clone()));
            let mut plain = Vec::new();
            put_fragments(&mut plain, (Opcode::Binary, &bytes), at, &mut |out, opcode, payload| {
                put_frame(out, opcode, false, payload);
            });
            prop_assert_eq!(decoded(Decoder::of_server(4096), &plain, pieces), Ok(expected));
        }
    }

    #[test]
    fn control_frames_are_short() {
        let mut out = Vec::new();
        ClientFrame::Ping(&[7; 200]).put(&mut out, [0; 4]);
        let found = decoded(Decoder::new(10, false), &out, 9).unwrap();
        assert_eq!(found, [Incoming::Ping(vec![7; CONTROL_BYTES_MAX])]);
    }
}
