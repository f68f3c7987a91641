//! SQL across SQLite files: encrypted ones are read with their keys, and what a statement cannot
//! see is refused with the way out.

use std::path::Path;

use marmota_derive::Model;
use marmota_model::ErrorKind;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::Store;

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Person {
    id: i64,
    name: String,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Sale {
    id: i64,
    person: i64,
    item: String,
}

fn store(first: Sqlite, other: Sqlite) -> Store {
    let store = Store::builder(first)
        .model::<Person>()
        .database("archive", other, |archive| archive.model::<Sale>());
    let store = store.open().unwrap();
    for name in ["Ana", "Bob"] {
        let person = store.insert(&Person { id: 0, name: name.to_owned() }).run().unwrap();
        let sale = Sale { id: 0, person, item: format!("item of {name}") };
        store.insert(&sale).run().unwrap();
    }
    store
}

fn file(folder: &Path, name: &str, options: SqliteOptions) -> Sqlite {
    Sqlite::open(Location::File(folder.join(name)), options).unwrap()
}

const JOIN: &str = "SELECT p.name, s.item FROM person p JOIN archive.sale s ON s.person = p.id \
                    ORDER BY s.item DESC";

fn joined(store: &Store) -> marmota_model::Result<Vec<(String, String)>> {
    store.sql(JOIN).map(|row| Ok((row.read("name")?, row.read("item")?))).run()
}

fn check(store: &Store) {
    let expected = ["Bob", "Ana"].map(|name| (name.to_owned(), format!("item of {name}")));
    assert_eq!(joined(store).unwrap(), expected);
    // From other connections as well.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(joined(store).unwrap(), expected));
        }
    });
}

#[cfg(feature = "encryption")]
#[test]
fn files_with_keys_of_their_own_are_joined() {
    use marmota_sqlite::EncryptionKey;

    type MakeOptions = fn() -> SqliteOptions;

    let raw = || SqliteOptions::default().key(|| Ok(EncryptionKey::raw([7; 32])));
    let passphrase =
        || SqliteOptions::default().key(|| EncryptionKey::passphrase("open sesame".to_owned()));
    let pairs: [(MakeOptions, MakeOptions); 5] = [
        (raw, passphrase),
        (passphrase, passphrase),
        (raw, SqliteOptions::default),
        (SqliteOptions::default, raw),
        (SqliteOptions::default, passphrase),
    ];
    for (round, (first, other)) in pairs.into_iter().enumerate() {
        eprintln!("round {round}");
        let folder = tempfile::tempdir().unwrap();
        let open = |name, options| file(folder.path(), name, options);
        let database = store(open("a.db", first()), open("b.db", other()));
        check(&database);
        database.close().unwrap();
        // And where the file is not new.
        let again = Store::builder(open("a.db", first())).model::<Person>();
        let again =
            again.database("archive", open("b.db", other()), |archive| archive.model::<Sale>());
        let again = again.open().unwrap();
        check(&again);
        again.close().unwrap();
    }
}

#[test]
fn what_a_statement_does_not_see_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let memory = || Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    let plain = |name| file(folder.path(), name, SqliteOptions::default());
    let alone = |name| {
        file(folder.path(), name, SqliteOptions { exclusive: true, ..SqliteOptions::default() })
    };
    let cases = [
        ("exclusive", store(plain("a.db"), alone("b.db"))),
        ("outside of transactions", store(alone("c.db"), plain("d.db"))),
        ("outside of transactions", store(memory(), plain("e.db"))),
        ("SQLite's memory", store(plain("f.db"), memory())),
    ];
    for (why, store) in cases {
        for text in [JOIN, "SELECT count(*) AS n FROM sale"] {
            let error = store.sql(text).rows().run().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.message().contains(why), "{why}: {error}");
            assert!(error.message().contains(".on(\"archive\")"), "{error}");
        }
        let there = store.sql("SELECT count(*) AS n FROM sale").on("archive");
        let count: Vec<i64> = there.map(|row| row.read("n")).run().unwrap();
        assert_eq!(count, [2]);
        // What is nowhere is told as ever.
        let error = store.sql("SELECT * FROM nothing").rows().run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let store = store(plain("g.db"), plain("h.db"));
    check(&store);
    let inside = store.transaction(|transaction| transaction.sql(JOIN).rows().run());
    assert!(inside.unwrap_err().message().contains("outside of transactions"));
    store.close().unwrap();
}
