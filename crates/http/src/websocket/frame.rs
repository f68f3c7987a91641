//! The frames of RFC 6455, 5.2: headers and masks. It has no state and no socket.

/// Maximum bytes of a control frame's payload (RFC 6455, 5.5).
pub(super) const CONTROL_BYTES_MAX: usize = 125;

/// A violation of the protocol or of a limit by the client, with the code and reason of the Close
/// frame that reports it. The connection ends.
///
/// ```
/// use marmota_http::websocket::{Decoder, FrameError};
///
/// let unmasked = [0x81, 0x02, b'h', b'i'];
/// let error: FrameError = Decoder::new(1024, false).decode(&unmasked).expect_err("no mask");
/// assert_eq!(error.code, 1002);
/// assert_eq!(error.to_string(), "the frame is not masked (1002)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameError {
    /// 1002, 1007 or 1009 of RFC 6455, 7.4.1.
    pub code: u16,
    /// The violation, in English.
    pub reason: &'static str,
}

impl FrameError {
    /// A message is longer than allowed.
    pub(super) const TOO_LARGE: Self = Self { code: 1009, reason: "the message is too large" };
    /// A text is not UTF-8.
    pub(super) const TEXT: Self = Self { code: 1007, reason: "a text is not UTF-8" };

    /// Returns the error for a violation of the protocol.
    pub(super) const fn protocol(reason: &'static str) -> Self {
        Self { code: 1002, reason }
    }
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.reason, self.code)
    }
}

impl std::error::Error for FrameError {}

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    /// Returns the kind with this number; `None` for a reserved one.
    fn of(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    /// Returns the number of the kind.
    const fn number(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    /// Returns true for Close, Ping and Pong, which may come within a message.
    pub(super) const fn is_control(self) -> bool {
        self.number() & 8 != 0
    }
}

/// The sender of a frame: a client masks its frames, a server does not (RFC 6455, 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    Client,
    Server,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// This is the last frame of its message (FIN).
    pub(super) is_last: bool,
    /// The message is compressed (RSV1, RFC 7692, 6).
    pub(super) compressed: bool,
    /// The kind of the frame.
    pub(super) opcode: Opcode,
    /// The masking key; each frame of a client has one.
    pub(super) mask: Option<[u8; 4]>,
    /// The length of the payload, which follows the header.
    pub(super) payload_bytes: u64,
}

impl Header {
    /// Parses the header at the front of `input`, and returns it with its length; `None` while it
    /// is incomplete.
    ///
    /// # Errors
    /// The violation of the protocol.
    pub(super) fn parse(
        input: &[u8],
        sender: Sender,
    ) -> Result<Option<(Self, usize)>, &'static str> {
        let &[first, second, ref rest @ ..] = input else { return Ok(None) };
        if first & 0x30 != 0 {
            return Err("a reserved bit is set");
        }
        let Some(opcode) = Opcode::of(first & 0x0f) else {
            return Err("the opcode is unknown");
        };
        let is_last = first & 0x80 != 0;
        match (sender, second & 0x80 != 0) {
            (Sender::Client, false) => return Err("the frame is not masked"),
            (Sender::Server, true) => return Err("the frame is masked"),
            _ => {}
        }
        let (payload_bytes, rest) = match second & 0x7f {
            126 => match rest.split_first_chunk::<2>() {
                Some((bytes, rest)) => (u64::from(u16::from_be_bytes(*bytes)), rest),
                None => return Ok(None),
            },
            127 => match rest.split_first_chunk::<8>() {
                Some((bytes, rest)) => (u64::from_be_bytes(*bytes), rest),
                None => return Ok(None),
            },
            short => (u64::from(short), rest),
        };
        if payload_bytes > i64::MAX as u64 {
            return Err("the length has its highest bit set");
        }
        if opcode.is_control() && (!is_last || payload_bytes > CONTROL_BYTES_MAX as u64) {
            return Err("a control frame is fragmented or too long");
        }
        let (mask, rest) = match (sender, rest.split_first_chunk::<4>()) {
            (Sender::Server, _) => (None, rest),
            (Sender::Client, Some((&mask, rest))) => (Some(mask), rest),
            (Sender::Client, None) => return Ok(None),
        };
        let compressed = first & 0x40 != 0;
        let header = Self { is_last, compressed, opcode, mask, payload_bytes };
        Ok(Some((header, input.len() - rest.len())))
    }
}

/// Appends the header of a frame that is a whole message. Frames of a server have no mask.
pub(super) fn put_header(
    out: &mut Vec<u8>,
    opcode: Opcode,
    compressed: bool,
    payload_bytes: usize,
) {
    let first = 0x80 | u8::from(compressed) << 6 | opcode.number();
    match payload_bytes {
        0..=125 => out.extend_from_slice(&[first, payload_bytes as u8]),
        126..=0xffff => {
            out.extend_from_slice(&[first, 126]);
            out.extend_from_slice(&(payload_bytes as u16).to_be_bytes());
        }
        _ => {
            out.extend_from_slice(&[first, 127]);
            out.extend_from_slice(&(payload_bytes as u64).to_be_bytes());
        }
    }
}

/// Appends a frame that is a whole message.
pub(super) fn put_frame(out: &mut Vec<u8>, opcode: Opcode, compressed: bool, payload: &[u8]) {
    put_header(out, opcode, compressed, payload.len());
    out.extend_from_slice(payload);
}

/// Removes the mask from bytes of which the first is number `at` of its frame; eight at a time,
/// which compilers turn into vector instructions.
pub(super) fn unmask(bytes: &mut [u8], mask: [u8; 4], at: u64) {
    let mut mask = mask;
    mask.rotate_left((at % 4) as usize);
    let [a, b, c, d] = mask;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for eight in words {
        *eight = (u64::from_ne_bytes(*eight) ^ word).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_taken_whole_or_not_at_all() {
        for (bytes, expected) in [
            (&[0x81, 0x80, 1, 2, 3, 4, 9][..], Ok(Some((0, 6)))),
            (&[0x81, 0xfe, 0x12, 0x34, 1, 2, 3, 4], Ok(Some((0x1234, 8)))),
            (&[0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 5, 1, 2, 3, 4], Ok(Some((0x1_0000_0005, 14)))),
            (&[0x81], Ok(None)),
            (&[0x81, 0xfe, 0], Ok(None)),
            (&[0x81, 0x80, 1, 2, 3], Ok(None)),
            (&[0x81, 0x00], Err("the frame is not masked")),
            (&[0xa1, 0x80], Err("a reserved bit is set")),
            (&[0x83, 0x80], Err("the opcode is unknown")),
            (&[0x09, 0x80], Err("a control frame is fragmented or too long")),
            (&[0x89, 0xfe, 0, 126], Err("a control frame is fragmented or too long")),
            (&[0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0], Err("the length has its highest bit set")),
        ] {
            let parsed = Header::parse(bytes, Sender::Client);
            let short = parsed.map(|some| some.map(|(header, len)| (header.payload_bytes, len)));
            assert_eq!(short, expected, "{bytes:x?}");
        }
    }

    #[test]
    fn a_server_does_not_mask() {
        let parsed = Header::parse(&[0x82, 0x7e, 1, 0, 9], Sender::Server).unwrap();
        let (header, bytes) = parsed.unwrap();
        assert_eq!((header.mask, header.payload_bytes, bytes), (None, 256, 4));
        let masked = Header::parse(&[0x81, 0x80, 1, 2, 3, 4], Sender::Server);
        assert_eq!(masked, Err("the frame is masked"));
    }

    proptest::proptest! {
        #[test]
        fn a_mask_comes_off_in_pieces(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..100),
            mask in proptest::array::uniform4(proptest::num::u8::ANY),
            cut in 0_usize..100,
        ) {
            let expected: Vec<u8> =
                bytes.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]).collect();
            let mut got = bytes;
            let cut = cut.min(got.len());
            let (first, second) = got.split_at_mut(cut);
            unmask(first, mask, 0);
            unmask(second, mask, cut as u64);
            proptest::prop_assert_eq!(got, expected);
        }
    }
}
