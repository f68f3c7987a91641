//! Compares the statements with those in the folder `snapshots`. After a change of the SQL, read the
//! difference and copy the file that the failed test names.

use std::path::Path;

use marmota_blocking::Dialect;
use marmota_blocking::dialect::{FIREBIRD, MYSQL, ORACLE, SQL_SERVER};
use marmota_derive::Model;
use marmota_model::{Blob, Currency, Date, Json, Ref, Time, Timestamp, Uuid};
use marmota_store::Store;

use crate::recorder;

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Person {
    id: i64,
    #[model(unique, max = 40, collate = "nocase")]
    name: String,
    #[model(index, max = 200)]
    city: Option<String>,
    about: String,
    #[model(range(min = 0, max = 200))]
    age: i64,
    height: f64,
    is_member: bool,
    pay: Currency,
    born: Option<Date>,
    wakes: Time,
    seen: Timestamp,
    data: Json<Vec<String>>,
    photo: Blob,
    boss: Option<Ref<Person>>,
    #[model(version)]
    version: i64,
}

#[derive(Clone, Debug, Model, PartialEq)]
struct Reading {
    id: Uuid,
    #[model(on_delete = "cascade")]
    of: Ref<Person>,
    value: f64,
}

/// Records what verbs execute. The answers of the recorder are not those of a database, so results
/// are ignored.
fn record(dialect: &'static Dialect) -> String {
    let (engine, record) = recorder::engine(dialect);
    record.title("tables");
    let store = Store::builder(engine).model::<Person>().model::<Reading>().open().unwrap();
    let person = Person {
        name: "Ada".to_owned(),
        data: Json(vec!["first".to_owned()]),
        photo: Blob::from(vec![1]),
        ..Person::default()
    };
    record.title("insert");
    let _ = store.insert(&person).run();
    record.title("insert with a given key");
    let _ = store.insert(&Person { id: 7, ..person.clone() }).run();
    record.title("insert of several rows");
    let _ = store.insert_many(&vec![person.clone(); 5]).run();
    record.title("insert of several rows with given keys");
    let reading = |at| Reading { id: Uuid::from_u128(at), of: Ref::new(7), value: 0.5 };
    let readings: Vec<Reading> = (0..5).map(reading).collect();
    let _ = store.insert_many(&readings).run();
    record.title("update");
    let _ = store.update(&Person { id: 7, version: 3, ..person.clone() }).run();
    record.title("increment");
    let _ = store.increment(Person::PAY, 7, Currency::from(5)).run();
    record.title("get");
    let _ = store.get::<Person>(7).run();
    record.title("list");
    let filter = Person::AGE
        .ge(18)
        .and(Person::NAME.contains("d"))
        .and(Person::CITY.starts_with("Lo"))
        .and(Person::PAY.lt(Currency::from(9)))
        .and(Person::BORN.is_null().or(Person::IS_MEMBER.eq(true)))
        .and(Person::NAME.is_in(["ada", "bob"]));
    let order = Person::CITY.descending();
    let _ = store.list::<Person>().filter(filter.clone()).order(order).limit(10).run();
    record.title("count");
    let _ = store.count::<Person>().filter(filter).run();
    record.title("delete");
    let _ = store.delete::<Reading>(Uuid::from_u128(1)).run();
    record.title("delete by a filter");
    let _ = store.delete_where(Reading::VALUE.gt(1.0)).run();
    record.title("transaction");
    let _ = store.transaction(|transaction| {
        let savepoint = transaction.savepoint_run()?;
        transaction.insert(&readings[0]).run()?;
        transaction.rollback_to(&savepoint).run()
    });
    store.close().unwrap();
    record.text()
}

fn check(name: &str, dialect: &'static Dialect) {
    let found = record(dialect);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/snapshots/{name}.sql"));
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if found != expected {
        let actual = std::env::temp_dir().join(format!("marmota-{name}.sql"));
        std::fs::write(&actual, &found).unwrap();
        panic!("the SQL differs: diff {} {}", path.display(), actual.display());
    }
}

#[test]
fn sql_server_has_this_sql() {
    check("sql_server", &SQL_SERVER);
}

#[test]
fn oracle_has_this_sql() {
    check("oracle", &ORACLE);
}

#[test]
fn firebird_has_this_sql() {
    check("firebird", &FIREBIRD);
}

#[test]
fn mysql_has_this_sql() {
    check("mysql", &MYSQL);
}
