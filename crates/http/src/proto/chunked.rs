//! A decoder of the chunked transfer coding (RFC 9112, 7.1): it turns the coded bytes in a buffer
//! into the body, in place, as they arrive. Functions on bytes, no socket.
//!
//! The decoder is strict. It refuses each form that another reader on the way, such as a proxy,
//! could understand differently, since such differences are what request smuggling exploits: a bare
//! LF, a sign or a prefix before a size, blanks that no extension follows.
//!
//! The decoded body grows from `body_start`. The coded bytes lie after it and are moved left, over
//! the framing. Sizes, extensions and trailers are read byte by byte, because they are short; data
//! is moved in blocks. Extensions and trailers are checked, counted against a limit, and dropped.
//!
//! ```
//! use marmota_http::chunked::{Chunked, ChunkedError};
//!
//! // A body may arrive in any pieces; the state of the decoder is between them.
//! let mut decoder = Chunked::new(1024, 128);
//! let mut buffer = b"5\r\nhel".to_vec();
//! let mut at = 0;
//! assert_eq!(decoder.decode(&mut buffer, 0, &mut at), Ok(false));
//! buffer.truncate(decoder.decoded());
//! buffer.extend_from_slice(b"lo\r\n0\r\n\r\n");
//! at = decoder.decoded();
//! assert_eq!(decoder.decode(&mut buffer, 0, &mut at), Ok(true));
//! assert_eq!(&buffer[..decoder.decoded()], b"hello");
//!
//! // A size that is not hexadecimal is refused.
//! let refused = Chunked::new(1024, 128).decode(&mut b"-1\r\n".to_vec(), 0, &mut 0);
//! assert_eq!(refused, Err(ChunkedError::Size));
//! ```

use crate::proto::head::is_token;

/// The reason why a chunked body is refused. [`crate::BodyError`] is its form for handlers.
///
/// ```
/// use marmota_http::chunked::{Chunked, ChunkedError};
/// let error = |coded: &[u8], body_max| {
///     Chunked::new(body_max, 16).decode(&mut coded.to_vec(), 0, &mut 0).unwrap_err()
/// };
/// assert_eq!(error(b"x\r\n", 100), ChunkedError::Size);
/// assert_eq!(error(b"1\n", 100), ChunkedError::Size);
/// assert_eq!(error(b"1\r\nab", 100), ChunkedError::Line);
/// assert_eq!(error(b"ff\r\n", 100), ChunkedError::TooLarge);
/// assert_eq!(error(b"1;a=bcdefghijklmnopqrstuvwxyz\r\n", 100), ChunkedError::Overhead);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkedError {
    /// A chunk size that is not hexadecimal, or has more than ten digits.
    Size,
    /// A CR without LF, an LF without CR, another control character in the framing, or a malformed
    /// extension or trailer.
    Line,
    /// The body is longer than `body_max`. It is reported as soon as the size of a chunk is known,
    /// before its data arrives.
    TooLarge,
    /// The extensions and trailers are longer than `overhead_max`.
    Overhead,
}

/// The position of the decoder in the grammar of RFC 9112, 7.1: the state of an automaton that
/// takes one byte of framing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// In a size, with the number of digits so far.
    Size(u8),
    /// In blanks after a size, a name or a value, where a semicolon must follow.
    Blank(Before),
    /// After a semicolon, before the name of an extension.
    NameStart,
    /// In the name of an extension.
    Name,
    /// After the equals sign, before the value of an extension.
    ValueStart,
    /// In a value that is a token.
    Token,
    /// In a value in quotes.
    Quoted,
    /// After a backslash in quotes: any byte may follow.
    Escaped,
    /// After the closing quote of a value.
    ValueEnd,
    /// After the CR of a size line.
    SizeLf,
    /// In the data of a chunk, of which `left` bytes are missing.
    Data,
    /// After the last byte of data, before its CR.
    DataCr,
    /// After the CR that follows the data.
    DataLf,
    /// At the start of a line after the last chunk: a trailer, or the empty line that ends the
    /// body.
    Trailer,
    /// In the name of a trailer.
    TrailerName,
    /// In the value of a trailer.
    TrailerValue,
    /// After the CR of a trailer line.
    TrailerLf,
    /// After the CR of the empty line.
    EndLf,
}

/// The part of a chunk line after which blanks stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// A size or a value: only a semicolon can follow.
    Semicolon,
    /// A name: an equals sign can follow too.
    Equals,
}

/// A decoder of one chunked body. It holds no bytes, only its position and counters.
///
/// There are two ways to use it. [`Chunked::decode`] decodes in place and keeps the whole body in
/// one buffer, for bodies that are read before the handler runs. The crate's own streaming of
/// request bodies copies the data to another buffer as far as that has room.
///
/// ```
/// use marmota_http::chunked::Chunked;
/// let mut decoder = Chunked::new(64 * 1024, 4 * 1024);
/// let mut buffer = b"2\r\nok\r\n0\r\nX-Trailer: 1\r\n\r\n".to_vec();
/// assert_eq!(decoder.decode(&mut buffer, 0, &mut 0), Ok(true));
/// assert_eq!(decoder.decoded(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Chunked {
    /// The position in the grammar.
    stage: Stage,
    /// The bytes of the current chunk's data that have not arrived; while in a size, its value so
    /// far.
    left: usize,
    /// The bytes of body decoded so far.
    decoded: usize,
    /// The bytes of extensions and trailers so far.
    overhead: usize,
    /// The maximum of `decoded`.
    body_max: usize,
    /// The maximum of `overhead`.
    overhead_max: usize,
}

/// The digits of a chunk size: 2^40 bytes are far above each limit and far below an overflow.
const SIZE_DIGITS_MAX: u8 = 10;

impl Chunked {
    /// Returns a decoder that accepts a body of up to `body_max` bytes, and up to `overhead_max`
    /// bytes of extensions and trailers in total. Neither has a default: a server passes
    /// [`Limits::body_bytes_max`](crate::Limits::body_bytes_max).
    ///
    /// ```
    /// use marmota_http::chunked::{Chunked, ChunkedError};
    /// let mut decoder = Chunked::new(4, 0);
    /// let refused = decoder.decode(&mut b"5\r\nhello".to_vec(), 0, &mut 0);
    /// assert_eq!(refused, Err(ChunkedError::TooLarge));
    /// ```
    pub fn new(body_max: usize, overhead_max: usize) -> Self {
        Self { stage: Stage::Size(0), left: 0, decoded: 0, overhead: 0, body_max, overhead_max }
    }

    /// Returns the number of bytes of body decoded so far. They lie at the `body_start` that was
    /// passed to [`Chunked::decode`].
    ///
    /// ```
    /// use marmota_http::chunked::Chunked;
    /// let mut decoder = Chunked::new(100, 100);
    /// // The first chunk has arrived, the last has not.
    /// assert_eq!(decoder.decode(&mut b"3\r\nabc\r\n".to_vec(), 0, &mut 0), Ok(false));
    /// assert_eq!(decoder.decoded(), 3);
    /// ```
    pub fn decoded(&self) -> usize {
        self.decoded
    }

    /// Decodes the coded bytes from `*at` to the end of `buffer` and moves `*at` after the bytes
    /// that are used. Returns true at the end of the body: `*at` then points to the first byte that
    /// follows it, such as the next pipelined request. Otherwise all bytes are used.
    ///
    /// `body_start` must be the same in all calls. The caller may cut the buffer back to
    /// `body_start + decoded()` between calls.
    ///
    /// ```
    /// use marmota_http::chunked::Chunked;
    /// let mut buffer = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nnext".to_vec();
    /// let (mut decoder, mut at) = (Chunked::new(100, 100), 0);
    /// assert_eq!(decoder.decode(&mut buffer, 0, &mut at), Ok(true));
    /// assert_eq!(&buffer[..decoder.decoded()], b"abcde");
    /// assert_eq!(&buffer[at..], b"next");
    /// ```
    ///
    /// # Errors
    /// The first violation. The decoder must not be used after it.
    pub fn decode(
        &mut self,
        buffer: &mut [u8],
        body_start: usize,
        at: &mut usize,
    ) -> Result<bool, ChunkedError> {
        while *at < buffer.len() {
            if self.stage == Stage::Data {
                let moved = self.left.min(buffer.len() - *at);
                buffer.copy_within(*at..*at + moved, body_start + self.decoded);
                self.decoded += moved;
                self.left -= moved;
                *at += moved;
                if self.left == 0 {
                    self.stage = Stage::DataCr;
                }
                continue;
            }
            let byte = buffer[*at];
            *at += 1;
            if self.framing(byte)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Decodes like [`decode`](Self::decode), but from the front of `coded` to the end of `out`,
    /// and at most `room` bytes of body. Returns the number of coded bytes used, and whether the
    /// body has ended. Coded bytes that are not used stay with the caller: the client is held back
    /// by them.
    pub(crate) fn decode_to(
        &mut self,
        coded: &[u8],
        out: &mut Vec<u8>,
        mut room: usize,
    ) -> Result<(usize, bool), ChunkedError> {
        let mut at = 0;
        while at < coded.len() {
            if self.stage == Stage::Data {
                let moved = self.left.min(coded.len() - at).min(room);
                if moved == 0 {
                    break;
                }
                out.extend_from_slice(&coded[at..at + moved]);
                self.decoded += moved;
                self.left -= moved;
                room -= moved;
                at += moved;
                if self.left == 0 {
                    self.stage = Stage::DataCr;
                }
                continue;
            }
            at += 1;
            if self.framing(coded[at - 1])? {
                return Ok((at, true));
            }
        }
        Ok((at, false))
    }

    /// Takes one byte of framing. Returns true if it was the last byte of the body.
    fn framing(&mut self, byte: u8) -> Result<bool, ChunkedError> {
        self.stage = match (self.stage, byte) {
            (Stage::Size(digits), _) => self.size(digits, byte)?,
            (Stage::SizeLf, b'\n') if self.left == 0 => Stage::Trailer,
            (Stage::SizeLf, b'\n') => Stage::Data,
            (Stage::DataCr, b'\r') => Stage::DataLf,
            (Stage::DataLf, b'\n') => Stage::Size(0),
            (Stage::Trailer, b'\r') => Stage::EndLf,
            (Stage::TrailerValue, b'\r') => Stage::TrailerLf,
            (Stage::Trailer | Stage::TrailerName, _) if is_token(&[byte]) => {
                self.spend(byte, Stage::TrailerName)?
            }
            (Stage::TrailerName, b':') | (Stage::TrailerValue, _) => {
                self.spend(byte, Stage::TrailerValue)?
            }
            (Stage::TrailerLf, b'\n') => Stage::Trailer,
            (Stage::EndLf, b'\n') => return Ok(true),
            (stage, _) => self.extension(stage, byte)?,
        };
        Ok(false)
    }

    /// Takes one byte of a chunk's extensions (RFC 9112, 7.1.1): blanks, a semicolon, a name, and
    /// perhaps a value. The server knows no extension; they are checked because a reader that skips
    /// them carelessly can be misled about where a line ends.
    #[cold]
    fn extension(&mut self, stage: Stage, byte: u8) -> Result<Stage, ChunkedError> {
        let next = match (stage, byte) {
            (Stage::Name | Stage::Token | Stage::ValueEnd, b'\r') => return Ok(Stage::SizeLf),
            (Stage::Name | Stage::Token | Stage::ValueEnd | Stage::Blank(_), b';') => {
                Stage::NameStart
            }
            (Stage::Name | Stage::Blank(Before::Equals), b'=') => Stage::ValueStart,
            (Stage::Name, b' ' | b'\t') => Stage::Blank(Before::Equals),
            (Stage::Token | Stage::ValueEnd, b' ' | b'\t') => Stage::Blank(Before::Semicolon),
            (Stage::Blank(_) | Stage::NameStart | Stage::ValueStart, b' ' | b'\t') => stage,
            (Stage::NameStart | Stage::Name, _) if is_token(&[byte]) => Stage::Name,
            (Stage::ValueStart | Stage::Token, _) if is_token(&[byte]) => Stage::Token,
            (Stage::ValueStart, b'"') => Stage::Quoted,
            (Stage::Quoted, b'"') => Stage::ValueEnd,
            (Stage::Quoted, b'\\') => Stage::Escaped,
            (Stage::Quoted | Stage::Escaped, _) => Stage::Quoted,
            _ => return Err(ChunkedError::Line),
        };
        self.spend(byte, next)
    }

    /// Takes one byte of a size line. The limit on the body is checked at each digit.
    fn size(&mut self, digits: u8, byte: u8) -> Result<Stage, ChunkedError> {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b'\r' if digits > 0 => return Ok(Stage::SizeLf),
            b';' if digits > 0 => return self.spend(byte, Stage::NameStart),
            b' ' | b'\t' if digits > 0 => {
                return self.spend(byte, Stage::Blank(Before::Semicolon));
            }
            _ => return Err(ChunkedError::Size),
        };
        if digits == SIZE_DIGITS_MAX {
            return Err(ChunkedError::Size);
        }
        self.left = if digits == 0 { 0 } else { self.left << 4 } | usize::from(digit);
        if self.left > self.body_max - self.decoded {
            return Err(ChunkedError::TooLarge);
        }
        Ok(Stage::Size(digits + 1))
    }

    /// Counts a byte that is neither body nor bare framing, and returns `next`.
    fn spend(&mut self, byte: u8, next: Stage) -> Result<Stage, ChunkedError> {
        if (byte < 0x20 && byte != b'\t') || byte == 0x7f {
            return Err(ChunkedError::Line);
        }
        self.overhead += 1;
        if self.overhead > self.overhead_max { Err(ChunkedError::Overhead) } else { Ok(next) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The body and what follows it.
    type Decoded = (Vec<u8>, Vec<u8>);

    fn decode(coded: &[u8]) -> Result<Option<Decoded>, ChunkedError> {
        let mut buffer = coded.to_vec();
        let (mut decoder, mut at) = (Chunked::new(64, 32), 0);
        let done = decoder.decode(&mut buffer, 0, &mut at)?;
        Ok(done.then(|| (buffer[..decoder.decoded()].to_vec(), buffer[at..].to_vec())))
    }

    #[test]
    fn good_bodies() {
        let whole = |coded: &[u8]| decode(coded).unwrap().unwrap();
        assert_eq!(whole(b"0\r\n\r\n"), (vec![], vec![]));
        assert_eq!(
            whole(b"003;a=b\r\nabc\r\n0\r\nX: y\r\nZ: \r\n\r\nG"),
            (b"abc".to_vec(), b"G".to_vec())
        );
        assert_eq!(whole(b"A;a\r\n0123456789\r\n00\r\n\r\n").0, b"0123456789");
        assert_eq!(whole(b"1 ; a\t= \"\\\" ;\" ;b\r\nx\r\n0;c=d\r\n\r\n").0, b"x");
        assert_eq!(decode(b"3\r\nab"), Ok(None));
    }

    #[test]
    fn bad_bodies() {
        for (coded, error) in [
            (&b"\r\n"[..], ChunkedError::Size),
            (b"g\r\n", ChunkedError::Size),
            (b"-1\r\n", ChunkedError::Size),
            (b"0x1\r\n", ChunkedError::Size),
            (b"1\na\r\n", ChunkedError::Size),
            (b"00000000000\r\n", ChunkedError::Size),
            (b"ffffffffff\r\n", ChunkedError::TooLarge),
            (b"41\r\n", ChunkedError::TooLarge),
            (b"1;\n", ChunkedError::Line),
            (b"1\r\nab\r\n", ChunkedError::Line),
            (b"1\r\na\n", ChunkedError::Line),
            (b"0\r\nX: y\n", ChunkedError::Line),
            (b"0\r\n folded\r\n", ChunkedError::Line),
            (b"1 \r\n", ChunkedError::Line),
            (b"1\t\r\n", ChunkedError::Line),
            (b"1 junk\r\n", ChunkedError::Line),
            (b"1;\r\n", ChunkedError::Line),
            (b"1;=b\r\n", ChunkedError::Line),
            (b"1;a=\r\n", ChunkedError::Line),
            (b"1;a b\r\n", ChunkedError::Line),
            (b"1;a=b c\r\n", ChunkedError::Line),
            (b"1;a \r\n", ChunkedError::Line),
            (b"1;a=\"b\r\n", ChunkedError::Line),
            (b"1;a=\"b\"c\r\n", ChunkedError::Line),
            (b"0\r\nABC\r\n", ChunkedError::Line),
            (b"0\r\nA B: c\r\n", ChunkedError::Line),
            (b"0\r\nA : c\r\n", ChunkedError::Line),
            (b"1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", ChunkedError::Overhead),
            (b"0\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", ChunkedError::Overhead),
        ] {
            assert_eq!(decode(coded), Err(error), "{}", coded.escape_ascii());
        }
    }

    proptest! {
        /// Any chunking, coming in any pieces, gives the same body and the same rest.
        #[test]
        fn pieces_give_the_whole(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 0..8),
                                 steps in proptest::collection::vec(1usize..9, 1..200)) {
            let mut coded = Vec::new();
            for chunk in &chunks {
                coded.extend_from_slice(format!("{:x};e=1\r\n", chunk.len()).as_bytes());
                coded.extend_from_slice(chunk);
                coded.extend_from_slice(b"\r\n");
            }
            coded.extend_from_slice(b"0\r\nT: v\r\n\r\n");
            let body: Vec<u8> = chunks.concat();
            let (mut decoder, mut buffer, mut sent, mut done) = (Chunked::new(1000, 1000), b"head".to_vec(), 0, false);
            for step in steps.iter().cycle() {
                let next = (sent + step).min(coded.len());
                buffer.extend_from_slice(&coded[sent..next]);
                sent = next;
                let mut at = 4 + decoder.decoded();
                done = decoder.decode(&mut buffer, 4, &mut at).unwrap();
                buffer.truncate(4 + decoder.decoded());
                if sent == coded.len() { break; }
                prop_assert!(!done);
            }
            prop_assert!(done);
            prop_assert_eq!(&buffer[4..], &body[..]);
        }

        /// So it does where the body is taken away in pieces of any size.
        #[test]
        fn pieces_are_taken_away(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 0..8),
                                 steps in proptest::collection::vec((1usize..9, 1usize..9), 1..200)) {
            let mut coded = Vec::new();
            for chunk in &chunks {
                coded.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                coded.extend_from_slice(chunk);
                coded.extend_from_slice(b"\r\n");
            }
            coded.extend_from_slice(b"0\r\n\r\n");
            let end = coded.len();
            coded.extend_from_slice(b"GET");
            let (mut decoder, mut out, mut at, mut done) = (Chunked::new(1000, 1000), Vec::new(), 0, false);
            for (step, room) in steps.iter().cycle() {
                let before = out.len();
                let come = (at + step).min(coded.len());
                let (used, ended) = decoder.decode_to(&coded[at..come], &mut out, *room).unwrap();
                at += used;
                prop_assert!(out.len() - before <= *room);
                if ended { done = true; break; }
                prop_assert!(at < coded.len());
            }
            prop_assert!(done);
            prop_assert_eq!(at, end);
            prop_assert_eq!(out, chunks.concat());
        }
    }
}
