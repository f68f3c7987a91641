//! The parts of a `multipart/form-data` body (RFC 7578, RFC 2046) out of bytes, in whatever
//! pieces they come. It owns no socket and keeps nothing: what is not used yet comes again.

use memchr::memmem;

/// Bytes of a part's head, and of what stands before the first part.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// The longest boundary that RFC 2046 allows.
const BOUNDARY_BYTES_MAX: usize = 70;

/// What a part says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartHead {
    /// The field's name.
    pub name: String,
    /// What the client calls the file, without folders; `None` where it is none.
    pub file_name: Option<String>,
    /// The media type, empty when it is not said.
    pub content_type: String,
}

/// What stands at the front of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A part begins.
    Head(PartHead),
    /// Some of a part's bytes, as they are.
    Data(&'a [u8]),
    /// The part has ended.
    PartEnd,
    /// All parts have ended; what follows means nothing.
    End,
    /// More bytes are needed.
    More,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first delimiter; so many bytes were passed over.
    Preamble(usize),
    /// Behind a delimiter.
    Delimited,
    Head,
    Data,
    End,
}

/// Finds the parts.
#[derive(Debug)]
pub struct Parser {
    /// Line end, two dashes, boundary.
    delimiter: Vec<u8>,
    state: State,
}

impl Parser {
    /// A parser of a body with this boundary.
    ///
    /// # Errors
    /// When it is empty or longer than 70 bytes.
    pub fn new(boundary: &str) -> Result<Self, &'static str> {
        if boundary.is_empty() || boundary.len() > BOUNDARY_BYTES_MAX {
            return Err("the boundary is empty or longer than 70 bytes");
        }
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        Ok(Self { delimiter, state: State::Preamble(0) })
    }

    /// What stands at the front of `input`, and how many bytes of it are used up by that.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Piece<'a>), &'static str> {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            match self.state {
                State::Preamble(passed) => {
                    let start = match passed {
                        // The first delimiter may lack its line end.
                        0 if rest.starts_with(&self.delimiter[2..]) => {
                            Some(self.delimiter.len() - 2)
                        }
                        0 if self.delimiter[2..].starts_with(rest) => None,
                        _ => {
                            memmem::find(rest, &self.delimiter).map(|at| at + self.delimiter.len())
                        }
                    };
                    if let Some(end) = start {
                        used += end;
                        self.state = State::Delimited;
                        continue;
                    }
                    let over = match passed == 0 && self.delimiter[2..].starts_with(rest) {
                        true => 0,
                        false => self.unmatched(rest),
                    };
                    if passed + over > HEAD_BYTES_MAX {
                        return Err("no part begins");
                    }
                    self.state = State::Preamble(passed + over);
                    return Ok((used + over, Piece::More));
                }
                State::Delimited => {
                    if rest.starts_with(b"--") {
                        self.state = State::End;
                        return Ok((used + 2, Piece::End));
                    }
                    let blanks =
                        rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
                    match &rest[blanks..] {
                        [b'\r', b'\n', ..] => {
                            used += blanks + 2;
                            self.state = State::Head;
                        }
                        [] | [b'\r'] if blanks < HEAD_BYTES_MAX => return Ok((used, Piece::More)),
                        [b'-'] if blanks == 0 => return Ok((used, Piece::More)),
                        _ => return Err("a boundary is followed by neither a line end nor `--`"),
                    }
                }
                State::Head => {
                    let end = match rest {
                        [b'\r', b'\n', ..] => Some(0),
                        _ => memmem::find(rest, b"\r\n\r\n").map(|at| at + 2),
                    };
                    let Some(end) = end.filter(|&end| end <= HEAD_BYTES_MAX) else {
                        if rest.len() > HEAD_BYTES_MAX {
                            return Err("the head of a part is too large");
                        }
                        return Ok((used, Piece::More));
                    };
                    self.state = State::Data;
                    // The empty line stays: it begins the delimiter of a part without a byte.
                    return Ok((used + end + 2, Piece::Head(head(&rest[..end])?)));
                }
                State::Data => {
                    return Ok(match memmem::find(rest, &self.delimiter) {
                        Some(0) => {
                            self.state = State::Delimited;
                            (used + self.delimiter.len(), Piece::PartEnd)
                        }
                        Some(at) => (used + at, Piece::Data(&rest[..at])),
                        None => match self.unmatched(rest) {
                            0 => (used, Piece::More),
                            count => (used + count, Piece::Data(&rest[..count])),
                        },
                    });
                }
                State::End => return Ok((input.len(), Piece::End)),
            }
        }
    }

    /// How many bytes at the front can be no part of a delimiter that goes on behind them.
    fn unmatched(&self, bytes: &[u8]) -> usize {
        let tail = bytes.len().saturating_sub(self.delimiter.len() - 1);
        let begins = (tail..bytes.len()).find(|&at| self.delimiter.starts_with(&bytes[at..]));
        begins.unwrap_or(bytes.len())
    }
}

/// What the lines of a part's head say.
fn head(lines: &[u8]) -> Result<PartHead, &'static str> {
    let lines = std::str::from_utf8(lines).map_err(|_| "the head of a part is not UTF-8")?;
    let (mut head, mut named) = (PartHead::default(), false);
    for line in lines.split("\r\n").filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or("a line of a part's head has no colon")?;
        if name.eq_ignore_ascii_case("content-type") {
            head.content_type = value.trim().to_owned();
        } else if name.eq_ignore_ascii_case("content-disposition") {
            for (key, value) in parameters(value) {
                if key.eq_ignore_ascii_case("name") {
                    named = true;
                    head.name = value;
                } else if key.eq_ignore_ascii_case("filename") {
                    // Some clients send the whole path; none of it is to be trusted.
                    let name = value.rsplit(['/', '\\']).next().unwrap_or_default();
                    head.file_name = Some(name.to_owned());
                }
            }
        }
    }
    match named {
        true => Ok(head),
        false => Err("a part has no name"),
    }
}

/// The parameters of a header's value: `form-data; name="a"; filename="b"`.
pub(super) fn parameters(value: &str) -> Vec<(&str, String)> {
    let mut parameters = Vec::new();
    let mut rest = value.split_once(';').map_or("", |(_, rest)| rest);
    while let Some((key, after)) = rest.split_once('=') {
        let key = key.trim_matches([' ', '\t', ';']);
        let after = after.trim_start_matches([' ', '\t']);
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let end = after.find(';').unwrap_or(after.len());
                (after[..end].trim().to_owned(), &after[end..])
            }
        };
        parameters.push((key, value));
        rest = next;
    }
    parameters
}

/// A quoted text up to its quote, and what follows it.
fn unquoted(quoted: &str) -> (String, &str) {
    let mut text = String::new();
    let mut chars = quoted.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (text, &quoted[at + 1..]),
            '\\' => match chars.peek() {
                Some(&(_, next @ ('"' | '\\'))) => {
                    text.push(next);
                    chars.next();
                }
                // Old paths are sent as they are.
                _ => text.push('\\'),
            },
            c => text.push(c),
        }
    }
    // Browsers write what would end the text in percents.
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parts = Vec<(PartHead, Vec<u8>)>;

    fn parts(body: &[u8], step: usize) -> Result<Option<Parts>, &'static str> {
        let mut parser = Parser::new("XX").unwrap();
        let (mut buffer, mut parts) = (Vec::new(), Parts::new());
        for piece in body.chunks(step) {
            buffer.extend_from_slice(piece);
            loop {
                let (used, piece) = parser.parse(&buffer)?;
                let more = piece == Piece::More;
                match piece {
                    Piece::Head(head) => parts.push((head, Vec::new())),
                    Piece::Data(data) => parts.last_mut().unwrap().1.extend_from_slice(data),
                    Piece::PartEnd | Piece::More => {}
                    Piece::End => return Ok(Some(parts)),
                }
                buffer.drain(..used);
                if more {
                    break;
                }
            }
        }
        Ok(None)
    }

    #[test]
    fn parts_are_found_in_whatever_pieces_they_come() {
        let body = b"preamble\r\n--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--X\r\n--XX \t\r\ncontent-type: text/csv\r\nCONTENT-DISPOSITION: form-data; filename=\"C:\\dir\\b \\\"c\\\".csv\"; name=f;x=\"\r\n\r\n\r\n--XX\r\nContent-Disposition: form-data; name=\"\"\r\n\r\n\r\n--XX--\r\nepilogue";
        let expected = [
            ("a", None, "", &b"1\r\n--X"[..]),
            ("f", Some("b \"c\".csv"), "text/csv", b""),
            ("", None, "", b""),
        ]
        .map(|(name, file_name, content_type, data)| {
            let (name, content_type) = (name.to_owned(), content_type.to_owned());
            let file_name = file_name.map(str::to_owned);
            (PartHead { name, file_name, content_type }, data.to_vec())
        });
        for step in [1, 2, 3, 5, 7, 11, 1000] {
            assert_eq!(parts(body, step).unwrap().unwrap(), expected, "{step}");
        }
        assert_eq!(parts(b"--XX--", 1), Ok(Some(Vec::new())));
        assert_eq!(parts(b"--XX\r\n\r\n", 1), Err("a part has no name"));
        for bad in
            [&b"--XX--"[..5], b"--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nno end"]
        {
            assert_eq!(parts(bad, 1), Ok(None));
        }
        for bad in [&b"--XXX\r\n"[..], b"--XX\r\nno colon\r\n\r\n", b"--XX\r\n\xff: a\r\n\r\n"] {
            assert_eq!(parts(bad, 1), parts(bad, 1000));
            assert!(parts(bad, 1).is_err(), "{}", bad.escape_ascii());
        }
        assert!(parts(&[b'a'; 20_000], 100).is_err());
        assert!(parts(&[&b"--XX\r\n"[..], &[b'a'; 20_000]].concat(), 100).is_err());
    }
}
