//! Fields for files: their descriptions in rows, and the guard that decides on each change of one,
//! on every path of a write.

use std::sync::Arc;

use marmota_derive::Model;
use marmota_model::rule::violation;
use marmota_model::{Error, ErrorKind, File, Result, Timestamp, Uuid, ValueRef, parse_filter};
use marmota_store::StoreBuilder;
use marmota_store::hook::{FileChange, FileGuard};

use crate::conformance::harness::refusal::blamed;
use crate::conformance::harness::subject::{Stand, Subject};

register!($ file_fields_promises file_fields:
    descriptions_are_stored_and_filtered,
    ; by transactions:
    the_guard_decides_on_every_path,
);

#[derive(Clone, Debug, Model, PartialEq)]
struct Letter {
    id: i64,
    #[model(unique)]
    number: i64,
    #[model(bytes_max = "1 MB", types("text/*"))]
    scan: Option<File>,
    note: Option<String>,
}

/// Accepts files by their name.
struct ByName;

impl FileGuard for ByName {
    fn before_write(&self, change: &FileChange<'_>) -> Result<()> {
        let is_locked = change.before.is_some_and(|file| file.name == "locked");
        let is_known = change.after.is_none_or(|file| file.name != "unknown");
        match is_known && !is_locked {
            true => Ok(()),
            false => {
                let field = &change.table.fields()[change.field];
                Err(Error::invalid(vec![violation(field, ValueRef::Null, "file", "is refused")]))
            }
        }
    }
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Letter>()
}

/// The guard is that of the served store, if the store is a client's.
fn guarded(builder: StoreBuilder) -> StoreBuilder {
    let builder = models(builder);
    match builder.capability().guarded_writes {
        true => builder.file_guard(Arc::new(ByName)),
        false => builder,
    }
}

fn file(name: &str) -> File {
    File {
        id: Uuid::from_u128(name.len() as u128),
        name: name.to_owned(),
        content_type: "text/plain".to_owned(),
        bytes: 1_000_000_000_007,
        sha256: "0123456789abcdef".repeat(4),
        created: Timestamp::from_micros(1_795_600_000_123_456).unwrap(),
    }
}

fn letter(number: i64, name: &str) -> Letter {
    Letter { id: 0, number, scan: Some(file(name)), note: None }
}

/// A description comes back as it was written, and conditions on its members select rows.
pub fn descriptions_are_stored_and_filtered(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let odd = "é \"quoted\" ../\n{}";
    let id = stand.insert(&letter(1, odd)).run().unwrap();
    stand.insert(&Letter { scan: None, ..letter(2, "") }).run().unwrap();
    assert_eq!(stand.get::<Letter>(id).run().unwrap().scan, Some(file(odd)));
    let table = stand.table("letter").unwrap();
    for (filter, rows) in [
        ("scan.bytes > 1000000000006", 1),
        ("scan.type ^ 'text/'", 1),
        ("scan.type ^ 'image/'", 0),
        ("scan = null", 1),
        ("scan != null", 1),
    ] {
        let filter_of = parse_filter(&table, filter).unwrap();
        let found = stand.list_records(&table).filter(filter_of).run().unwrap();
        assert_eq!(found.len(), rows, "{filter}");
    }
    for wrong in [
        File { sha256: "0".to_owned(), ..file("a") },
        File { content_type: "text".to_owned(), ..file("a") },
        File { name: "\0".to_owned(), ..file("a") },
    ] {
        let refused = stand.insert(&Letter { scan: Some(wrong), ..letter(3, "") }).run();
        blamed(refused, ErrorKind::Invalid, "scan", "type");
    }
}

/// The guard gets the file before and after each write that changes it, and its refusal undoes the
/// write.
pub fn the_guard_decides_on_every_path(subject: &Subject) {
    let stand = Stand::open(subject, guarded);
    let known = stand.insert(&letter(1, "known")).run().unwrap();
    let locked = stand.insert(&letter(2, "locked")).run().unwrap();
    let unknown = letter(3, "unknown");
    let mut refused = vec![
        stand.insert(&unknown).run().unwrap_err(),
        stand.insert_many(&[letter(4, "known"), unknown.clone()]).run().unwrap_err(),
        stand.update(&Letter { id: known, ..unknown.clone() }).run().unwrap_err(),
        stand.patch::<Letter>(known).set(Letter::SCAN, Some(file("unknown"))).run().unwrap_err(),
        stand.upsert(&Letter { id: known, ..unknown.clone() }).run().unwrap_err(),
        stand.insert(&Letter { number: 2, ..letter(2, "known") }).or_replace().run().unwrap_err(),
        stand.patch::<Letter>(locked).set(Letter::SCAN, None).run().unwrap_err(),
        stand.delete::<Letter>(locked).run().unwrap_err(),
        stand.delete_where(Letter::NUMBER.gt(0)).run().unwrap_err(),
        stand
            .transaction(|tx| tx.update(&Letter { id: locked, ..letter(2, "known") }).run())
            .unwrap_err(),
    ];
    let mut batch = stand.batch();
    batch.insert(&letter(5, "known"));
    batch.delete::<Letter>(locked);
    refused.extend(batch.all_or_nothing().run().err());
    assert_eq!(refused.len(), 11);
    for error in &refused {
        assert_eq!(error.violations().first().map(|one| &*one.rule), Some("file"), "{error}");
    }
    let rows = stand.list::<Letter>().order(Letter::NUMBER.ascending()).run().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row.scan.as_ref().map(|file| &*file.name)).collect();
    assert_eq!(names, [Some("known"), Some("locked")]);

    // A field that keeps its file is not checked.
    stand.update(&Letter { note: Some("read".into()), ..rows[1].clone() }).run().unwrap();
    stand.patch::<Letter>(locked).set(Letter::NOTE, Some("again".to_owned())).run().unwrap();
    stand.delete::<Letter>(known).run().unwrap();
}
