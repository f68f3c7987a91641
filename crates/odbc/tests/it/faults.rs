//! A driver that is missing, a server that refuses, and batches that fail in the middle.

use marmota_derive::Model;
use marmota_model::{Blob, ErrorKind, Uuid};
use marmota_odbc::{Odbc, OdbcOptions};
use marmota_store::Store;

use crate::servers::{library, mariadb_server, mariadb_url, postgres_url};

#[derive(Clone, Debug, Model, PartialEq)]
struct Note {
    id: i64,
    #[model(unique, max = 40)]
    name: String,
    count: i64,
    photo: Blob,
}

fn note(name: &str) -> Note {
    Note { id: 0, name: name.to_owned(), count: 0, photo: Blob::from(Vec::new()) }
}

/// A row with a given key.
#[derive(Clone, Debug, Model, PartialEq)]
struct Reading {
    id: Uuid,
    #[model(unique, max = 40)]
    name: String,
    value: f64,
}

fn reading(number: u128, name: &str) -> Reading {
    Reading { id: Uuid::from_u128(number), name: name.to_owned(), value: 0.5 }
}

fn open(url: &str) -> Store {
    let builder = Store::builder(Odbc::from_url(url).unwrap());
    builder.model::<Note>().model::<Reading>().open().unwrap()
}

/// Returns the URLs of new databases, one of each server.
fn urls() -> [String; 2] {
    [mariadb_url(), postgres_url()]
}

/// Returns the URL with another value of an attribute.
fn with(url: &str, name: &str, value: &str) -> String {
    let (before, rest) = url.split_once(&format!(";{name}=")).unwrap();
    let end = match rest.starts_with('{') {
        true => rest.find('}').map(|at| at + 1),
        false => rest.find(';'),
    };
    format!("{before};{name}={value}{}", &rest[end.unwrap_or(rest.len())..])
}

fn database_of(url: &str) -> &str {
    url.split_once(";Database=").unwrap().1.split(';').next().unwrap()
}

#[test]
fn an_unknown_driver_or_data_source_is_named_with_the_way_out() {
    for (url, part) in [
        ("odbc:Driver={No Such Driver};Server=localhost;UID=a;PWD=secret", "No Such Driver"),
        ("odbc:Driver=/none/libnone.so;Server=localhost;UID=a;PWD=secret", "/none/libnone.so"),
        ("odbc:DSN=none_such;UID=a;PWD=secret", "none_such"),
    ] {
        let error = Odbc::from_url(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.message().contains(part), "{error}");
        assert!(error.message().contains("odbcinst -q"), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn a_refused_connection_names_the_cause() {
    for url in urls() {
        for (url, kind, part) in [
            (with(&url, "PWD", "wrong"), ErrorKind::Denied, "`UID` and `PWD`"),
            (with(&url, "Database", "none"), ErrorKind::Invalid, "create the database"),
            (with(&url, "Port", "1"), ErrorKind::Refused, "Port=1"),
        ] {
            let error = Odbc::from_url(&url).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.message().contains(part), "{error}");
            assert!(!error.to_string().contains("w@rd"), "{error}");
        }
    }
}

#[test]
fn a_missing_privilege_is_denied_and_named() {
    for (at, url) in urls().into_iter().enumerate() {
        let store = open(&url);
        store.insert(&note("a")).run().unwrap();
        let name = database_of(&url);
        let (user, admin) = (format!("reader_{name}"), Odbc::from_url(&url).unwrap());
        let statements = match at {
            0 => [
                format!("CREATE USER {user} IDENTIFIED BY 'r'"),
                format!("GRANT SELECT ON {name}.* TO {user}"),
            ],
            _ => [
                format!("CREATE USER {user} PASSWORD 'r'"),
                format!("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}"),
            ],
        };
        for statement in statements {
            admin.execute(&statement).unwrap();
        }
        let reader = open(&with(&with(&url, "UID", &user), "PWD", "r"));
        assert_eq!(reader.count::<Note>().run().unwrap(), 1);
        let error = reader.insert(&note("b")).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.message().contains("note") && error.message().contains("GRANT"), "{error}");
        assert_eq!(store.count::<Note>().run().unwrap(), 1);
    }
}

#[test]
fn a_column_of_another_type_is_refused_before_anything_is_written() {
    for url in urls() {
        let engine = Odbc::from_url(&url).unwrap();
        engine
            .execute(
                "CREATE TABLE \"note\" (\"id\" bigint NOT NULL PRIMARY KEY, \"name\" date NOT NULL)",
            )
            .unwrap();
        let error = Store::builder(engine).model::<Note>().open().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        for part in ["`note`", "name", "date"] {
            assert!(error.message().contains(part), "{part}: {error}");
        }
    }
}

#[test]
fn a_value_that_does_not_fit_its_column_writes_nothing() {
    for url in urls() {
        let store = open(&url);
        // Another program has made the column narrower.
        let narrow = match url.contains("libmaodbc") {
            true => "ALTER TABLE \"reading\" MODIFY \"name\" varchar(5) NOT NULL",
            false => "ALTER TABLE \"reading\" ALTER COLUMN \"name\" TYPE varchar(5)",
        };
        Odbc::from_url(&url).unwrap().execute(narrow).unwrap();
        let rows = [reading(1, "a"), reading(2, "b"), reading(3, "too long"), reading(4, "c")];
        let error = store.insert_many(&rows).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("row 2"), "{error}");
        assert_eq!(store.count::<Reading>().run().unwrap(), 0);
        store.insert_many(&rows[..2]).run().unwrap();
        assert_eq!(store.count::<Reading>().run().unwrap(), 2);
    }
}

#[test]
fn a_taken_value_in_a_batch_names_its_row_and_writes_nothing() {
    for url in urls() {
        let store = open(&url);
        let mut rows: Vec<Reading> = (0..300).map(|at| reading(at, &format!("r{at}"))).collect();
        rows[217].name = "r3".to_owned();
        let error = store.insert_many(&rows).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(error.to_string().contains("row 217"), "{error}");
        assert_eq!(store.count::<Reading>().run().unwrap(), 0);
    }
}

/// Makes the server end the connection that inserts a row with the name `end`.
fn end_connections(url: &str) {
    let engine = Odbc::from_url(url).unwrap();
    match url.contains("libmaodbc") {
        true => engine
            .execute(
                "CREATE TRIGGER ends BEFORE INSERT ON \"reading\" FOR EACH ROW \
                 IF NEW.\"name\"='end' THEN KILL CONNECTION_ID(); END IF",
            )
            .unwrap(),
        false => {
            engine
                .execute(
                    "CREATE FUNCTION ends() RETURNS trigger LANGUAGE plpgsql AS \
                     'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END'",
                )
                .unwrap();
            engine
                .execute(
                    "CREATE TRIGGER ends BEFORE INSERT ON \"reading\" FOR EACH ROW \
                     WHEN (NEW.\"name\"='end') EXECUTE FUNCTION ends()",
                )
                .unwrap();
        }
    }
}

#[test]
fn a_connection_that_is_lost_in_a_batch_writes_nothing() {
    for url in urls() {
        let store = open(&url);
        end_connections(&url);
        let rows = [reading(1, "a"), reading(2, "end"), reading(3, "b")];
        let error = store.insert_many(&rows).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        assert!(error.message().contains("before you retry"), "{error}");
        let mut batch = store.batch();
        batch.insert(&note("first")).insert(&rows[1]).insert(&note("second"));
        let error = batch.all_or_nothing().run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        // In a transaction, the operations after it fail, too.
        let transaction = marmota_store::action::block_on(store.begin()).unwrap();
        transaction.insert(&note("third")).run().unwrap();
        assert!(transaction.insert(&rows[1]).run().is_err());
        assert!(transaction.insert(&note("fourth")).run().is_err());
        assert!(transaction.commit().run().is_err());
        assert_eq!(store.count::<Note>().run().unwrap(), 0);
        assert_eq!(store.count::<Reading>().run().unwrap(), 0);
        store.insert(&note("again")).run().unwrap();
        assert_eq!(store.count::<Note>().run().unwrap(), 1);
    }
}

#[test]
fn a_server_that_comes_back_is_used_again() {
    let own = marmota_mariadb::TemporaryMariadb::start().unwrap();
    let url = own.make_database().unwrap();
    let url = with(&mariadb_url(), "Database", url.rsplit('/').next().unwrap());
    let url = with(&url, "Port", &own.port().to_string());
    let store = open(&url);
    store.insert(&note("a")).run().unwrap();
    own.crash();
    let error = store.insert(&note("b")).run().unwrap_err();
    let expected = [ErrorKind::Lost, ErrorKind::Refused];
    assert!(expected.contains(&error.kind()), "{error}");
    own.resume().unwrap();
    store.insert(&note("b")).run().unwrap();
    assert_eq!(store.count::<Note>().run().unwrap(), 2);
}

#[test]
fn more_connections_than_the_server_has_are_busy() {
    let url = mariadb_url();
    let user = format!("few_{}", database_of(&url));
    let grant = format!("GRANT ALL ON {}.* TO {user} IDENTIFIED BY 'r'", database_of(&url));
    mariadb_server().execute(&format!("{grant} WITH MAX_USER_CONNECTIONS 2")).unwrap();
    let url = with(&with(&url, "UID", &user), "PWD", "r");
    let _one = Odbc::from_url(&url).unwrap();
    let _two = Odbc::from_url(&url).unwrap();
    let error = Odbc::from_url(&url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
}

#[test]
fn the_options_of_a_mariadb_driver_are_kept() {
    // An own `Option` has to count found rows itself.
    let url = format!("{};Option=2", mariadb_url());
    let store = open(&url);
    let id = store.insert(&note("a")).run().unwrap();
    let mut same = note("a");
    same.id = id;
    store.update(&same).run().unwrap();
    assert!(OdbcOptions::parse(&url).unwrap().place().contains(&library("libmaodbc.so")));
}
