//! The place at which a subscriber continues.

use std::fmt;
use std::str::FromStr;

use marmota_model::{Error, Result};

use crate::contract::change::Position;

/// The place at which a subscriber of a live query continues: the position of an event, and the
/// rows that its caller could read.
///
/// Its text is that of the position, with eight more characters after a `-` if the caller's rights
/// narrow the query. A subscriber that may read other rows than before gets a snapshot.
///
/// ```
/// use marmota_store::live::ResumePoint;
///
/// let point: ResumePoint = "5f2b8e0c9a4d71630000000000000007-0badcafe".parse()?;
/// assert_eq!(point.to_string(), "5f2b8e0c9a4d71630000000000000007-0badcafe");
/// assert_eq!(point.position.to_string(), "5f2b8e0c9a4d71630000000000000007");
/// assert!("5f2b8e0c9a4d71630000000000000007-1".parse::<ResumePoint>().is_err());
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResumePoint {
    /// The position of the event.
    pub position: Position,
    /// A number for the rows that the caller could read; `None` if the caller's rights did not
    /// narrow the query.
    pub rights_tag: Option<u32>,
}

/// The length of the text of a tag.
const DIGITS: usize = 8;

impl From<Position> for ResumePoint {
    fn from(position: Position) -> Self {
        Self { position, rights_tag: None }
    }
}

impl fmt::Display for ResumePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.position.fmt(f)?;
        self.rights_tag.map_or(Ok(()), |tag| write!(f, "-{tag:0DIGITS$x}"))
    }
}

impl FromStr for ResumePoint {
    type Err = Error;

    /// Parses what `Display` has written.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for any other text.
    fn from_str(text: &str) -> Result<Self> {
        let (position, tag) = match text.split_once('-') {
            Some((position, tag)) if tag.len() == DIGITS => {
                let is_lower = tag.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
                match u32::from_str_radix(tag, 16) {
                    Ok(tag) if is_lower => (position, Some(tag)),
                    _ => (text, None),
                }
            }
            _ => (text, None),
        };
        Ok(Self { position: position.parse()?, rights_tag: tag })
    }
}
