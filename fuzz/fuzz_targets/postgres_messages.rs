//! Any bytes from a PostgreSQL server are read without a panic, and no message
//! goes beyond them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use marmota_postgres::wire::backend::{self, Message};
use marmota_postgres::wire::value::{self, Form};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some((message, taken))) = backend::first(rest) {
        match message {
            Message::Row(mut row) => {
                while let Ok(column) = row.next_column() {
                    for form in [Form::Numeric, Form::Text, Form::Timestamptz, Form::Uuid] {
                        let _ = column.and_then(|column| value::read(form, column));
                    }
                }
            }
            Message::Failure(notice) | Message::Notice(notice) => drop(notice.field(b'M')),
            Message::Complete(tag) => drop(backend::rows_of(tag)),
            _ => {}
        }
        rest = &rest[taken..];
    }
});
