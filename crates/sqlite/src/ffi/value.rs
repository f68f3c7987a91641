//! Values on their way into a statement ([`Bound`]) and out of a row
//! ([`Row`], [`Stored`]), borrowed where they lie. What steps statements is in
//! the module above.

use std::marker::PhantomData;

use super::raw::{self, Cell, CellValue};

/// A value to be bound. Texts and bytes are bound where they lie.
#[derive(Clone, Copy)]
pub(crate) struct Bound<'v> {
    pub(super) cell: Cell,
    value: PhantomData<&'v [u8]>,
}

impl<'v> Bound<'v> {
    /// NULL.
    pub(crate) const NULL: Self = Self { cell: Cell::NULL, value: PhantomData };

    /// An integer.
    #[inline]
    pub(crate) fn int(integer: i64) -> Self {
        let value = CellValue { integer };
        Self { cell: Cell { value, length: 0, storage: raw::INTEGER }, value: PhantomData }
    }

    /// A float.
    #[inline]
    pub(crate) fn float(real: f64) -> Self {
        let value = CellValue { real };
        Self { cell: Cell { value, length: 0, storage: raw::FLOAT }, value: PhantomData }
    }

    /// A text.
    #[inline]
    pub(crate) fn text(text: &'v str) -> Self {
        Self::of_bytes(text.as_bytes(), raw::TEXT)
    }

    /// Bytes.
    #[inline]
    pub(crate) fn blob(bytes: &'v [u8]) -> Self {
        Self::of_bytes(bytes, raw::BLOB)
    }

    #[inline]
    pub(super) fn of_cell(cell: Cell) -> Self {
        Self { cell, value: PhantomData }
    }

    #[inline]
    fn of_bytes(bytes: &'v [u8], storage: u32) -> Self {
        // A length that does not fit is above SQLite's limit in any case, and
        // refused by it before the bytes are looked at.
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let value = CellValue { bytes: bytes.as_ptr() };
        Self { cell: Cell { value, length, storage }, value: PhantomData }
    }
}

impl Cell {
    pub(super) const NULL: Self =
        Self { value: CellValue { integer: 0 }, length: 0, storage: raw::NULL };
}

/// A value as it is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stored<'r> {
    /// NULL.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A 64-bit float.
    Real(f64),
    /// A text, in UTF-8 unless the file lies.
    Text(&'r [u8]),
    /// Bytes.
    Blob(&'r [u8]),
}

impl<'r> Stored<'r> {
    /// The integer, or 0.
    pub(crate) fn int(self) -> i64 {
        match self {
            Self::Integer(integer) => integer,
            _ => 0,
        }
    }

    /// The text or bytes, or none.
    pub(crate) fn bytes(self) -> &'r [u8] {
        match self {
            Self::Text(bytes) | Self::Blob(bytes) => bytes,
            _ => &[],
        }
    }
}

/// The row a statement stands on, lent until its next step.
#[derive(Clone, Copy)]
pub(crate) struct Row<'r, const N: usize> {
    pub(super) cells: [Cell; N],
    pub(super) run: PhantomData<&'r ()>,
}

impl<'r, const N: usize> Row<'r, N> {
    /// The value of a column.
    pub(crate) fn at(&self, column: usize) -> Stored<'r> {
        let integer = self.integer(column).map(Stored::Integer);
        integer
            .or_else(|| self.float(column).map(Stored::Real))
            .or_else(|| self.text(column).map(Stored::Text))
            .or_else(|| self.blob(column).map(Stored::Blob))
            .unwrap_or(Stored::Null)
    }

    /// The value of a column, if it is an integer.
    #[inline(always)]
    pub(crate) fn integer(&self, column: usize) -> Option<i64> {
        match &self.cells[column] {
            // SAFETY: `marmota_row` wrote the member that `storage` says; the
            // cells are not written otherwise.
            cell if cell.storage == raw::INTEGER => Some(unsafe { cell.value.integer }),
            _ => None,
        }
    }

    /// The value of a column, if it is a float.
    #[inline(always)]
    pub(crate) fn float(&self, column: usize) -> Option<f64> {
        match &self.cells[column] {
            // SAFETY: as for `integer`.
            cell if cell.storage == raw::FLOAT => Some(unsafe { cell.value.real }),
            _ => None,
        }
    }

    /// The bytes of a column, if it is a text: in UTF-8 unless the file lies.
    #[inline(always)]
    pub(crate) fn text(&self, column: usize) -> Option<&'r [u8]> {
        match &self.cells[column] {
            // SAFETY: as for `integer`; the bytes live for `'r`.
            cell if cell.storage == raw::TEXT => Some(unsafe { bytes_of(cell) }),
            _ => None,
        }
    }

    /// The bytes of a column, if it is a blob.
    #[inline(always)]
    pub(crate) fn blob(&self, column: usize) -> Option<&'r [u8]> {
        match &self.cells[column] {
            // SAFETY: as for `text`.
            cell if cell.storage == raw::BLOB => Some(unsafe { bytes_of(cell) }),
            _ => None,
        }
    }

    /// True if a column is NULL.
    pub(crate) fn is_null(&self, column: usize) -> bool {
        self.cells[column].storage == raw::NULL
    }
}

/// # Safety
/// The cell holds bytes that live for `'r`.
#[inline]
unsafe fn bytes_of<'r>(cell: &Cell) -> &'r [u8] {
    // The pointer may be null where there are no bytes.
    if cell.length == 0 {
        return &[];
    }
    // SAFETY: by contract; the pointer goes with the length.
    unsafe { std::slice::from_raw_parts(cell.value.bytes, cell.length as usize) }
}

/// The bytes as text, if they are UTF-8.
///
/// Most texts of a database are short and ASCII: for those this takes a fifth
/// of the instructions of `std::str::from_utf8`, which would be a tenth of a
/// list's.
#[inline]
pub(crate) fn utf8(bytes: &[u8]) -> Option<&str> {
    const WORD: usize = size_of::<u64>();
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let word = |at: usize| {
        let word: [u8; WORD] = bytes[at..at + WORD].try_into().unwrap_or_default();
        u64::from_ne_bytes(word)
    };
    let length = bytes.len();
    let high = match length {
        0..WORD => bytes.iter().fold(0, |high, byte| high | u64::from(*byte)),
        // The first word and the last, which may overlap.
        WORD..=16 => word(0) | word(length - WORD),
        _ => return std::str::from_utf8(bytes).ok(),
    };
    if high & HIGH != 0 {
        return std::str::from_utf8(bytes).ok();
    }
    // SAFETY: no byte has its high bit set, so that each is a character of ASCII.
    Some(unsafe { std::str::from_utf8_unchecked(bytes) })
}
