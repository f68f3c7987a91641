//! Newline-delimited JSON: its media types, detecting it in requests, and splitting lines.
//!
//! The format is that of <https://github.com/ndjson/ndjson-spec>: one JSON text per line, separated
//! by a newline. A carriage return before the newline is white space of the JSON text, and the last
//! line may lack its newline.
//!
//! [`Lines`] does not own the bytes. The caller appends what has arrived to a buffer, takes the
//! complete lines as ranges of it, and removes them with [`Lines::cut`] when they are used. A line
//! that arrives in many pieces is scanned once.

use marmota_http::Request;

/// The media type of responses.
pub(crate) const NDJSON: &str = "application/x-ndjson";

/// The accepted media types.
const NAMES: [&str; 4] =
    [NDJSON, "application/ndjson", "application/jsonl", "application/x-jsonlines"];

/// Returns true if a media type, without parameters, is one of those for lines. Case is ignored.
pub(crate) fn is_name(media_type: &str) -> bool {
    NAMES.iter().any(|name| name.eq_ignore_ascii_case(media_type))
}

/// Returns true if the body consists of lines, by its `Content-Type`. Parameters of the type are
/// ignored.
pub(crate) fn is_sent(request: &Request) -> bool {
    let kind = request.header_text("content-type").unwrap_or_default();
    is_name(kind.split(';').next().unwrap_or_default().trim())
}

/// A line of a body, without its newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The offset of its first byte in the buffer.
    pub(crate) start: usize,
    /// The offset after its last byte.
    pub(crate) end: usize,
    /// From 1.
    pub(crate) number: u64,
}

/// Splits bytes that arrive in pieces into lines.
#[derive(Debug)]
pub(crate) struct Lines {
    /// The maximum length of a line, in bytes.
    bytes_max: usize,
    /// The offset of the first byte that is not part of a returned line.
    at: usize,
    /// The offset up to which no newline was found.
    scanned: usize,
    /// The number of lines so far.
    count: u64,
}

/// The error for a line that is too long, with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong(pub(crate) u64);

impl Lines {
    /// Creates a splitter for an empty buffer, with the maximum length of a line in bytes.
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, at: 0, scanned: 0, count: 0 }
    }

    /// Returns the next non-empty line of the buffer, or `None` if it is incomplete; `ended` is
    /// true when no more bytes follow. Lines of white space are counted, but not returned.
    ///
    /// # Errors
    /// [`TooLong`], even if the line is incomplete: the buffer does not grow beyond the limit. A
    /// repeated call returns the same error.
    pub(crate) fn next(&mut self, bytes: &[u8], ended: bool) -> Result<Option<Line>, TooLong> {
        loop {
            let start = self.at;
            let found = bytes[self.scanned..].iter().position(|&byte| byte == b'\n');
            let end = match found {
                Some(offset) => self.scanned + offset,
                None => bytes.len(),
            };
            if end - start > self.bytes_max {
                return Err(TooLong(self.count + 1));
            }
            if found.is_none() && (!ended || start == end) {
                self.scanned = end;
                return Ok(None);
            }
            self.at = bytes.len().min(end + 1);
            self.scanned = self.at;
            self.count += 1;
            if !bytes[start..end].trim_ascii().is_empty() {
                return Ok(Some(Line { start, end, number: self.count }));
            }
        }
    }

    /// Returns the size of the returned lines, and of empty ones between them.
    pub(crate) const fn taken(&self) -> usize {
        self.at
    }

    /// Removes the bytes of the returned lines. Ranges of lines that were returned before are
    /// invalid then.
    pub(crate) fn cut(&mut self, bytes: &mut Vec<u8>) {
        bytes.drain(..self.at);
        self.scanned -= self.at;
        self.at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &[u8], steps: &[usize], bytes_max: usize) -> Result<Vec<(u64, Vec<u8>)>, TooLong> {
        let (mut lines, mut bytes, mut found, mut sent) =
            (Lines::new(bytes_max), Vec::new(), Vec::new(), 0);
        for step in steps.iter().cycle() {
            let next = (sent + step).min(text.len());
            bytes.extend_from_slice(&text[sent..next]);
            sent = next;
            while let Some(line) = lines.next(&bytes, sent == text.len())? {
                found.push((line.number, bytes[line.start..line.end].to_vec()));
                if step % 2 == 0 {
                    lines.cut(&mut bytes);
                }
            }
            if sent == text.len() {
                break;
            }
        }
        Ok(found)
    }

    #[test]
    fn lines_are_counted_as_an_editor_does() {
        let found = all(b"a\r\n\n  \nb\nc", &[3], 4).unwrap();
        let wanted = [(1, &b"a\r"[..]), (4, b"b"), (5, b"c")];
        assert_eq!(found, wanted.map(|(number, line)| (number, line.to_vec())));
        assert_eq!(all(b"a\nabcde\n", &[1], 4), Err(TooLong(2)));
        assert_eq!(all(b"abcde", &[9], 4), Err(TooLong(1)));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[ab \n]{0,60}", steps in proptest::collection::vec(1usize..9, 1..9)) {
            let wanted: Vec<(u64, Vec<u8>)> = (1..)
                .zip(text.split('\n'))
                .filter(|(_, line)| !line.trim().is_empty())
                .map(|(number, line)| (number, line.as_bytes().to_vec()))
                .collect();
            prop_assert_eq!(all(text.as_bytes(), &steps, 100).unwrap(), wanted);
        }
    }
}
