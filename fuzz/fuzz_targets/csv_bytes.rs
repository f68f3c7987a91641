//! CSV of any bytes: no panic, and the same rows or the same error in however
//! many parts it is read.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use marmota_columns::csv::Loader;
use marmota_model::{Field, Kind, Role, Schema, Table};

static TABLE: LazyLock<Arc<Table>> = LazyLock::new(|| {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("a", Kind::TEXT),
        Field::new("b", Kind::TEXT).nullable(true),
        Field::new("c", Kind::I64).nullable(true),
    ];
    Arc::new(Table::new(Schema::new("row", fields)).expect("the schema is sound"))
});

fuzz_target!(|input: (u8, &[u8])| {
    let (threads, lines) = input;
    let text = [b"b,c,a\n", lines].concat();
    let read = |threads| {
        let rows = Loader::new().threads(threads).read_records(&TABLE, &text);
        rows.map(|rows| {
            let mut json = Vec::new();
            let fields = rows.json(&["id", "a", "b", "c"]).expect("the fields are there");
            fields.array(&mut json, 0..rows.len() as u32);
            (json, rows.fingerprint())
        })
        .map_err(|error| error.to_string())
    };
    assert_eq!(read(1), read(usize::from(threads % 8)));
});
