//! Parsing any bytes from a PostgreSQL server does not panic, and no message extends beyond them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use marmota_postgres::wire::backend::{self, BackendMessage};
use marmota_postgres::wire::value::{self, PgType};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some((message, taken))) = backend::first(rest) {
        match message {
            BackendMessage::DataRow(mut row) => {
                while let Ok(column) = row.next_column() {
                    for pg_type in
                        [PgType::Numeric, PgType::Text, PgType::Timestamptz, PgType::Uuid]
                    {
                        let _ = column.and_then(|column| value::read(pg_type, column));
                    }
                }
            }
            BackendMessage::ErrorResponse(notice) | BackendMessage::NoticeResponse(notice) => {
                drop(notice.field(b'M'))
            }
            BackendMessage::CommandComplete(tag) => drop(backend::rows_of(tag)),
            _ => {}
        }
        rest = &rest[taken..];
    }
});
