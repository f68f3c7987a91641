//! The rows of one table in pages: the fixed parts in one vector of words, the texts in one string,
//! the bytes in one vector. No row has an allocation of its own. So an insert usually allocates
//! nothing, and a list reads memory in order.
//!
//! A text that was replaced, or whose row was removed, stays in its page as garbage until the
//! garbage is larger than the live data; then the page is compacted. Long values are stored
//! outside, so that this never copies much. Pages have neither keys nor indexes.

use marmota_model::{Currency, Date, Field, Result, Time, Timestamp, Uuid, ValueForm, ValueRef};
use marmota_store::predicate::FilteredRow;

use crate::table::layout;
use crate::table::layout::{Column, Layout, NEVER_NULL};

/// The number of rows in a page.
const PAGE_ROWS: u32 = 128;
/// The maximum size of a value that is stored in a page, in bytes.
const SMALL_BYTES_MAX: usize = 2048;
/// The size below which garbage is not removed, in bytes.
const GARBAGE_BYTES_MIN: usize = 4096;
/// The mark of a word whose value is stored outside the pages.
const LARGE: u64 = 1 << 63;

struct Page {
    words: Vec<u64>,
    text: String,
    bytes: Vec<u8>,
    text_garbage: usize,
    bytes_garbage: usize,
}

enum Large {
    Text(Box<str>),
    Bytes(Box<[u8]>),
    Free,
}

/// The rows of one table, by number.
pub(crate) struct Pages {
    pub(crate) layout: Layout,
    pages: Vec<Page>,
    large: Vec<Large>,
    large_free: Vec<u32>,
    /// The numbers of removed rows, to be reused.
    free: Vec<u32>,
    /// The lowest number that was never used.
    next: u32,
}

/// A borrowed row.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    words: &'a [u64],
    page: &'a Page,
    large: &'a [Large],
}

impl Pages {
    pub(crate) const fn new(layout: Layout) -> Self {
        Self {
            layout,
            pages: Vec::new(),
            large: Vec::new(),
            large_free: Vec::new(),
            free: Vec::new(),
            next: 0,
        }
    }

    /// Returns the lowest number that no row has had.
    pub(crate) const fn end(&self) -> u32 {
        self.next
    }

    /// Returns the row with this number, which has to exist.
    #[inline]
    pub(crate) fn row(&self, number: u32) -> Stored<'_> {
        let page = &self.pages[(number / PAGE_ROWS) as usize];
        let start = (number % PAGE_ROWS) as usize * self.layout.row_words;
        Stored {
            words: &page.words[start..start + self.layout.row_words],
            page,
            large: &self.large,
        }
    }

    /// Returns the value of one field of one row.
    #[inline]
    pub(crate) fn value(&self, number: u32, field: usize) -> ValueRef<'_> {
        self.row(number).value(&self.layout.columns[field])
    }

    /// Returns the word of a field that is never NULL and is stored as an integer.
    #[inline]
    pub(crate) fn int(&self, number: u32, field: usize) -> i64 {
        self.row(number).words[self.layout.columns[field].place as usize] as i64
    }

    /// Returns a number for a new row, all of whose fields are zero until [`Pages::write`]; `None`
    /// if there are 2³² rows.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        let number = self.next;
        self.next = number.checked_add(1).filter(|&next| next != u32::MAX)?;
        if number.is_multiple_of(PAGE_ROWS) {
            let page = self.new_page();
            self.pages.push(page);
        }
        Some(number)
    }

    /// Takes the number of a removed row again; usually it was the last one removed.
    pub(crate) fn take_again(&mut self, number: u32) -> bool {
        let place = self.free.iter().rposition(|&free| free == number);
        place.map(|place| self.free.remove(place)).is_some()
    }

    fn new_page(&self) -> Page {
        // The size of the last page's texts is an estimate for the new page.
        let text = match self.pages.last() {
            Some(last) => last.text.len() + last.text.len() / 8,
            None => 0,
        };
        Page {
            words: vec![0; PAGE_ROWS as usize * self.layout.row_words],
            text: String::with_capacity(text),
            bytes: Vec::new(),
            text_garbage: 0,
            bytes_garbage: 0,
        }
    }

    /// Writes one field. The value has passed [`crate::table::layout::check`].
    #[inline]
    pub(crate) fn write(&mut self, number: u32, field: usize, value: ValueRef<'_>) {
        let column = self.layout.columns[field];
        if column.is_loose() {
            self.write_loose(number, column, value);
            return;
        }
        write_fixed(self.words_mut(number), column, value);
    }

    #[inline]
    fn words_mut(&mut self, number: u32) -> &mut [u64] {
        let start = (number % PAGE_ROWS) as usize * self.layout.row_words;
        let words = &mut self.pages[(number / PAGE_ROWS) as usize].words;
        &mut words[start..start + self.layout.row_words]
    }

    /// Writes all fields of a row from [`Pages::take`], which are still zero.
    ///
    /// # Errors
    /// If a value does not fit its field; then the row has to be removed.
    #[inline]
    pub(crate) fn fill<'v>(
        &mut self,
        number: u32,
        fields: &[Field],
        value: impl Fn(usize) -> ValueRef<'v>,
    ) -> Result<()> {
        let row_words = self.layout.row_words;
        let page = &mut self.pages[(number / PAGE_ROWS) as usize];
        let start = (number % PAGE_ROWS) as usize * row_words;
        let words = &mut page.words[start..start + row_words];
        for (position, column) in self.layout.columns.iter().enumerate() {
            let place = column.place as usize;
            let value = value(position);
            match (column.form, value) {
                (ValueForm::Int, ValueRef::Int(value)) => words[place] = value as u64,
                (ValueForm::Currency, ValueRef::Currency(value)) => {
                    words[place] = value.scaled() as u64;
                }
                (ValueForm::Timestamp, ValueRef::Timestamp(value)) => {
                    words[place] = value.micros() as u64;
                }
                (ValueForm::Text, ValueRef::Text(text))
                | (ValueForm::Json, ValueRef::Json(text))
                    if text.len() <= SMALL_BYTES_MAX =>
                {
                    words[place] = small(page.text.len(), text.len());
                    page.text.push_str(text);
                }
                (ValueForm::Text, ValueRef::Text(text))
                | (ValueForm::Json, ValueRef::Json(text)) => {
                    words[place] =
                        keep(&mut self.large, &mut self.large_free, Large::Text(text.into()));
                }
                (ValueForm::Blob, ValueRef::Blob(bytes)) if bytes.len() <= SMALL_BYTES_MAX => {
                    words[place] = small(page.bytes.len(), bytes.len());
                    page.bytes.extend_from_slice(bytes);
                }
                (ValueForm::Blob, ValueRef::Blob(bytes)) => {
                    words[place] =
                        keep(&mut self.large, &mut self.large_free, Large::Bytes(bytes.into()));
                }
                (_, value) => {
                    layout::check(column, &fields[position], value)?;
                    write_fixed(words, *column, value);
                }
            }
        }
        Ok(())
    }

    fn write_loose(&mut self, number: u32, column: Column, value: ValueRef<'_>) {
        let at = number / PAGE_ROWS;
        let place = (number % PAGE_ROWS) as usize * self.layout.row_words + column.place as usize;
        let page = &mut self.pages[at as usize];
        let old = page.words[place];
        if old != 0 {
            self.forget(number, column, old);
        }
        let page = &mut self.pages[at as usize];
        let word = match value {
            ValueRef::Text(text) | ValueRef::Json(text) if text.len() <= SMALL_BYTES_MAX => {
                let word = small(page.text.len(), text.len());
                page.text.push_str(text);
                word
            }
            ValueRef::Blob(bytes) if bytes.len() <= SMALL_BYTES_MAX => {
                let word = small(page.bytes.len(), bytes.len());
                page.bytes.extend_from_slice(bytes);
                word
            }
            ValueRef::Text(text) | ValueRef::Json(text) => {
                keep(&mut self.large, &mut self.large_free, Large::Text(text.into()))
            }
            ValueRef::Blob(bytes) => {
                keep(&mut self.large, &mut self.large_free, Large::Bytes(bytes.into()))
            }
            _ => 0,
        };
        let words = self.words_mut(number);
        words[column.place as usize] = word;
        set_null(words, column, value.is_null());
    }

    /// Releases the value that the word of a loose field refers to.
    fn forget(&mut self, number: u32, column: Column, word: u64) {
        if word & LARGE != 0 {
            let index = word & !LARGE;
            self.large[index as usize] = Large::Free;
            self.large_free.push(index as u32);
            return;
        }
        let at = (number / PAGE_ROWS) as usize;
        let place = (number % PAGE_ROWS) as usize * self.layout.row_words + column.place as usize;
        let page = &mut self.pages[at];
        page.words[place] = 0;
        let (_, length) = small_range(word);
        let (garbage, all) = if column.form == ValueForm::Blob {
            page.bytes_garbage += length;
            (page.bytes_garbage, page.bytes.len())
        } else {
            page.text_garbage += length;
            (page.text_garbage, page.text.len())
        };
        if garbage >= GARBAGE_BYTES_MIN && garbage * 2 > all {
            page.compact(&self.layout);
        }
    }

    /// Removes a row; its number may be reused.
    pub(crate) fn remove(&mut self, number: u32) {
        for index in 0..self.layout.loose.len() {
            let column = self.layout.columns[self.layout.loose[index]];
            let word = self.words_mut(number)[column.place as usize];
            if word != 0 {
                self.forget(number, column, word);
            }
        }
        self.words_mut(number).fill(0);
        self.free.push(number);
    }

    /// Returns the size of the rows in bytes, including reserved memory.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.pages
            .iter()
            .map(|page| page.words.capacity() * 8 + page.text.capacity() + page.bytes.capacity())
            .sum()
    }
}

impl Page {
    /// Rewrites texts and bytes without the garbage.
    fn compact(&mut self, layout: &Layout) {
        let mut text = String::with_capacity(self.text.len() - self.text_garbage);
        let mut bytes = Vec::with_capacity(self.bytes.len() - self.bytes_garbage);
        for row in self.words.chunks_exact_mut(layout.row_words) {
            for &field in &layout.loose {
                let column = layout.columns[field];
                let word = &mut row[column.place as usize];
                if *word == 0 || *word & LARGE != 0 {
                    continue;
                }
                let (start, length) = small_range(*word);
                if column.form == ValueForm::Blob {
                    *word = small(bytes.len(), length);
                    bytes.extend_from_slice(&self.bytes[start..start + length]);
                } else {
                    *word = small(text.len(), length);
                    text.push_str(&self.text[start..start + length]);
                }
            }
        }
        (self.text, self.bytes, self.text_garbage, self.bytes_garbage) = (text, bytes, 0, 0);
    }
}

/// Returns the word of a value in its page. A page has at most 128 rows × 128 fields × 2 KiB, twice
/// with garbage: both parts fit their halves.
const fn small(start: usize, length: usize) -> u64 {
    (length as u64) << 32 | start as u64
}

const fn small_range(word: u64) -> (usize, usize) {
    ((word & 0xFFFF_FFFF) as usize, (word >> 32) as usize)
}

/// Writes a value to the fixed part.
fn write_fixed(words: &mut [u64], column: Column, value: ValueRef<'_>) {
    set_null(words, column, value.is_null());
    let place = column.place as usize;
    match value {
        ValueRef::Bool(value) => set_bit(words, column.place, value),
        ValueRef::Int(value) => words[place] = value as u64,
        ValueRef::Float(value) => words[place] = value.to_bits(),
        ValueRef::Currency(value) => words[place] = value.scaled() as u64,
        ValueRef::Date(value) => words[place] = i64::from(value.days()) as u64,
        ValueRef::Time(value) => words[place] = value.micros() as u64,
        ValueRef::Timestamp(value) => words[place] = value.micros() as u64,
        ValueRef::Uuid(value) => {
            let (high, low) = value.as_u64_pair();
            words[place] = high;
            words[place + 1] = low;
        }
        ValueRef::Absent
        | ValueRef::Null
        | ValueRef::Text(_)
        | ValueRef::Json(_)
        | ValueRef::Blob(_) => {}
    }
}

/// Stores a value outside the pages; returns its word.
fn keep(all: &mut Vec<Large>, free: &mut Vec<u32>, large: Large) -> u64 {
    let index = match free.pop() {
        Some(index) => {
            all[index as usize] = large;
            index as usize
        }
        None => {
            all.push(large);
            all.len() - 1
        }
    };
    LARGE | index as u64
}

fn set_bit(words: &mut [u64], bit: u16, set: bool) {
    let word = &mut words[bit as usize / 64];
    let mask = 1 << (bit % 64);
    if set { *word |= mask } else { *word &= !mask }
}

#[inline]
fn set_null(words: &mut [u64], column: Column, null: bool) {
    if column.null != NEVER_NULL {
        set_bit(words, column.null, null);
    }
}

impl<'a> Stored<'a> {
    #[inline]
    const fn bit(&self, bit: u16) -> bool {
        self.words[bit as usize / 64] >> (bit % 64) & 1 == 1
    }

    /// Returns true if the field is NULL.
    #[inline]
    pub(crate) const fn is_null(&self, column: &Column) -> bool {
        column.null != NEVER_NULL && self.bit(column.null)
    }

    /// Returns the word of an ordinal field that is not NULL.
    #[inline]
    pub(crate) const fn ordinal(&self, column: &Column) -> i64 {
        self.words[column.place as usize] as i64
    }

    /// Returns the value of a field.
    #[inline]
    pub(crate) fn value(&self, column: &Column) -> ValueRef<'a> {
        let mut value = ValueRef::Absent;
        self.read(column, &mut value);
        value
    }

    /// Reads a field directly into its destination: a returned value would be copied there, and
    /// this copy waits for the bytes just written (half of the time of a read by key).
    #[inline(never)]
    pub(crate) fn read(&self, column: &Column, value: &mut ValueRef<'a>) {
        *value = self.value_in_place(column);
    }

    /// Returns the value, for the one loop over many rows: it makes a list a tenth faster, but
    /// would make a get a fifth slower.
    #[inline(always)]
    pub(crate) fn value_in_place(&self, column: &Column) -> ValueRef<'a> {
        if self.is_null(column) {
            return ValueRef::Null;
        }
        // A boolean's place is a bit; the word at that index is not used.
        let word = self.words.get(column.place as usize).copied().unwrap_or_default();
        let int = word as i64;
        match column.form {
            ValueForm::Bool => ValueRef::Bool(self.bit(column.place)),
            ValueForm::Int => ValueRef::Int(int),
            ValueForm::Float => ValueRef::Float(f64::from_bits(word)),
            ValueForm::Currency => ValueRef::Currency(Currency::from_scaled(int)),
            ValueForm::Text => ValueRef::Text(self.text(word)),
            ValueForm::Json => ValueRef::Json(self.text(word)),
            ValueForm::Blob => ValueRef::Blob(self.bytes(word)),
            // The stored number was a valid date or time when it was written.
            ValueForm::Date => ValueRef::Date(Date::from_days(int as i32).unwrap_or_default()),
            ValueForm::Time => ValueRef::Time(Time::from_micros(int).unwrap_or_default()),
            ValueForm::Timestamp => {
                ValueRef::Timestamp(Timestamp::from_micros(int).unwrap_or_default())
            }
            ValueForm::Uuid => {
                ValueRef::Uuid(Uuid::from_u64_pair(word, self.words[column.place as usize + 1]))
            }
        }
    }

    #[inline]
    fn text(&self, word: u64) -> &'a str {
        if word & LARGE != 0 {
            return match &self.large[(word & !LARGE) as usize] {
                Large::Text(text) => text,
                _ => "",
            };
        }
        let (start, length) = small_range(word);
        &self.page.text[start..start + length]
    }

    #[inline]
    fn bytes(&self, word: u64) -> &'a [u8] {
        if word & LARGE != 0 {
            return match &self.large[(word & !LARGE) as usize] {
                Large::Bytes(bytes) => bytes,
                _ => &[],
            };
        }
        let (start, length) = small_range(word);
        &self.page.bytes[start..start + length]
    }
}

impl<'a> FilteredRow<'a, Column> for Stored<'a> {
    #[inline]
    fn is_null(self, column: &Column) -> bool {
        Stored::is_null(&self, column)
    }

    #[inline]
    fn ordinal(self, column: &Column) -> i64 {
        Stored::ordinal(&self, column)
    }

    #[inline]
    fn value(self, column: &Column) -> ValueRef<'a> {
        Stored::value(&self, column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use marmota_model::{Kind, Role, Schema, Table};

    fn pages() -> Pages {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("name", Kind::TEXT).nullable(true),
            Field::new("photo", Kind::Blob).nullable(true),
            Field::new("alive", Kind::Bool).nullable(true),
            Field::new("tag", Kind::Uuid),
        ];
        Pages::new(Layout::new(&Table::new(Schema::new("a", fields)).unwrap()))
    }

    #[test]
    fn what_is_written_is_read() {
        let mut pages = pages();
        let long = "é".repeat(3000);
        let row = pages.take().unwrap();
        let values = [
            ValueRef::Int(-7),
            ValueRef::Text("Curie"),
            ValueRef::Blob(&[1, 2]),
            ValueRef::Bool(true),
            ValueRef::Uuid(Uuid::from_u128(5 << 64 | 9)),
        ];
        for (field, &value) in values.iter().enumerate() {
            pages.write(row, field, value);
        }
        for (field, &value) in values.iter().enumerate() {
            assert_eq!(pages.value(row, field), value);
        }
        pages.write(row, 1, ValueRef::Text(&long));
        pages.write(row, 3, ValueRef::Null);
        assert_eq!(pages.value(row, 1), ValueRef::Text(&long));
        assert_eq!(pages.value(row, 3), ValueRef::Null);
        pages.write(row, 1, ValueRef::Text(""));
        assert_eq!(pages.value(row, 1), ValueRef::Text(""));
        assert_eq!(pages.large_free.len(), 1);
    }

    #[test]
    fn garbage_is_given_back() {
        let mut pages = pages();
        let rows: Vec<u32> = (0..100).map(|_| pages.take().unwrap()).collect();
        for round in 0..200 {
            for &row in &rows {
                let text = format!("{row} in round {round}");
                pages.write(row, 1, ValueRef::Text(&text));
                pages.write(row, 2, ValueRef::Blob(text.as_bytes()));
            }
        }
        for &row in &rows {
            let text = format!("{row} in round 199");
            assert_eq!(pages.value(row, 1), ValueRef::Text(&text));
            assert_eq!(pages.value(row, 2), ValueRef::Blob(text.as_bytes()));
        }
        assert!(pages.bytes() < 40_000, "{}", pages.bytes());
    }

    #[test]
    fn a_removed_number_comes_again_empty() {
        let mut pages = pages();
        let (first, second) = (pages.take().unwrap(), pages.take().unwrap());
        pages.write(first, 1, ValueRef::Text("x"));
        pages.remove(first);
        pages.remove(second);
        assert!(pages.take_again(first));
        assert!(!pages.take_again(first));
        assert_eq!(pages.value(first, 1), ValueRef::Text(""));
        assert_eq!(pages.take(), Some(second));
    }
}
