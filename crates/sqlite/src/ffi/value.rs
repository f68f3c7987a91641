//! Values bound to a statement ([`Bound`]) and values of a row ([`Row`], [`Stored`]), borrowed in
//! place. The parent module steps statements.

use std::marker::PhantomData;

use super::raw::{self, Cell, CellValue};

/// A value to bind. Texts and bytes are bound in place.
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

    /// A text of a record, in UTF-8 unless the file is invalid.
    #[inline]
    pub(super) fn stored_text(bytes: &'v [u8]) -> Self {
        Self::of_bytes(bytes, raw::TEXT)
    }

    /// A value of a row.
    pub(crate) fn stored(cell: StoredCell<'v>) -> Self {
        Self::of_cell(*cell.0)
    }

    #[inline]
    pub(super) fn of_cell(cell: Cell) -> Self {
        Self { cell, value: PhantomData }
    }

    #[inline]
    fn of_bytes(bytes: &'v [u8], storage: u32) -> Self {
        // A length that does not fit exceeds SQLite's limit in any case, and is refused before the
        // bytes are read.
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
    /// A text, in UTF-8 unless the file is invalid.
    Text(&'r [u8]),
    /// Bytes.
    Blob(&'r [u8]),
}

impl<'r> Stored<'r> {
    /// Returns the integer, or 0.
    pub(crate) fn int(self) -> i64 {
        match self {
            Self::Integer(integer) => integer,
            _ => 0,
        }
    }

    /// Returns the text or bytes, or an empty slice.
    pub(crate) fn bytes(self) -> &'r [u8] {
        match self {
            Self::Text(bytes) | Self::Blob(bytes) => bytes,
            _ => &[],
        }
    }
}

/// The buffer for the values of a row.
pub(crate) struct Cells<const N: usize>(pub(super) [Cell; N]);

impl<const N: usize> Cells<N> {
    pub(crate) const fn new() -> Self {
        Self([Cell::NULL; N])
    }
}

/// The current row of a statement, borrowed until its next step.
#[derive(Clone, Copy)]
pub(crate) struct Row<'r, const N: usize> {
    pub(super) cells: &'r [Cell; N],
    pub(super) run: PhantomData<&'r ()>,
}

/// A value of a [`Row`].
#[derive(Clone, Copy)]
pub(crate) struct StoredCell<'r>(&'r Cell);

impl<'r, const N: usize> Row<'r, N> {
    /// Returns the value of a column.
    pub(crate) fn at(&self, column: usize) -> Stored<'r> {
        self.cell(column).stored()
    }

    /// Returns the cell of a column.
    pub(crate) fn cell(&self, column: usize) -> StoredCell<'r> {
        StoredCell(&self.cells[column])
    }

    /// Returns the cells.
    #[inline(always)]
    pub(crate) fn cells(self) -> impl Iterator<Item = StoredCell<'r>> {
        self.cells.iter().map(StoredCell)
    }
}

impl<'r> StoredCell<'r> {
    pub(super) const fn of(cell: &'r Cell) -> Self {
        Self(cell)
    }

    /// Returns the value.
    pub(crate) fn stored(self) -> Stored<'r> {
        let integer = self.integer().map(Stored::Integer);
        integer
            .or_else(|| self.float().map(Stored::Real))
            .or_else(|| self.text().map(Stored::Text))
            .or_else(|| self.blob().map(Stored::Blob))
            .unwrap_or(Stored::Null)
    }

    /// Returns the value if it is an integer.
    #[inline(always)]
    pub(crate) fn integer(self) -> Option<i64> {
        // SAFETY: `marmota_row` or a [`Bound`] wrote the member that `storage` denotes; the cells
        // are not written otherwise.
        if self.0.storage == raw::INTEGER { Some(unsafe { self.0.value.integer }) } else { None }
    }

    /// Returns the value if it is a float.
    #[inline(always)]
    pub(crate) fn float(self) -> Option<f64> {
        // SAFETY: as for `integer`.
        if self.0.storage == raw::FLOAT { Some(unsafe { self.0.value.real }) } else { None }
    }

    /// Returns the bytes if it is a text: in UTF-8 unless the file is invalid.
    #[inline(always)]
    pub(crate) fn text(self) -> Option<&'r [u8]> {
        // SAFETY: as for `integer`; the bytes live for `'r`.
        (self.0.storage == raw::TEXT).then(|| unsafe { bytes_of(self.0) })
    }

    /// Returns the bytes if it is a blob.
    #[inline(always)]
    pub(crate) fn blob(self) -> Option<&'r [u8]> {
        // SAFETY: as for `text`.
        (self.0.storage == raw::BLOB).then(|| unsafe { bytes_of(self.0) })
    }

    /// Returns true for NULL.
    pub(crate) fn is_null(self) -> bool {
        self.0.storage == raw::NULL
    }
}

/// # Safety
/// The cell holds bytes that live for `'r`.
#[inline]
unsafe fn bytes_of<'r>(cell: &Cell) -> &'r [u8] {
    // The pointer may be null for zero bytes.
    if cell.length == 0 {
        return &[];
    }
    // SAFETY: by contract; the pointer and the length belong together.
    unsafe { std::slice::from_raw_parts(cell.value.bytes, cell.length as usize) }
}

/// Returns the bytes as text if they are UTF-8.
///
/// Most texts of a database are short and ASCII: for those this takes a fifth of the instructions
/// of `std::str::from_utf8`, which would take a tenth of the time of a list.
#[inline]
pub(crate) fn utf8(bytes: &[u8]) -> Option<&str> {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let all = |any: u64, word: &[u8]| {
        any | u64::from_ne_bytes(word.try_into().unwrap_or([0x80; size_of::<u64>()]))
    };
    // The last word may overlap the one before it.
    let high = match (bytes.last_chunk::<8>(), bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(last), ..) if bytes.len() <= 64 => {
            bytes.chunks_exact(last.len()).fold(u64::from_ne_bytes(*last), all)
        }
        (Some(_), ..) => return std::str::from_utf8(bytes).ok(),
        (None, Some(first), Some(last)) => {
            u64::from(u32::from_ne_bytes(*first) | u32::from_ne_bytes(*last))
        }
        _ => bytes.iter().fold(0, |high, byte| high | u64::from(*byte)),
    };
    if high & HIGH != 0 {
        return std::str::from_utf8(bytes).ok();
    }
    // SAFETY: no byte has its high bit set, so each is an ASCII character.
    Some(unsafe { std::str::from_utf8_unchecked(bytes) })
}
