//! From bytes to messages: frames are put together, masks removed, texts checked. It owns no
//! socket, and returns the same however the bytes are divided.
//!
//! A state machine of two levels: [`Frame`] is the frame that is being received, [`Partial`] the
//! message, which may have several frames. Control frames may come between them (RFC 6455, 5.4), so
//! they have a buffer of their own.

use super::frame::{FrameError, Header, Opcode, Sender, unmask};
use super::message::Message;

/// Maximum bytes that are reserved for a frame when its header has arrived: an announced payload
/// may never come.
const READY_BYTES_MAX: u64 = 32 * 1024;

/// A complete item from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A message.
    Message(Message),
    /// A Ping. It is answered with a Pong of the same bytes.
    Ping(Vec<u8>),
    /// An answer to a Ping, or an unsolicited sign of life.
    Pong,
    /// The client's last frame, with its code and reason if it gave them.
    Close(Option<(u16, String)>),
}

/// Decodes the frames of a client into messages.
///
/// ```
/// use marmota_http::Message;
/// use marmota_http::websocket::{Decoder, Incoming};
///
/// // A text of two bytes, with the mask 0.
/// let bytes = [0x81, 0x82, 0, 0, 0, 0, b'h', b'i'];
/// let mut decoder = Decoder::new(1024, false);
/// let (used, incoming) = decoder.decode(&bytes)?;
/// assert_eq!(used, bytes.len());
/// assert_eq!(incoming, Some(Incoming::Message(Message::Text("hi".to_owned()))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    sender: Sender,
    message_bytes_max: usize,
    /// Messages may be compressed.
    compression: bool,
    frame: Option<Frame>,
    message: Option<Partial>,
    /// The payload of the current control frame.
    control: Vec<u8>,
}

/// A frame that is incomplete.
#[derive(Clone, Copy, Debug)]
struct Frame {
    header: Header,
    /// Bytes of the payload that have arrived.
    taken: u64,
}

/// A message that is incomplete.
#[derive(Debug)]
struct Partial {
    is_text: bool,
    compressed: bool,
    bytes: Vec<u8>,
    /// The bytes before this position are whole characters.
    checked: usize,
}

impl Decoder {
    /// Returns a decoder of messages up to this length, after decompression. `compression` is true
    /// if permessage-deflate was agreed on, without contexts that outlive a message.
    pub fn new(message_bytes_max: usize, compression: bool) -> Self {
        Self {
            sender: Sender::Client,
            message_bytes_max,
            compression,
            frame: None,
            message: None,
            control: Vec::new(),
        }
    }

    /// Creates a decoder for a client: of a server's frames, which are not masked. Messages up to
    /// this length are taken, without compression.
    ///
    /// ```
    /// use marmota_http::websocket::{Decoder, Incoming};
    /// let mut decoder = Decoder::of_server(1024);
    /// let (used, incoming) = decoder.decode(b"\x81\x02hi\x81").unwrap();
    /// assert_eq!((used, incoming), (4, Some(Incoming::Message("hi".into()))));
    /// ```
    pub fn of_server(message_bytes_max: usize) -> Self {
        Self { sender: Sender::Server, ..Self::new(message_bytes_max, false) }
    }

    /// Takes bytes from the front of `input` until an item is complete. Returns the number of bytes
    /// taken, and the item; `None` if more bytes are needed. The caller removes the bytes from its
    /// buffer.
    ///
    /// # Errors
    /// A [`FrameError`], after which nothing more can be decoded.
    pub fn decode(&mut self, input: &[u8]) -> Result<(usize, Option<Incoming>), FrameError> {
        let mut used = 0;
        loop {
            let mut frame = match self.frame.take() {
                Some(frame) => frame,
                None => {
                    match Header::parse(&input[used..], self.sender)
                        .map_err(FrameError::protocol)?
                    {
                        Some((header, length)) => {
                            used += length;
                            self.begin(&header)?;
                            Frame { header, taken: 0 }
                        }
                        None => return Ok((used, None)),
                    }
                }
            };
            let left = frame.header.payload_bytes - frame.taken;
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(input.len() - used);
            self.take(&frame, &input[used..used + count])?;
            used += count;
            frame.taken += count as u64;
            if frame.taken < frame.header.payload_bytes {
                self.frame = Some(frame);
                return Ok((used, None));
            }
            if let Some(incoming) = self.end(&frame.header)? {
                return Ok((used, Some(incoming)));
            }
        }
    }

    /// Checks a frame's header against the message so far, and against the limits: an announced
    /// length is refused before it arrives.
    fn begin(&mut self, header: &Header) -> Result<(), FrameError> {
        if header.compressed
            && (!self.compression || !matches!(header.opcode, Opcode::Text | Opcode::Binary))
        {
            return Err(FrameError::protocol("a reserved bit is set"));
        }
        if header.opcode.is_control() {
            self.control.clear();
            return Ok(());
        }
        match (header.opcode, &self.message) {
            (Opcode::Continuation, None) => {
                return Err(FrameError::protocol("a continuation without a message"));
            }
            (Opcode::Continuation, Some(_)) => {}
            (_, Some(_)) => return Err(FrameError::protocol("a message inside another message")),
            (opcode, None) => {
                self.message = Some(Partial {
                    is_text: opcode == Opcode::Text,
                    compressed: header.compressed,
                    bytes: Vec::new(),
                    checked: 0,
                });
            }
        }
        let before = self.message.as_ref().map_or(0, |message| message.bytes.len());
        // An announced length is refused before it arrives.
        if header.payload_bytes > self.message_bytes_max.saturating_sub(before) as u64 {
            return Err(FrameError::TOO_LARGE);
        }
        Ok(())
    }

    /// Takes a piece of a frame's payload, and removes its mask.
    fn take(&mut self, frame: &Frame, piece: &[u8]) -> Result<(), FrameError> {
        let header = &frame.header;
        let bytes = match &mut self.message {
            Some(message) if !header.opcode.is_control() => &mut message.bytes,
            _ => &mut self.control,
        };
        let start = bytes.len();
        bytes.reserve((header.payload_bytes - frame.taken).min(READY_BYTES_MAX) as usize);
        bytes.extend_from_slice(piece);
        if let Some(mask) = header.mask {
            unmask(&mut bytes[start..], mask, frame.taken);
        }
        let whole = header.is_last && frame.taken + piece.len() as u64 == header.payload_bytes;
        match &mut self.message {
            // A long text is checked while it arrives, and refused at the first wrong byte.
            Some(message) if !whole && !header.opcode.is_control() => message.check(),
            _ => Ok(()),
        }
    }

    /// Returns the item that a complete frame completes, if any.
    fn end(&mut self, header: &Header) -> Result<Option<Incoming>, FrameError> {
        Ok(Some(match header.opcode {
            Opcode::Ping => Incoming::Ping(std::mem::take(&mut self.control)),
            Opcode::Pong => Incoming::Pong,
            Opcode::Close => Incoming::Close(close_of(&self.control)?),
            _ if !header.is_last => return Ok(None),
            _ => match self.message.take() {
                Some(message) => Incoming::Message(message.finish(self.message_bytes_max)?),
                None => return Ok(None),
            },
        }))
    }
}

impl Partial {
    /// Checks the text so far; an incomplete character at its end is checked later.
    fn check(&mut self) -> Result<(), FrameError> {
        if !self.is_text || self.compressed {
            return Ok(());
        }
        match std::str::from_utf8(&self.bytes[self.checked..]) {
            Ok(_) => self.checked = self.bytes.len(),
            Err(error) if error.error_len().is_none() => self.checked += error.valid_up_to(),
            Err(_) => return Err(FrameError::TEXT),
        }
        Ok(())
    }

    /// Returns the message: decompressed, and checked if it is a text.
    fn finish(self, message_bytes_max: usize) -> Result<Message, FrameError> {
        let bytes = match self.compressed {
            true => inflate(&self.bytes, message_bytes_max)?,
            false => self.bytes,
        };
        match self.is_text {
            true => String::from_utf8(bytes).map(Message::Text).map_err(|_| FrameError::TEXT),
            false => Ok(Message::Binary(bytes)),
        }
    }
}

/// Decompresses a message.
#[cfg(feature = "compression")]
fn inflate(coded: &[u8], bytes_max: usize) -> Result<Vec<u8>, FrameError> {
    super::deflate::inflate(coded, bytes_max)
}

/// Fails. It is never called: without the feature no compression is agreed on.
#[cfg(not(feature = "compression"))]
fn inflate(_: &[u8], _: usize) -> Result<Vec<u8>, FrameError> {
    Err(FrameError::protocol("a message is compressed"))
}

/// Returns the code and reason in the payload of a Close (RFC 6455, 5.5.1 and 7.4).
fn close_of(payload: &[u8]) -> Result<Option<(u16, String)>, FrameError> {
    match payload.split_first_chunk::<2>() {
        None if payload.is_empty() => Ok(None),
        None => Err(FrameError::protocol("the close code has one byte")),
        Some((code, reason)) => {
            let code = u16::from_be_bytes(*code);
            if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
                return Err(FrameError::protocol("the close code is not valid"));
            }
            let reason = std::str::from_utf8(reason).map_err(|_| FrameError::TEXT)?;
            Ok(Some((code, reason.to_owned())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client's frame.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first];
        match payload.len() {
            0..=125 => bytes.push(0x80 | payload.len() as u8),
            _ => {
                bytes.push(0x80 | 126);
                bytes.extend_from_slice(&(payload.len() as u16).to_be_bytes());
            }
        }
        let mask = [0x11, 0x7f, 0, 0xe3];
        bytes.extend_from_slice(&mask);
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes
    }

    fn all(frames: &[u8], step: usize) -> Result<Vec<Incoming>, FrameError> {
        let mut decoder = Decoder::new(200, false);
        let (mut buffer, mut found) = (Vec::new(), Vec::new());
        for piece in frames.chunks(step) {
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
        Ok(found)
    }

    #[test]
    fn messages_come_whole_with_control_frames_between() {
        let frames = [
            frame(0x01, "Grü".as_bytes()),
            frame(0x89, b"!"),
            frame(0x00, b""),
            frame(0x80, "ße".as_bytes()),
            frame(0x82, &[7; 200]),
            frame(0x8a, b""),
            frame(0x88, b"\x03\xe8bye"),
        ]
        .concat();
        let expected = vec![
            Incoming::Ping(b"!".to_vec()),
            Incoming::Message(Message::Text("Grüße".to_owned())),
            Incoming::Message(Message::Binary(vec![7; 200])),
            Incoming::Pong,
            Incoming::Close(Some((1000, "bye".to_owned()))),
        ];
        for step in [1, 2, 3, 7, 1000] {
            assert_eq!(all(&frames, step), Ok(expected.clone()), "{step}");
        }
    }

    #[test]
    fn what_is_wrong_has_its_code() {
        for (frames, code) in [
            (frame(0x80, b"a"), 1002),
            ([frame(0x01, b"a"), frame(0x81, b"b")].concat(), 1002),
            (frame(0xc1, b"a"), 1002),
            (frame(0x81, b"\xff"), 1007),
            (frame(0x01, b"\xed\xa0\x80"), 1007),
            ([frame(0x01, b"\xc3"), frame(0x80, b"")].concat(), 1007),
            (frame(0x82, &[0; 201]), 1009),
            ([frame(0x02, &[0; 150]), frame(0x80, &[0; 51])].concat(), 1009),
            (frame(0x88, b"\x03"), 1002),
            (frame(0x88, b"\x03\xed"), 1002),
            (frame(0x88, b"\x03\xe8\xff"), 1007),
        ] {
            for step in [1, 1000] {
                let fault = all(&frames, step).unwrap_err();
                assert_eq!(fault.code, code, "{} {fault:?}", frames.escape_ascii());
            }
        }
    }
}
