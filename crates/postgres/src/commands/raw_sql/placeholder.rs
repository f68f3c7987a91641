//! Converts parameters of other engines (`?`, `?3`) to PostgreSQL's (`$1`). A text that contains
//! `$1` keeps its question marks: they are operators.

/// Returns a statement with PostgreSQL's parameter numbers.
pub(super) fn numbered(text: &str) -> String {
    let pieces = pieces(text);
    let has_own = pieces.iter().any(|piece| matches!(piece, Piece::OwnConnections));
    if has_own || !pieces.iter().any(|piece| matches!(piece, Piece::Mark(..))) {
        return text.to_owned();
    }
    let mut numbered = String::with_capacity(text.len() + 16);
    let (mut copied, mut last) = (0, 0);
    for piece in pieces {
        let Piece::Mark(start, end) = piece else { continue };
        last = text[start + 1..end].parse().unwrap_or(last + 1);
        numbered.push_str(&text[copied..start]);
        numbered.push('$');
        numbered.push_str(&last.to_string());
        copied = end;
    }
    numbered.push_str(&text[copied..]);
    numbered
}

/// A parameter outside of quotes and comments.
enum Piece {
    /// `$1`
    OwnConnections,
    /// `?` or `?3`, with its start and end.
    Mark(usize, usize),
}

fn pieces(text: &str) -> Vec<Piece> {
    let bytes = text.as_bytes();
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let behind = |end: Option<usize>| end.map_or(bytes.len(), |end| at + end);
        at = match bytes[at] {
            b'\'' | b'"' => {
                let quote = bytes[at];
                // In E'…' a backslash escapes the next character.
                let escapes = quote == b'\'' && at > 0 && matches!(bytes[at - 1], b'e' | b'E');
                quoted_end(bytes, at, quote, escapes)
            }
            b'-' if rest.starts_with("--") => behind(rest.find('\n')),
            b'/' if rest.starts_with("/*") => comment_end(bytes, at),
            b'$' => match dollar(rest) {
                Dollar::Parameter => {
                    pieces.push(Piece::OwnConnections);
                    at + 1
                }
                Dollar::Quote(tag) => {
                    let inside = at + tag.len();
                    let end = text[inside..].find(tag).map(|end| inside + end + tag.len());
                    end.unwrap_or(bytes.len())
                }
                Dollar::Other => at + 1,
            },
            b'?' => {
                let digits =
                    bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                pieces.push(Piece::Mark(at, at + 1 + digits));
                at + 1 + digits
            }
            // A name may contain `$`.
            byte if byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 128 => {
                let is_of_name = |byte: &u8| {
                    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || *byte >= 128
                };
                at + bytes[at..].iter().take_while(|byte| is_of_name(byte)).count()
            }
            _ => at + 1,
        };
    }
    pieces
}

enum Dollar<'t> {
    Parameter,
    /// `$tag$`
    Quote(&'t str),
    Other,
}

fn dollar(rest: &str) -> Dollar<'_> {
    if rest[1..].starts_with(|letter: char| letter.is_ascii_digit()) {
        return Dollar::Parameter;
    }
    let is_of_tag = |letter: char| letter.is_alphanumeric() || letter == '_';
    let tag = rest[1..].find(|letter| !is_of_tag(letter)).map(|end| end + 1);
    match tag {
        Some(end) if rest[end..].starts_with('$') => Dollar::Quote(&rest[..=end]),
        _ => Dollar::Other,
    }
}

fn quoted_end(bytes: &[u8], start: usize, quote: u8, escapes: bool) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        if escapes && bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at] == quote {
            return at + 1;
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Returns the end of a comment. Comments nest.
fn comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start + 2, 1);
    while at < bytes.len() && depth > 0 {
        match bytes[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn question_marks_are_numbered() {
        for (text, wanted) in [
            ("SELECT ? + ?", "SELECT $1 + $2"),
            ("SELECT ?2, ?, ?1", "SELECT $2, $3, $1"),
            ("SELECT '?', \"?\", ? -- ?\n, ?", "SELECT '?', \"?\", $1 -- ?\n, $2"),
            ("SELECT E'\\'?', 'it''s ?', ?", "SELECT E'\\'?', 'it''s ?', $1"),
            (
                "SELECT $a$ ? $$ ? $a$, ? /* ? /* ? */ ? */",
                "SELECT $a$ ? $$ ? $a$, $1 /* ? /* ? */ ? */",
            ),
            ("SELECT j ? 'key' AND id = $1", "SELECT j ? 'key' AND id = $1"),
            ("SELECT a$1, ?", "SELECT a$1, $1"),
            ("SELECT 'open ?", "SELECT 'open ?"),
        ] {
            assert_eq!(numbered(text), wanted);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[?$a1'\"/*\\- \né\\\\]{0,20}") {
            let _ = numbered(&text);
        }
    }
}
