//! Positions in the change feed.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use marmota_model::{Error, ErrorKind, Result};

/// A position in the change feed of a database: that of a commit.
///
/// Its text has 32 characters and is opaque: store it, compare it, and pass it back. Texts of one
/// database are ordered like its commits. A position is valid in all processes, and after a
/// restart. Positions of different databases are not ordered.
///
/// ```
/// use marmota_store::change::Position;
///
/// let position: Position = "5f2b8e0c9a4d71630000000000000007".parse()?;
/// assert_eq!(position.to_string(), "5f2b8e0c9a4d71630000000000000007");
/// assert!("7".parse::<Position>().is_err());
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The identity of the feed: a random number of the database.
    pub(crate) feed: u64,
    /// The number of the commit. 0 is before the first.
    pub(crate) number: u64,
}

impl Position {
    /// Returns the number of the commit in its feed; 0 is before the first.
    ///
    /// ```
    /// let position: marmota_store::change::Position = "5f2b8e0c9a4d71630000000000000007".parse()?;
    /// assert_eq!(position.commit_number(), 7);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub const fn commit_number(&self) -> u64 {
        self.number
    }
}

/// The length of the text of each of the two numbers.
const DIGITS: usize = 16;

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self.feed == other.feed).then(|| self.number.cmp(&other.number))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0DIGITS$x}{:0DIGITS$x}", self.feed, self.number)
    }
}

impl FromStr for Position {
    type Err = Error;

    /// Parses what `Display` has written.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for any other text.
    fn from_str(text: &str) -> Result<Self> {
        let parsed = (text.len() == 2 * DIGITS
            && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
        .then(|| text.split_at(DIGITS))
        .and_then(|(feed, number)| {
            let parse = |part| u64::from_str_radix(part, 16).ok();
            Some(Self { feed: parse(feed)?, number: parse(number)? })
        });
        parsed.ok_or_else(|| {
            let message = format!(
                "`{}` is not a position of the change feed; send one that a response of this \
                 server had",
                marmota_model::text::excerpt(text)
            );
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_ordered_like_positions() {
        let of = |feed, number| Position { feed, number };
        assert!(of(1, 9) < of(1, 10) && of(1, 9).to_string() < of(1, 10).to_string());
        assert_eq!(of(1, 9).partial_cmp(&of(2, 9)), None);
        for position in [of(0, 0), of(u64::MAX, u64::MAX), of(0xABC, 0x7F)] {
            assert_eq!(position.to_string().parse::<Position>().unwrap(), position);
        }
        for text in ["", "0", &"F".repeat(32), &"g".repeat(32), &"0".repeat(33), &"é".repeat(16)] {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
    }
}
