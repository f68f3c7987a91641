//! Migrations: each is applied and recorded once per database. A database with other migrations
//! than the program's is refused.

use marmota_model::{Error, ErrorKind, Field, Kind, Record, Result, Role, Schema, Value};
use marmota_store::migration::Migration;
use marmota_store::{Store, StoreBuilder, Transaction};

use crate::conformance::harness::refusal::{refused, says};
use crate::conformance::harness::subject::Subject;

/// A model whose rows record the applied migrations.
fn log(builder: StoreBuilder) -> StoreBuilder {
    let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("line", Kind::TEXT)];
    builder.schema(Schema::new("log", fields))
}

fn write(scope: &Store, line: &str) -> Result<()> {
    let mut record = Record::new(scope.table("log")?);
    record.set("line", line)?;
    scope.insert_record(&record).run().map(drop)
}

fn lines(store: &Store) -> Vec<Value> {
    let table = store.table("log").unwrap();
    let rows = store.list_records(&table).run().unwrap();
    rows.iter().map(|row| row.value("line").unwrap().clone()).collect()
}

fn wanted(lines: &[&str]) -> Vec<Value> {
    lines.iter().map(|line| Value::from(*line)).collect()
}

fn up(line: &'static str) -> impl Fn(&mut Transaction) -> Result<()> + Send + Sync {
    move |transaction| write(transaction, line)
}

fn first() -> Migration {
    Migration::new(1, "first").up(up("1")).down(up("back to 0"))
}

fn second() -> Migration {
    Migration::new(2, "second").up(up("2")).down(up("back to 1"))
}

fn third() -> Migration {
    Migration::new(3, "third").up(up("3")).down(up("back to 2"))
}

fn with<const N: usize>(subject: &Subject, migrations: [Migration; N]) -> StoreBuilder {
    migrations.into_iter().fold(log(subject.builder()), StoreBuilder::migration)
}

/// Migrations are applied once, in order, before the store is opened.
pub fn migrations_are_done_once_in_order(subject: &Subject) {
    let store = with(subject, [first(), second()]).open().unwrap();
    assert_eq!(lines(&store), wanted(&["1", "2"]));
    refused(store.table("marmota_migration"), ErrorKind::NotFound);
    store.close().unwrap();
    if !subject.capability().persistent {
        return;
    }
    for _ in 0..2 {
        let store = with(subject, [first(), second(), third()]).open().unwrap();
        assert_eq!(lines(&store), wanted(&["1", "2", "3"]));
        store.close().unwrap();
    }
    let status = with(subject, [first(), second(), third()]).migration_status().unwrap();
    let names: Vec<(u32, &str)> =
        status.iter().map(|status| (status.number, &*status.name)).collect();
    assert_eq!(names, [(1, "first"), (2, "second"), (3, "third")]);
    assert!(status.iter().all(|status| status.done.is_some() && status.is_known), "{status:?}");
    assert!(status.windows(2).all(|pair| pair[0].done <= pair[1].done), "{status:?}");
}

/// A migration that fails or panics is undone with its record. Earlier ones remain, and the earlier
/// program opens the database.
pub fn a_failed_migration_leaves_nothing(subject: &Subject) {
    let fails = || {
        Migration::new(2, "second").up(|transaction| {
            write(transaction, "half")?;
            Err(Error::new(ErrorKind::Denied, "not today"))
        })
    };
    let error = refused(with(subject, [first(), fails(), third()]).open(), ErrorKind::Denied);
    says(&error, &["migration 2 `second`", "not today"]);
    if !subject.capability().persistent {
        return;
    }
    let panics = || {
        Migration::new(2, "second").up(|transaction| {
            write(transaction, "half")?;
            panic!("a migration that panics")
        })
    };
    let builder = with(subject, [first(), panics()]);
    let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.open()));
    assert!(opened.is_err());
    let store = with(subject, [first()]).open().unwrap();
    assert_eq!(lines(&store), wanted(&["1"]));
    store.close().unwrap();
    let store = with(subject, [first(), second()]).open().unwrap();
    assert_eq!(lines(&store), wanted(&["1", "2"]));
}

/// In an empty database, migrations of rows are recorded without being applied; in a database with
/// rows, they are applied.
pub fn an_empty_database_skips_migrations_of_rows(subject: &Subject) {
    let store = with(subject, [first(), second().skip_empty(), third()]).open().unwrap();
    assert_eq!(lines(&store), wanted(&["1", "3"]));
    store.close().unwrap();
    if subject.capability().persistent {
        let fourth = Migration::new(4, "fourth").up(up("4")).skip_empty();
        let store =
            with(subject, [first(), second().skip_empty(), third(), fourth]).open().unwrap();
        assert_eq!(lines(&store), wanted(&["1", "3", "4"]));
    }
}

/// Migrations are undone in reverse order. The older program then opens the database, and the newer
/// one applies them again.
pub fn a_database_goes_back(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let all = || with(subject, [first(), second(), third()]);
    all().migrate_to(2).unwrap();
    let pending: Vec<bool> =
        all().migration_status().unwrap().iter().map(|status| status.done.is_none()).collect();
    assert_eq!(pending, [false, false, true]);
    all().open().unwrap().close().unwrap();
    all().migrate_to(1).unwrap();
    let store = with(subject, [first()]).open().unwrap();
    assert_eq!(lines(&store), wanted(&["1", "2", "3", "back to 2", "back to 1"]));
    store.close().unwrap();
    all().migrate_to(0).unwrap();
    let store = log(subject.builder()).open().unwrap();
    assert_eq!(lines(&store).len(), 6);
    store.close().unwrap();
    let store = all().open().unwrap();
    assert_eq!(lines(&store)[6..], wanted(&["1", "2", "3"]));
}

/// If a migration cannot be undone, no migration is undone. An unknown migration number is refused.
pub fn an_irreversible_migration_is_not_undone(subject: &Subject) {
    let error = refused(with(subject, [first()]).migrate_to(7), ErrorKind::Invalid);
    says(&error, &["7", "1"]);
    if !subject.capability().persistent {
        return;
    }
    let all = || with(subject, [first(), Migration::new(2, "one way").up(up("2")), third()]);
    all().open().unwrap().close().unwrap();
    let error = refused(all().migrate_to(0), ErrorKind::Unsupported);
    says(&error, &["migration 2 `one way`", "down"]);
    let store = all().open().unwrap();
    assert_eq!(lines(&store), wanted(&["1", "2", "3"]));
    store.close().unwrap();
    all().migrate_to(2).unwrap();
}

/// A gap in the numbers, and another name for an applied number, are refused.
pub fn numbers_and_names_are_settled(subject: &Subject) {
    let error = refused(with(subject, [second()]).open(), ErrorKind::Invalid);
    says(&error, &["migration 2 `second`", "expected 1"]);
    let error = refused(with(subject, [first(), third()]).open(), ErrorKind::Invalid);
    says(&error, &["migration 3 `third`", "expected 2"]);
    let error = refused(with(subject, [first(), first()]).plan(), ErrorKind::Invalid);
    says(&error, &["migration 1 `first`", "expected 2"]);
    let nothing = Migration::new(1, "nothing");
    says(&refused(with(subject, [nothing]).open(), ErrorKind::Invalid), &["nothing", "up"]);
    let own = Schema::new("marmota_migration", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    refused(subject.builder().schema(own).open(), ErrorKind::Conflict);
    if !subject.capability().persistent {
        return;
    }
    with(subject, [first(), second()]).open().unwrap().close().unwrap();
    let other = || Migration::new(2, "another").up(up("another"));
    for error in [
        refused(with(subject, [first(), other()]).open(), ErrorKind::Invalid),
        refused(with(subject, [first(), other()]).plan(), ErrorKind::Invalid),
    ] {
        says(&error, &["migration 2 `another`", "migration 2 `second`"]);
    }
    let store = with(subject, [first(), second()]).open().unwrap();
    assert_eq!(lines(&store), wanted(&["1", "2"]));
}

/// A program with fewer migrations changes nothing in a database that has more; it can list them.
pub fn a_database_of_a_newer_program_is_refused(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    with(subject, [first(), second()]).open().unwrap().close().unwrap();
    let older = || {
        let fields = vec![Field::new("id", Kind::I64).role(Role::Key)];
        with(subject, [first()]).schema(Schema::new("of_old", fields))
    };
    for error in [
        refused(older().schema_version(5).open(), ErrorKind::Invalid),
        refused(older().migrate_to(0), ErrorKind::Invalid),
        refused(log(subject.builder()).open(), ErrorKind::Invalid),
    ] {
        says(&error, &["migration 2 `second`", "newer"]);
    }
    let status = older().migration_status().unwrap();
    assert!(status[0].is_known && !status[1].is_known, "{status:?}");
    let plan = with(subject, [first(), second()])
        .schema(Schema::new("of_old", vec![Field::new("id", Kind::I64).role(Role::Key)]))
        .plan();
    assert_eq!(plan.unwrap().steps.len(), 1, "the older program made no table");
}

/// If a database is refused because of its models, no migration is applied.
pub fn a_plan_that_is_refused_does_no_migration(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let store = log(subject.builder()).open().unwrap();
    write(&store, "0").unwrap();
    store.close().unwrap();
    let strict = |migrations: Vec<Migration>| {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("line", Kind::TEXT),
            Field::new("must", Kind::I64),
        ];
        let builder = subject.builder().schema(Schema::new("log", fields));
        refused(
            migrations.into_iter().fold(builder, StoreBuilder::migration).open(),
            ErrorKind::Invalid,
        )
    };
    says(&strict(vec![first()]), &["must"]);
    let store = with(subject, [first()]).open().unwrap();
    assert_eq!(lines(&store), wanted(&["0", "1"]));
    store.close().unwrap();
    // Including migrations whose records were read before it was refused.
    says(&strict(vec![first(), second()]), &["must"]);
    let store = with(subject, [first(), second()]).open().unwrap();
    assert_eq!(lines(&store), wanted(&["0", "1", "2"]));
}

register!($ migrations_promises migrations: ; by transactions:
    migrations_are_done_once_in_order,
    a_failed_migration_leaves_nothing,
    an_empty_database_skips_migrations_of_rows,
    a_database_goes_back,
    an_irreversible_migration_is_not_undone,
    numbers_and_names_are_settled,
    a_database_of_a_newer_program_is_refused,
    a_plan_that_is_refused_does_no_migration,
);
