//! CSV of any bytes: no panic, the same rows or the same error for any number of parts, and the
//! same rows as the `csv` crate reads.
//!
//! The first byte selects the options: see [`Options`].
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use marmota_columns::csv::Loader;
use marmota_model::{Field, Kind, Role, Schema, Table, ValueRef};

/// More than a window of the reader, so that records cross its end.
const LONG_BYTES: usize = 150_000;

static TABLE: LazyLock<Arc<Table>> = LazyLock::new(|| {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("a", Kind::TEXT),
        Field::new("b", Kind::TEXT).nullable(true),
        Field::new("c", Kind::I64).nullable(true),
    ];
    Arc::new(Table::new(Schema::new("row", fields)).expect("the schema is valid"))
});

/// How the file is made from the bytes, and how it is read. Common combinations are ASCII letters,
/// so that seeds can be written in an editor.
struct Options {
    /// Bits 0 to 2.
    threads: usize,
    /// Bits 3 and 4.
    separator: u8,
    /// Bit 5: the bytes start with a header line.
    has_header: bool,
    /// Bit 6: a byte order mark is added, and lines end with CRLF.
    is_marked: bool,
    /// Bit 7: the bytes are repeated.
    is_long: bool,
}

impl Options {
    fn new(byte: u8) -> Self {
        Self {
            threads: usize::from(byte % 8),
            separator: b",;\t|"[usize::from(byte >> 3 & 3)],
            has_header: byte & 32 != 0,
            is_marked: byte & 64 != 0,
            is_long: byte & 128 != 0,
        }
    }

    fn file(&self, bytes: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        if self.is_marked {
            file.extend_from_slice("\u{feff}".as_bytes());
        }
        if !self.has_header {
            file.extend_from_slice(&[b'b', self.separator, b'c', self.separator, b'a']);
            file.extend_from_slice(if self.is_marked { b"\r\n" } else { b"\n" });
        }
        let times = if self.is_long { LONG_BYTES.div_ceil(bytes.len().max(1)) } else { 1 };
        file.extend(bytes.repeat(times));
        file
    }

    fn read(&self, file: &[u8], threads: usize) -> Result<(Vec<u8>, u64), String> {
        let loader = Loader::new().threads(threads).separator(self.separator);
        let rows = loader.read_records(&TABLE, file).map_err(|error| error.to_string())?;
        // A lone CR is text for this reader, but a line end for the `csv` crate.
        let mut returns = file.windows(2).filter(|two| two[0] == b'\r' && two[1] != b'\n');
        if !self.has_header && returns.next().is_none() && file.last() != Some(&b'\r') {
            self.compare(&rows, file);
        }
        let mut json = Vec::new();
        let fields = rows.json(&["id", "a", "b", "c"]).expect("the fields exist");
        fields.array(&mut json, 0..rows.len() as u32);
        Ok((json, rows.fingerprint()))
    }

    /// The `csv` crate accepts more input, but what both accept must be equal.
    fn compare(&self, rows: &marmota_columns::Columns, file: &[u8]) {
        let mut other = csv::ReaderBuilder::new().delimiter(self.separator).from_reader(file);
        let mut count = 0;
        for record in other.byte_records() {
            let record = record.expect("the csv crate reads the record too");
            for (position, column) in [(1, 2), (2, 0), (3, 1)] {
                let there = &record[column];
                match rows.value(count, position).expect("the row exists") {
                    ValueRef::Text(text) => assert_eq!(text.as_bytes(), there),
                    ValueRef::Int(int) => {
                        let there = str::from_utf8(there).ok().and_then(marmota_model::text::integer);
                        assert_eq!(Some(int), there);
                    }
                    _ => assert_eq!(there, b""),
                }
            }
            count += 1;
        }
        assert_eq!(rows.len(), count as usize);
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&how, bytes)) = input.split_first() else { return };
    let how = Options::new(how);
    let file = how.file(bytes);
    assert_eq!(how.read(&file, 1), how.read(&file, how.threads));
});
