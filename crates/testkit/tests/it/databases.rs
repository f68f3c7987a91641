//! Several databases in one store: rows in memory beside SQLite files.

use std::future::{Future, IntoFuture};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use marmota_derive::Model;
use marmota_memory::Memory;
use marmota_model::{Blob, Currency, Date, Error, ErrorKind, Ref, Timestamp, Uuid, Value};
use marmota_sqlite::Sqlite;
use marmota_store::migration::Migration;
use marmota_store::{Idempotency, Store, StoreBuilder};

/// In SQLite.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Person {
    id: i64,
    name: String,
    city: Option<i64>,
}

/// In memory.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Session {
    id: i64,
    #[model(index)]
    person: i64,
    #[model(unique)]
    token: String,
    hits: i64,
}

/// In another file.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct City {
    id: i64,
    name: String,
}

#[derive(Clone, Debug, Model)]
struct Citizen {
    id: i64,
    city: Ref<City>,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(audit)]
struct Ticket {
    id: i64,
    seat: i64,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(audit)]
struct Receipt {
    id: i64,
    amount: i64,
}

/// A field of each sort that SQL tells apart.
#[derive(Clone, Debug, Model, PartialEq)]
struct Sample {
    id: Uuid,
    #[model(index)]
    flag: bool,
    #[model(index)]
    amount: Currency,
    #[model(index)]
    day: Option<Date>,
    at: Timestamp,
    #[model(index, collate = "nocase")]
    name: String,
    #[model(index)]
    ratio: f64,
    bytes: Blob,
}

fn file(folder: &tempfile::TempDir, name: &str) -> Sqlite {
    Sqlite::from_url(&format!("sqlite:{}", folder.path().join(name).display())).unwrap()
}

fn in_memory() -> StoreBuilder {
    Store::builder(Sqlite::from_url("sqlite::memory:").unwrap())
}

fn three(folder: &tempfile::TempDir) -> Store {
    Store::builder(file(folder, "a.db"))
        .model::<Person>()
        .database("live", Memory::new(), |live| live.model::<Session>())
        .database("geo", file(folder, "geo.db"), |geo| geo.model::<City>())
        .open()
        .unwrap()
}

fn person(name: &str, city: i64) -> Person {
    Person { id: 0, name: name.to_owned(), city: Some(city) }
}

fn session(person: i64, token: &str) -> Session {
    Session { id: 0, person, token: token.to_owned(), hits: 0 }
}

#[test]
fn one_statement_joins_all_databases() {
    let folder = tempfile::tempdir().unwrap();
    let store = three(&folder);
    let bourges = store.insert(&City { id: 0, name: "Bourges".to_owned() }).run().unwrap();
    let ana = store.insert(&person("ana", bourges)).run().unwrap();
    store.insert(&person("bob", 99)).run().unwrap();
    store.insert_many(&[session(ana, "x"), session(ana, "y"), session(7, "z")]).run().unwrap();
    let sql = "SELECT p.name, c.name AS city, s.token FROM person p \
               JOIN geo.city c ON c.id = p.city JOIN live.session s ON s.person = p.id \
               ORDER BY s.token";
    let mut out = Vec::new();
    assert_eq!(store.sql(sql).json(&mut out).run().unwrap(), 2);
    let text = r#"[{"name":"ana","city":"Bourges","token":"x"},{"name":"ana","city":"Bourges","token":"y"}]"#;
    assert_eq!(String::from_utf8(out).unwrap(), text);
    // Names that only one database has need no other in front.
    let count = store.sql("SELECT count(*) FROM session, city").value::<i64>().run().unwrap();
    assert_eq!(count, Some(3));
    let sessions = store.sql("SELECT * FROM session WHERE token > 'x' ORDER BY token DESC");
    assert_eq!(sessions.models::<Session>().run().unwrap()[0].token, "z");
    // A statement on another database sees that, and memory.
    let sql = "SELECT count(*) FROM city, live.session";
    assert_eq!(store.sql(sql).on("geo").value::<i64>().run().unwrap(), Some(3));
    assert!(store.sql("SELECT 1 FROM person").on("geo").rows().run().is_err());
    assert!(store.sql("SELECT 1").on("live").rows().run().is_err());
    assert!(
        store.sql("SELECT 1").on("nowhere").rows().run().unwrap_err().message().contains("geo")
    );
    let changed = store.execute("UPDATE city SET name = 'Paris'").on("geo").run().unwrap();
    assert_eq!(changed, 1);
    store.close().unwrap();
    assert_eq!(three(&folder).get::<City>(bourges).run().unwrap().name, "Paris");
}

#[test]
fn writes_stay_in_their_database() {
    let folder = tempfile::tempdir().unwrap();
    let store = three(&folder);
    for text in [
        "INSERT INTO session(person, token, hits) VALUES(1, 'a', 0)",
        "DELETE FROM live.session",
        "UPDATE session SET hits = 1",
    ] {
        let error = store.execute(text).run().unwrap_err();
        assert!(error.message().contains("verbs"), "{error}");
    }
    let copied = "INSERT INTO person(name, city) SELECT token, person FROM session";
    store.insert(&session(4, "t")).run().unwrap();
    assert_eq!(store.execute(copied).run().unwrap(), 1);
    assert_eq!(store.get::<Person>(1).run().unwrap(), Person { id: 1, ..person("t", 4) });
    let error = store.execute("DELETE FROM geo.city").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains(".on(\"geo\")"), "{error}");
}

#[test]
fn migrations_are_the_first_databases() {
    let folder = tempfile::tempdir().unwrap();
    let open = |migration: Migration| {
        Store::builder(file(&folder, "a.db"))
            .model::<Person>()
            .database("geo", file(&folder, "geo.db"), |geo| geo.model::<City>())
            .migration(migration)
            .open()
    };
    let first = || {
        Migration::new(1, "ana").up(|tx| {
            let cities = i64::try_from(tx.count::<City>().run()?).unwrap_or_default();
            tx.insert(&person("ana", cities)).run().map(drop)
        })
    };
    for _ in 0..2 {
        let store = open(first()).unwrap();
        store.insert(&City { id: 0, name: "Bourges".to_owned() }).run().unwrap();
        let sql = "SELECT count(*) FROM person, geo.city";
        let pairs: i64 = store.sql(sql).value().run().unwrap().unwrap();
        assert_eq!(u64::try_from(pairs).unwrap(), store.count::<City>().run().unwrap());
        store.close().unwrap();
    }
    let elsewhere = Migration::new(1, "ana")
        .up(|tx| tx.insert(&City { id: 0, name: "Sceaux".to_owned() }).run().map(drop));
    let refused = Store::builder(Sqlite::from_url("sqlite::memory:").unwrap())
        .database("geo", Memory::new(), |geo| geo.model::<City>())
        .migration(elsewhere)
        .open();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_transaction_writes_to_one_database() {
    let folder = tempfile::tempdir().unwrap();
    let store = three(&folder);
    let error = store
        .transaction(|tx| {
            tx.insert(&person("ana", 1)).run()?;
            assert_eq!(tx.count::<Session>().run()?, 0, "others can be read");
            tx.insert(&session(1, "a")).run().map(drop)
        })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("`main`") && error.message().contains("`live`"), "{error}");
    assert_eq!(store.count::<Person>().run().unwrap(), 0);
    assert_eq!(store.count::<Session>().run().unwrap(), 0);

    // It sees what it has written, in SQLite and in memory.
    store
        .transaction(|tx| {
            tx.insert(&session(1, "b")).run()?;
            let sql = "SELECT count(*) FROM session LEFT JOIN person";
            assert_eq!(tx.sql(sql).value::<i64>().run()?, Some(1));
            tx.execute("DELETE FROM person").run().unwrap_err();
            Ok(())
        })
        .unwrap();
    assert_eq!(store.count::<Session>().run().unwrap(), 1);
    store
        .transaction(|tx| {
            tx.insert(&person("eve", 1)).run()?;
            let sql = "SELECT count(*) FROM session, person";
            assert_eq!(tx.sql(sql).value::<i64>().run()?, Some(1));
            Ok(())
        })
        .unwrap();
    assert_eq!(store.count::<Person>().run().unwrap(), 1);

    let mut batch = store.batch();
    batch.insert(&person("a", 1));
    batch.insert(&session(1, "c"));
    assert_eq!(batch.all_or_nothing().run().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(store.count::<Person>().run().unwrap(), 1);
}

#[test]
fn answers_are_kept_with_their_writes() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::builder(file(&folder, "a.db"))
        .model::<Person>()
        .database("live", Memory::new(), |live| live.model::<Session>())
        .idempotency(Idempotency::default())
        .open()
        .unwrap();
    for _ in 0..2 {
        let mut batch = store.batch();
        batch.insert(&session(1, "a")).idempotency_key("in memory");
        batch.all_or_nothing().run().unwrap();
        let mut batch = store.batch();
        batch.insert(&person("ana", 1)).idempotency_key("in the file");
        batch.all_or_nothing().run().unwrap();
    }
    assert_eq!(store.count::<Session>().run().unwrap(), 1);
    assert_eq!(store.count::<Person>().run().unwrap(), 1);
    let kept = store.sql("SELECT key FROM marmota_answer").value::<String>().run().unwrap();
    assert_eq!(kept.as_deref(), Some("in the file"));
}

#[test]
fn history_lies_beside_what_it_tells_of() {
    let folder = tempfile::tempdir().unwrap();
    let audited = || {
        Store::builder(file(&folder, "a.db")).model::<Person>().database(
            "live",
            Memory::new(),
            |live| live.model::<Ticket>(),
        )
    };
    let store = audited().open().unwrap();
    let ticket = store.insert(&Ticket { id: 0, seat: 7 }).run().unwrap();
    let entries = store.history::<Ticket>(ticket).run().unwrap();
    assert_eq!(entries.len(), 1);
    let joined = "SELECT count(*) FROM live.marmota_history h LEFT JOIN person p ON p.id = h.id";
    assert_eq!(store.sql(joined).value::<i64>().run().unwrap(), Some(1));
    // It holds for a transaction, which writes to that database then.
    store.transaction(|tx| tx.delete::<Ticket>(ticket).run()).unwrap();
    assert_eq!(store.history::<Ticket>(ticket).run().unwrap().len(), 2);
    store.close().unwrap();
    let apart = audited().database("more", Memory::new(), |more| more.model::<Receipt>());
    let error = apart.open().unwrap_err();
    assert!(error.message().contains("one history"), "{error}");
}

#[test]
fn what_cannot_be_kept_is_refused_at_the_start() {
    let names = |name: &str| in_memory().database(name, Memory::new(), |live| live).open();
    for name in ["main", "temp", "", "A", "a b", "1a", "a\"b"] {
        assert_eq!(names(name).unwrap_err().kind(), ErrorKind::Invalid, "{name}");
    }
    assert!(names("a_1").is_ok());
    let twice = in_memory().database("a", Memory::new(), |a| a).database("a", Memory::new(), |a| a);
    assert_eq!(twice.open().unwrap_err().kind(), ErrorKind::Conflict);
    let torn = in_memory().model::<Citizen>().database("a", Memory::new(), |a| a.model::<City>());
    let error = torn.open().unwrap_err();
    assert!(error.message().contains("another database"), "{error}");
    let same = in_memory().model::<City>().database("a", Memory::new(), |a| a.model::<City>());
    assert_eq!(same.open().unwrap_err().kind(), ErrorKind::Conflict);
    // A table that was left behind has the name of one in memory.
    let folder = tempfile::tempdir().unwrap();
    let store = Store::builder(file(&folder, "a.db")).model::<City>().open().unwrap();
    store.close().unwrap();
    let moved = Store::builder(file(&folder, "a.db"))
        .database("live", Memory::new(), |live| live.model::<City>());
    let error = moved.open().unwrap_err();
    assert!(error.message().contains("DROP"), "{error}");
}

/// Samples in SQLite and the same in memory.
fn samples() -> (Store, Store) {
    let in_sqlite = in_memory().model::<Sample>().open().unwrap();
    let lent =
        in_memory().database("live", Memory::new(), |live| live.model::<Sample>()).open().unwrap();
    let samples: Vec<Sample> = (0..600_i64)
        .map(|number| Sample {
            id: Uuid::from_u128(((number as u128 + 1) * 7919) << 64),
            flag: number % 3 == 0,
            amount: Currency::from_scaled(number % 17 * 5_000 - 20_000),
            day: (number % 5 > 0).then(|| Date::from_days(19_000 + (number % 11) as i32).unwrap()),
            at: Timestamp::from_micros(1_700_000_000_000_000 + number % 29).unwrap(),
            name: format!("{}{}", ["Ab", "aB", "b", "É", ""][number as usize % 5], number % 23),
            ratio: (number % 13) as f64 / 4.0 - 1.0,
            bytes: Blob::from(vec![number as u8; number as usize % 4]),
        })
        .collect();
    for store in [&in_sqlite, &lent] {
        store.insert_many(&samples).run().unwrap();
    }
    (in_sqlite, lent)
}

#[test]
fn memory_answers_as_sqlite_does() {
    let (in_sqlite, lent) = samples();
    let mut wheres: Vec<String> = [
        "1",
        "id = x'00000000000000000000000000000000'",
        "id > x'10'",
        "id IS NULL",
        "day IS NULL",
        "day IS NOT NULL",
        "day = NULL",
        "amount = '5000'",
        "amount > '5000.5'",
        "amount = 5000.0",
        "name = 5",
        "name > 5",
        "name < x'00'",
        "flag",
        "NOT flag",
        "flag = 2",
        "flag > 0",
        "ratio = '0.5'",
        "ratio > 1",
        "ratio < 1 AND ratio >= -0.25",
        "name LIKE 'ab%'",
        "name GLOB 'Ab*'",
        "name = 'AB3'",
        "name = 'AB3' COLLATE BINARY",
        "length(bytes) = 2",
        "name IN ('ab1', 'B7', 'x')",
        "amount IN (5000, -20000, NULL)",
        "name BETWEEN 'b' AND 'b5'",
        "amount = 5000 OR day = 19003",
        "bytes = x'0202'",
        "bytes > 'a'",
        "day = 19004.0",
        "at >= 1700000000000020 AND amount < 0",
        "name > 'b' AND name <= 'É'",
        "day > 19002 AND day < 19005 AND flag = 1",
        "amount = (SELECT min(amount) FROM sample)",
    ]
    .map(str::to_owned)
    .into();
    for comparison in ["=", "<", "<=", ">", ">="] {
        for (field, value) in [
            ("amount", "5000"),
            ("day", "19004"),
            ("name", "'aB8'"),
            ("ratio", "0.25"),
            ("flag", "1"),
        ] {
            wheres.push(format!("{field} {comparison} {value}"));
        }
    }
    let orders = [
        "id",
        "id DESC",
        "name, id",
        "name DESC, id DESC",
        "amount, id",
        "amount DESC, id DESC",
        "day, id",
        "day DESC, id",
        "ratio, id DESC",
        "flag, amount, id",
        "day NULLS LAST, id",
        "name COLLATE BINARY, id",
        "bytes, id",
    ];
    for condition in &wheres {
        for order in orders {
            let columns = "id, flag, amount, day, at, name, ratio, bytes";
            let sql = format!("SELECT {columns} FROM sample WHERE {condition} ORDER BY {order}");
            let one = in_sqlite.sql(&sql).rows().run();
            let other = lent.sql(&sql).rows().run();
            match (one, other) {
                (Ok(one), Ok(other)) => assert!(one.rows == other.rows, "{sql}"),
                (one, other) => assert_eq!(one.is_err(), other.is_err(), "{sql}"),
            }
        }
        for sql in [
            format!(
                "SELECT count(*), sum(amount), max(name), min(day) FROM sample WHERE {condition}"
            ),
            format!(
                "SELECT name, count(*) FROM sample WHERE {condition} GROUP BY name ORDER BY name"
            ),
            format!("SELECT DISTINCT amount FROM sample WHERE {condition} ORDER BY amount DESC"),
            format!(
                "SELECT a.id, b.id FROM sample a JOIN sample b ON a.amount = b.amount AND b.day = \
                 a.day WHERE a.{condition} ORDER BY a.id, b.id LIMIT 50",
                condition = condition.replace(" AND ", " AND a.").replace(" OR ", " OR a.")
            ),
        ] {
            let (one, other) = (in_sqlite.sql(&sql).rows().run(), lent.sql(&sql).rows().run());
            if let (Ok(one), Ok(other)) = (&one, &other) {
                assert!(one.rows == other.rows, "{sql}");
            }
            assert_eq!(one.is_err(), other.is_err(), "{sql}");
        }
    }
}

#[test]
fn a_row_in_memory_is_found_as_in_sqlite() {
    let in_sqlite = in_memory().model::<Session>().open().unwrap();
    let lent =
        in_memory().database("live", Memory::new(), |live| live.model::<Session>()).open().unwrap();
    for store in [&in_sqlite, &lent] {
        for id in [1, 3, 7, 12, i64::MAX] {
            let token = format!("t{id}");
            store.insert(&Session { id, person: id / 2, token, hits: 7 }).run().unwrap();
        }
    }
    let statements = [
        "SELECT id, person, token, hits FROM session WHERE id=?",
        "SELECT token, id, token FROM session WHERE ?=id",
        "SELECT s.hits AS id, s.id AS hits FROM session s WHERE s.id=?",
        "SELECT hits FROM session WHERE id=? AND hits=7",
        "SELECT token FROM session WHERE id=? AND id=1",
        "SELECT token FROM session WHERE id IS ?",
        "SELECT token FROM session WHERE id>=? ORDER BY id",
        "SELECT token FROM session WHERE id=? ORDER BY token LIMIT 1",
        "SELECT token FROM session WHERE id=? OR hits=1 ORDER BY id",
        "SELECT token FROM session WHERE id<>? ORDER BY id",
        "SELECT token FROM session WHERE hits=? ORDER BY id",
        "SELECT token FROM session WHERE token=? ORDER BY id DESC",
        "SELECT (SELECT token FROM session WHERE id=?) FROM session ORDER BY id",
        "WITH one(key, name) AS (SELECT id, token FROM session) SELECT name FROM one WHERE key=?",
        "SELECT token FROM (SELECT * FROM session WHERE id=?)",
        "SELECT token, id FROM session WHERE ?=1 ORDER BY id DESC",
        "SELECT DISTINCT hits FROM session WHERE id<?",
    ];
    let values = [
        Value::Int(1),
        Value::Int(-3),
        Value::Int(i64::MAX),
        Value::Int(8),
        Value::Float(7.0),
        Value::Float(7.5),
        Value::Text("7".into()),
        Value::Text("t7".into()),
        Value::Bool(true),
        Value::Null,
    ];
    for text in statements {
        for value in &values {
            let rows = |store: &Store| store.sql(text).bind(value.clone()).rows().run().unwrap();
            let (one, other) = (rows(&in_sqlite), rows(&lent));
            assert_eq!(one.rows, other.rows, "{text} for {value:?}");
        }
    }
    let text = "SELECT token FROM session ORDER BY id";
    let mut first = Vec::new();
    let stopped = lent.sql(text).map(|row| {
        if first.len() == 2 {
            return Err(Error::new(ErrorKind::Invalid, "two are enough"));
        }
        first.push(row.read::<String>("token")?);
        Ok(())
    });
    assert_eq!(stopped.run().unwrap_err().message(), "two are enough");
    assert_eq!(first, ["t1", "t3"]);
    assert_eq!(lent.sql(text).value::<String>().run().unwrap().as_deref(), Some("t1"));
    lent.delete::<Session>(1).run().unwrap();
    assert_eq!(lent.sql(text).value::<String>().run().unwrap().as_deref(), Some("t3"));
}

#[test]
fn indexes_in_memory_are_used() {
    let (_, lent) = samples();
    for (sql, is_sorted) in [
        ("SELECT * FROM sample ORDER BY id DESC", false),
        ("SELECT * FROM sample WHERE amount = 5 ORDER BY id", false),
        ("SELECT * FROM sample ORDER BY name", false),
        ("SELECT * FROM sample ORDER BY name, at", true),
    ] {
        let plan = lent.sql(format!("EXPLAIN QUERY PLAN {sql}")).rows().run().unwrap();
        let sorts = plan.rows.iter().any(|row| format!("{row:?}").contains("TEMP B-TREE"));
        assert_eq!(sorts, is_sorted, "{sql}: {plan:?}");
    }
}

#[test]
fn threads_join_while_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let store = three(&folder);
    let people: Vec<Person> = (0..50).map(|number| person("p", number)).collect();
    store.insert_many(&people).run().unwrap();
    // Each writer moves hits from one session to another: their sum stands.
    let sessions: Vec<Session> =
        (0..200).map(|n| Session { hits: 10, ..session(n % 50 + 1, &n.to_string()) }).collect();
    store.insert_many(&sessions).run().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|threads| {
        let mut writers = Vec::new();
        for writer in 0..3_i64 {
            let store = &store;
            writers.push(threads.spawn(move || {
                for round in 0..60_i64 {
                    let (from, to) = ((writer * 67 + round) % 200 + 1, (round * 13) % 200 + 1);
                    if writer == 2 {
                        store.insert(&person("q", round)).run().unwrap();
                        continue;
                    }
                    store
                        .transaction(|tx| {
                            tx.increment(Session::HITS, from, -1).run()?;
                            tx.increment(Session::HITS, to, 1).run().map(drop)
                        })
                        .unwrap();
                }
            }));
        }
        for _ in 0..4 {
            threads.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let sql = "SELECT sum(s.hits), count(*) FROM live.session s \
                               JOIN person p ON p.id = s.person WHERE p.id <= 50";
                    let rows = store.sql(sql).rows().run().unwrap().rows;
                    assert_eq!(rows[0], [2_000.into(), 200.into()]);
                }
            });
        }
        let results: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });
    assert_eq!(store.count::<Person>().run().unwrap(), 110);
}

#[test]
fn transactions_on_several_databases_do_not_wait_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let store = three(&folder);
    thread::scope(|threads| {
        for thread in 0..6 {
            let store = &store;
            threads.spawn(move || {
                for round in 0..10 {
                    store
                        .transaction(|tx| {
                            if thread % 2 == 0 {
                                tx.count::<Session>().run()?;
                                tx.insert(&person("p", round)).run().map(drop)
                            } else {
                                tx.count::<Person>().run()?;
                                tx.insert(&session(1, &format!("{thread}-{round}"))).run().map(drop)
                            }
                        })
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(store.count::<Person>().run().unwrap(), 30);
    assert_eq!(store.count::<Session>().run().unwrap(), 30);
}

/// Polls once.
fn poll<F: Future + Unpin>(future: &mut F) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(future).poll(&mut context).is_ready()
}

#[test]
fn a_write_that_was_given_up_is_not_ended_by_one_of_another_database() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::builder(file(&folder, "a.db"))
        .model::<Person>()
        .model::<City>()
        .database("live", Memory::new(), |live| live.model::<Session>())
        .cache(1 << 20)
        .open()
        .unwrap();
    let name = |id| store.get::<City>(id).run().unwrap().name;
    let bourges = store.insert(&City { id: 0, name: "Bourges".to_owned() }).run().unwrap();
    assert_eq!((name(bourges), name(bourges)), ("Bourges".to_owned(), "Bourges".to_owned()));
    // Both are in one group, which nobody has committed yet.
    let mut patch = Box::pin(store.patch::<City>(bourges).set(City::NAME, "Paris").into_future());
    assert!(!poll(&mut patch));
    let ana = person("ana", bourges);
    let mut insert = Box::pin(store.insert(&ana).into_future());
    assert!(!poll(&mut insert));
    drop(patch);
    // Of another database, it says nothing of the patch.
    store.insert(&session(1, "x")).run().unwrap();
    assert_eq!(name(bourges), "Bourges", "the group is not committed, and the row is not kept");
    while !poll(&mut insert) {}
    assert_eq!(name(bourges), "Paris");
}
