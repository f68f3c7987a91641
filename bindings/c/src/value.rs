//! Values as C sees them, and rows that are lent to C.

use std::cell::RefCell;

use marmota::model::{Currency, Date, Time, Timestamp, Uuid, ValueRef};

/// A value that is not given: a write leaves its field unchanged, or gives it its default.
pub const MARMOTA_ABSENT: u32 = 0;
/// Null.
pub const MARMOTA_NULL: u32 = 1;
/// A boolean: `integer` is 0 or 1.
pub const MARMOTA_BOOL: u32 = 2;
/// An integer: `integer`.
pub const MARMOTA_INT: u32 = 3;
/// A floating-point number: `real`.
pub const MARMOTA_FLOAT: u32 = 4;
/// An amount: `integer` in ten-thousandths.
pub const MARMOTA_CURRENCY: u32 = 5;
/// UTF-8 text: `data` and `length`.
pub const MARMOTA_TEXT: u32 = 6;
/// Bytes: `data` and `length`.
pub const MARMOTA_BLOB: u32 = 7;
/// JSON as UTF-8 text: `data` and `length`.
pub const MARMOTA_JSON: u32 = 8;
/// A day: `integer` is the number of days since 1970-01-01.
pub const MARMOTA_DATE: u32 = 9;
/// A time of day: `integer` in microseconds since midnight.
pub const MARMOTA_TIME: u32 = 10;
/// A point in time: `integer` in microseconds since 1970-01-01 UTC.
pub const MARMOTA_TIMESTAMP: u32 = 11;
/// A UUID: 16 bytes at `data`; `length` is 16.
pub const MARMOTA_UUID: u32 = 12;

/// A value of a row. `kind` states which of the other members count. Text that Marmota lends has a NUL
/// after its last byte, which `length` does not count; text in a row of `marmota_rows_each` has none.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MarmotaValue {
    /// One of the `MARMOTA_` constants of kinds.
    pub kind: u32,
    /// An integer, a boolean, an amount or a time.
    pub integer: i64,
    /// A floating-point number.
    pub real: f64,
    /// Text or bytes.
    pub data: *const u8,
    /// The number of bytes of `data`.
    pub length: usize,
}

// SAFETY: plain data. Its pointer is followed in `foreign` only, for values that a caller passes.
unsafe impl Send for MarmotaValue {}

impl MarmotaValue {
    pub(crate) const EMPTY: Self =
        Self { kind: MARMOTA_ABSENT, integer: 0, real: 0.0, data: std::ptr::null(), length: 0 };

    /// Returns the value; `bytes` reads its text or bytes.
    ///
    /// # Errors
    /// A description of what is wrong with the value; `None` if `bytes` failed.
    pub(crate) fn read<'a, E>(
        &self,
        bytes: impl FnOnce() -> Result<&'a [u8], E>,
    ) -> Result<ValueRef<'a>, Option<String>> {
        let integer = self.integer;
        let bytes = || bytes().map_err(|_| None);
        let text = |bytes: &'a [u8]| {
            std::str::from_utf8(bytes).map_err(|_| Some("the text is not UTF-8".to_owned()))
        };
        let range = |name: &str| Some(format!("{integer} is not a {name}"));
        Ok(match self.kind {
            MARMOTA_ABSENT => ValueRef::Absent,
            MARMOTA_NULL => ValueRef::Null,
            MARMOTA_BOOL => ValueRef::Bool(integer != 0),
            MARMOTA_INT => ValueRef::Int(integer),
            MARMOTA_FLOAT => ValueRef::Float(self.real),
            MARMOTA_CURRENCY => ValueRef::Currency(Currency::from_scaled(integer)),
            MARMOTA_TEXT => ValueRef::Text(text(bytes()?)?),
            MARMOTA_BLOB => ValueRef::Blob(bytes()?),
            MARMOTA_JSON => ValueRef::Json(text(bytes()?)?),
            MARMOTA_DATE => {
                let days = i32::try_from(integer).map_err(|_| range("day"))?;
                ValueRef::Date(Date::from_days(days).map_err(|_| range("day"))?)
            }
            MARMOTA_TIME => {
                ValueRef::Time(Time::from_micros(integer).map_err(|_| range("time of day"))?)
            }
            MARMOTA_TIMESTAMP => ValueRef::Timestamp(
                Timestamp::from_micros(integer).map_err(|_| range("point in time"))?,
            ),
            MARMOTA_UUID => {
                let of = Uuid::from_slice(bytes()?);
                ValueRef::Uuid(of.map_err(|_| Some("a UUID has 16 bytes".to_owned()))?)
            }
            kind => return Err(Some(format!("{kind} is not a kind; use MARMOTA_INT, …"))),
        })
    }

    /// Describes a value for C. Text and bytes are borrowed; those of a UUID are `uuid`.
    pub(crate) fn of(value: ValueRef<'_>, uuid: &[u8]) -> Self {
        let at = |kind, bytes: &[u8]| Self {
            kind,
            data: bytes.as_ptr(),
            length: bytes.len(),
            ..Self::EMPTY
        };
        let of = |kind, integer| Self { kind, integer, ..Self::EMPTY };
        match value {
            ValueRef::Absent => Self::EMPTY,
            ValueRef::Null => Self { kind: MARMOTA_NULL, ..Self::EMPTY },
            ValueRef::Bool(value) => of(MARMOTA_BOOL, i64::from(value)),
            ValueRef::Int(value) => of(MARMOTA_INT, value),
            ValueRef::Float(real) => Self { kind: MARMOTA_FLOAT, real, ..Self::EMPTY },
            ValueRef::Currency(value) => of(MARMOTA_CURRENCY, value.scaled()),
            ValueRef::Text(text) => at(MARMOTA_TEXT, text.as_bytes()),
            ValueRef::Blob(bytes) => at(MARMOTA_BLOB, bytes),
            ValueRef::Json(text) => at(MARMOTA_JSON, text.as_bytes()),
            ValueRef::Date(value) => of(MARMOTA_DATE, i64::from(value.days())),
            ValueRef::Time(value) => of(MARMOTA_TIME, value.micros()),
            ValueRef::Timestamp(value) => of(MARMOTA_TIMESTAMP, value.micros()),
            ValueRef::Uuid(_) => at(MARMOTA_UUID, uuid),
        }
    }
}

/// Rows that are lent to C: their values, and the texts and bytes that these refer to.
#[derive(Default)]
pub(crate) struct LentRows {
    values: Vec<MarmotaValue>,
    bytes: Vec<u8>,
    width: usize,
}

impl LentRows {
    pub(crate) fn clear(&mut self, width: usize) {
        self.values.clear();
        self.bytes.clear();
        self.width = width;
    }

    /// Adds a row. The pointers are set by [`LentRows::seal`].
    pub(crate) fn push(&mut self, row: &[ValueRef<'_>]) {
        for value in row.iter().take(self.width) {
            let (start, added) = (self.bytes.len(), MarmotaValue::of(*value, &[]));
            match *value {
                ValueRef::Text(text) | ValueRef::Json(text) => {
                    self.bytes.extend_from_slice(text.as_bytes());
                    self.bytes.push(0);
                }
                ValueRef::Blob(bytes) => self.bytes.extend_from_slice(bytes),
                ValueRef::Uuid(uuid) => self.bytes.extend_from_slice(uuid.as_bytes()),
                _ => {
                    self.values.push(added);
                    continue;
                }
            }
            let length = match *value {
                ValueRef::Uuid(_) => 16,
                _ => added.length,
            };
            // The place is in `integer` until the bytes no longer move.
            self.values.push(MarmotaValue { integer: start as i64, length, ..added });
        }
        // A row has as many values as the others, even if the engine lent fewer.
        let missing = self.width.saturating_sub(row.len());
        self.values.extend(std::iter::repeat_n(MarmotaValue::EMPTY, missing));
    }

    /// Moves each row to its place among `count` rows; the others have absent values. Called before
    /// [`LentRows::seal`].
    pub(crate) fn arrange(&mut self, places: &[usize], count: usize) {
        if places.len() == count && places.is_sorted() {
            return;
        }
        let mut values = vec![MarmotaValue::EMPTY; count * self.width];
        for (row, place) in self.values.chunks_exact(self.width).zip(places) {
            values[place * self.width..][..self.width].copy_from_slice(row);
        }
        self.values = values;
    }

    /// Sets the pointers of all values, after the last row.
    pub(crate) fn seal(&mut self) {
        for value in &mut self.values {
            let has_bytes =
                matches!(value.kind, MARMOTA_TEXT | MARMOTA_BLOB | MARMOTA_JSON | MARMOTA_UUID);
            if has_bytes {
                let start = std::mem::take(&mut value.integer) as usize;
                value.data = self.bytes.get(start..).unwrap_or_default().as_ptr();
            }
        }
    }

    /// Returns the row at an index; `None` after the last one.
    pub(crate) fn row(&self, index: usize) -> Option<&[MarmotaValue]> {
        let start = index.checked_mul(self.width)?;
        self.values.get(start..start.checked_add(self.width)?).filter(|row| !row.is_empty())
    }

    /// The number of bytes that the rows have.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.values.len() * size_of::<MarmotaValue>()
    }
}

thread_local! {
    /// What the last two calls of this thread lent. The call that replaces one of them may still read
    /// what the call before it lent.
    static LENT: RefCell<[LentRows; 2]> = RefCell::default();
}

/// The number of bytes that a thread keeps for the next rows that it lends.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A row that is lent to C, and its number of values.
pub(crate) type LentRow = (*const MarmotaValue, usize);

/// Lets `fill` add rows, and lends the first of them to the caller, until the thread's next call but
/// one that lends. Returns what `fill` returned, and the row.
pub(crate) fn lend<T, E>(
    width: usize,
    fill: impl FnOnce(&mut LentRows) -> Result<T, E>,
) -> Result<(T, Option<LentRow>), E> {
    // It is not borrowed while `fill` runs, which may call the C program.
    let mut rows = LENT.with_borrow_mut(|[older, newer]| {
        std::mem::swap(older, newer);
        std::mem::take(newer)
    });
    if rows.size() > KEPT_BYTES_MAX {
        rows = LentRows::default();
    }
    rows.clear(width);
    let filled = fill(&mut rows);
    rows.seal();
    let row = rows.row(0).map(|row| (row.as_ptr(), row.len()));
    LENT.with_borrow_mut(|[_, newer]| *newer = rows);
    Ok((filled?, row))
}
