//! Messages from the server, parsed in place. Nothing is copied: a row borrows its columns.

/// The largest accepted message: PostgreSQL's limit of a value, plus a margin.
pub const MESSAGE_BYTES_MAX: usize = (1 << 30) + (64 << 20);

/// The bytes are not a message of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// A message from the server (PostgreSQL's manual, "Message Formats").
#[derive(Clone, Copy, Debug)]
pub enum BackendMessage<'a> {
    /// A statement is prepared.
    ParseComplete,
    /// A row.
    DataRow(Row<'a>),
    /// A statement has ended; its tag contains the command and the number of rows.
    CommandComplete(&'a [u8]),
    /// A failure; everything up to the next [`BackendMessage::ReadyForQuery`] is skipped.
    ErrorResponse(Notice<'a>),
    /// The answer to a Sync: `I` outside, `T` in, `E` in a failed transaction.
    ReadyForQuery(u8),
    /// The server is ready for the data of COPY.
    CopyInResponse,
    /// A message outside of the answer.
    NoticeResponse(Notice<'a>),
    /// An authentication request: its type, and the data for it.
    Authentication(i32, &'a [u8]),
    /// The key for cancelling: the process, and a secret.
    BackendKeyData(i32, &'a [u8]),
    /// The types of a statement's parameters.
    ParameterDescription(Oids<'a>),
    /// The columns of a statement's rows.
    RowDescription(RowDescription<'a>),
    /// A setting of the server, which it reports at login and when it changes.
    ParameterStatus(ParameterStatus<'a>),
    /// A notification on a channel that is listened to.
    NotificationResponse(Notification<'a>),
    /// Any message that callers ignore: ends of binding and closing.
    Other(u8),
}

/// Parses the first message, and returns it with its size in bytes, or `None` if it is incomplete.
///
/// # Errors
/// [`Broken`] for bytes that are not a message.
#[inline]
pub fn first(bytes: &[u8]) -> Result<Option<(BackendMessage<'_>, usize)>, Broken> {
    let Some((head, _)) = bytes.split_first_chunk::<5>() else { return Ok(None) };
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
        return Err(Broken);
    }
    let Some(body) = bytes.get(5..length + 1) else { return Ok(None) };
    Ok(Some((message(head[0], body)?, length + 1)))
}

/// Returns the size of the complete rows that come next, each of which begins before `end`; zero if
/// another message comes next.
#[must_use]
pub fn rows_before(bytes: &[u8], end: usize) -> usize {
    let mut size = 0;
    while size < end
        && let Some([b'D', length @ ..]) = bytes[size..].first_chunk::<5>()
    {
        let length = u32::from_be_bytes(*length) as usize;
        // Shorter ones have no number of columns.
        if !(6..=MESSAGE_BYTES_MAX).contains(&length) || bytes.len() - size <= length {
            break;
        }
        size += length + 1;
    }
    size
}

/// Returns the size of the first message, or `None` if that is not received yet.
#[must_use]
pub fn length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.first_chunk::<5>()?;
    Some(u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize + 1)
}

#[inline]
fn message(tag: u8, body: &[u8]) -> Result<BackendMessage<'_>, Broken> {
    let number = |body: &[u8]| body.first_chunk().map(|bytes| i32::from_be_bytes(*bytes));
    Ok(match tag {
        b'D' => {
            let (count, columns) = body.split_first_chunk().ok_or(Broken)?;
            BackendMessage::DataRow(Row { count: u16::from_be_bytes(*count), columns })
        }
        b'C' => BackendMessage::CommandComplete(body.strip_suffix(&[0]).ok_or(Broken)?),
        b'Z' => BackendMessage::ReadyForQuery(*body.first().ok_or(Broken)?),
        b'1' => BackendMessage::ParseComplete,
        b'E' => BackendMessage::ErrorResponse(Notice(body)),
        b'N' => BackendMessage::NoticeResponse(Notice(body)),
        b'G' => BackendMessage::CopyInResponse,
        b'R' => BackendMessage::Authentication(number(body).ok_or(Broken)?, &body[4..]),
        b'K' => BackendMessage::BackendKeyData(number(body).ok_or(Broken)?, &body[4..]),
        b't' => BackendMessage::ParameterDescription(Oids(body.get(2..).ok_or(Broken)?)),
        b'T' => BackendMessage::RowDescription(RowDescription(body.get(2..).ok_or(Broken)?)),
        b'S' => BackendMessage::ParameterStatus(ParameterStatus::of(body).ok_or(Broken)?),
        b'A' => BackendMessage::NotificationResponse(Notification::of(body).ok_or(Broken)?),
        tag => BackendMessage::Other(tag),
    })
}

/// A setting that the server reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterStatus<'a> {
    /// The setting's name.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

impl<'a> ParameterStatus<'a> {
    fn of(body: &'a [u8]) -> Option<Self> {
        let mut texts = body.split(|&byte| byte == 0);
        let (name, value, end) = (texts.next()?, texts.next()?, texts.next()?);
        end.is_empty().then_some(Self { name, value })
    }
}

/// A notification by `NOTIFY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification<'a> {
    /// The channel's name.
    pub channel: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
}

impl<'a> Notification<'a> {
    fn of(body: &'a [u8]) -> Option<Self> {
        // After the process id of the sender.
        let mut texts = body.get(4..)?.split(|&byte| byte == 0);
        let (channel, payload, end) = (texts.next()?, texts.next()?, texts.next()?);
        end.is_empty().then_some(Self { channel, payload })
    }
}

/// OIDs of types.
#[derive(Clone, Copy, Debug)]
pub struct Oids<'a>(&'a [u8]);

impl Iterator for Oids<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (oid, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*oid))
    }
}

/// The columns of rows, as an iterator.
#[derive(Clone, Copy, Debug)]
pub struct RowDescription<'a>(&'a [u8]);

/// The description of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldDescription<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The table that it is read from; 0 for a computed value.
    pub table: u32,
    /// Its number in that table.
    pub number: i16,
    /// The number of its type.
    pub oid: u32,
}

impl<'a> Iterator for RowDescription<'a> {
    type Item = FieldDescription<'a>;

    fn next(&mut self) -> Option<FieldDescription<'a>> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let (fixed, rest) = self.0[end + 1..].split_first_chunk::<18>()?;
        let name = &self.0[..end];
        self.0 = rest;
        let number = |at: usize| [fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]];
        Some(FieldDescription {
            name,
            table: u32::from_be_bytes(number(0)),
            number: i16::from_be_bytes([fixed[4], fixed[5]]),
            oid: u32::from_be_bytes(number(6)),
        })
    }
}

/// A row: its columns, concatenated.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    count: u16,
    columns: &'a [u8],
}

impl<'a> Row<'a> {
    /// Returns the number of columns according to the message.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns true if it has no columns.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the next column, or `None` for NULL.
    ///
    /// # Errors
    /// [`Broken`] if no column is left, or it extends beyond the row.
    #[inline]
    pub fn next_column(&mut self) -> Result<Option<&'a [u8]>, Broken> {
        let (length, rest) = self.columns.split_first_chunk().ok_or(Broken)?;
        let length = i32::from_be_bytes(*length);
        if length < 0 {
            self.columns = rest;
            return Ok(None);
        }
        let (column, rest) = rest.split_at_checked(length as usize).ok_or(Broken)?;
        self.columns = rest;
        Ok(Some(column))
    }
}

/// A failure or notice: fields, each identified by a letter.
#[derive(Clone, Copy, Debug)]
pub struct Notice<'a>(pub &'a [u8]);

impl Notice<'_> {
    /// Returns the field with this letter: `C` the code, `M` the message, `D` the detail, `n` the
    /// constraint, …
    #[must_use]
    pub fn field(&self, letter: u8) -> Option<String> {
        let mut rest = self.0;
        while let Some((&found, behind)) = rest.split_first() {
            if found == 0 {
                return None;
            }
            let end = behind.iter().position(|&byte| byte == 0)?;
            if found == letter {
                return Some(String::from_utf8_lossy(&behind[..end]).into_owned());
            }
            rest = &behind[end + 1..];
        }
        None
    }
}

/// Returns the number of rows in a statement's tag: `UPDATE 3`, `INSERT 0 3`.
#[must_use]
pub fn rows_of(tag: &[u8]) -> u64 {
    let digits = tag.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    tag[tag.len() - digits..]
        .iter()
        .fold(0_u64, |rows, digit| rows.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        bytes.extend((body.len() as u32 + 4).to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn a_message_that_has_not_come_whole_is_none() {
        let whole = of(b'C', b"UPDATE 12\0");
        for end in 0..whole.len() {
            assert!(first(&whole[..end]).unwrap().is_none());
        }
        let Some((BackendMessage::CommandComplete(tag), taken)) = first(&whole).unwrap() else {
            panic!()
        };
        assert_eq!((rows_of(tag), taken), (12, whole.len()));
        assert_eq!(rows_of(b"BEGIN"), 0);
    }

    #[test]
    fn a_row_lends_its_columns() {
        let row = of(b'D', &[0, 2, 255, 255, 255, 255, 0, 0, 0, 1, 7]);
        let Some((BackendMessage::DataRow(mut row), _)) = first(&row).unwrap() else { panic!() };
        assert_eq!(row.next_column(), Ok(None));
        assert_eq!(row.next_column(), Ok(Some(&[7][..])));
        assert_eq!(row.next_column(), Err(Broken));
    }

    #[test]
    fn rows_that_follow_are_counted_while_they_are_complete() {
        let row = of(b'D', &[0, 1, 0, 0, 0, 1, 7]);
        let rows = [&row[..], &row, &row].concat();
        for end in 0..=rows.len() {
            let complete = end / row.len() * row.len();
            assert_eq!(rows_before(&rows[..end], rows.len()), complete);
        }
        assert_eq!(rows_before(&rows, row.len() + 1), 2 * row.len());
        assert_eq!(rows_before(&rows, 0), 0);
        for other in [of(b'C', b"SELECT 1\0"), of(b'D', &[0]), vec![b'D', 255, 255, 255, 255]] {
            assert_eq!(rows_before(&[&row[..], &other].concat(), 1_000), row.len());
        }
    }

    #[test]
    fn columns_have_a_name_an_origin_and_a_type() {
        let mut body = vec![0, 1, b'a', 0, 0, 0, 0, 9, 0, 2, 0, 0, 0, 25];
        body.extend([255; 8]);
        let row = of(b'T', &body);
        let Some((BackendMessage::RowDescription(mut columns), _)) = first(&row).unwrap() else {
            panic!()
        };
        let column = FieldDescription { name: b"a", table: 9, number: 2, oid: 25 };
        assert_eq!((columns.next(), columns.next()), (Some(column), None));
        let oids = of(b't', &[0, 2, 0, 0, 0, 20, 0, 0, 0, 25]);
        let Some((BackendMessage::ParameterDescription(oids), _)) = first(&oids).unwrap() else {
            panic!()
        };
        assert_eq!(oids.collect::<Vec<_>>(), [20, 25]);
    }

    #[test]
    fn a_failure_has_fields() {
        let body = of(b'E', b"SERROR\0C23505\0Mtaken\0\0");
        let Some((BackendMessage::ErrorResponse(notice), _)) = first(&body).unwrap() else {
            panic!()
        };
        assert_eq!(notice.field(b'C').as_deref(), Some("23505"));
        assert_eq!(notice.field(b'n'), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            if let Ok(Some((message, taken))) = first(&bytes) {
                prop_assert!(taken <= bytes.len());
                match message {
                    BackendMessage::DataRow(mut row) => while row.next_column().is_ok() {},
                    BackendMessage::ErrorResponse(notice) => drop(notice.field(b'C')),
                    BackendMessage::ParameterDescription(oids) => drop(oids.count()),
                    BackendMessage::RowDescription(columns) => drop(columns.count()),
                    _ => {}
                }
            }
        }
    }
}
