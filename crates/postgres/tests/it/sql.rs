//! SQL of one's own, where it differs from other engines' or where the server
//! has the last word.

use marmota_derive::Model;
use marmota_model::{Currency, Date, ErrorKind, Result, Timestamp, Uuid, Value, Words};
use marmota_postgres::Postgres;
use marmota_store::Store;

use crate::{Tally, label, server, store};

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Sale {
    id: i64,
    city: String,
    amount: Currency,
    at: Timestamp,
    day: Option<Date>,
    code: Uuid,
    small: i16,
    open: bool,
}

fn sale(city: &str, amount: i32, small: i16) -> Sale {
    let code = Uuid::from_u128(7);
    Sale { city: city.to_owned(), amount: amount.into(), small, code, ..Sale::default() }
}

fn sales() -> Store {
    let engine = Postgres::from_url(&server().make_database().unwrap()).unwrap();
    let store = Store::builder(engine).model::<Sale>().open().unwrap();
    let rows = [sale("Bourges", 10, 1), sale("Bourges", 20, 2), sale("Orléans", 5, 3)];
    store.insert_many(&rows).run().unwrap();
    store
}

#[test]
fn futures_know_the_columns_at_each_poll() {
    let store = sales();
    // The first describes the statement, the second finds it described.
    for _ in 0..2 {
        let read = async {
            let mut out = Vec::new();
            store.sql("SELECT amount FROM sale WHERE small = 3").json(&mut out).await?;
            assert_eq!(out, r#"[{"amount":5}]"#.as_bytes());
            let cities = store.sql("SELECT city FROM sale ORDER BY small");
            cities.map(|row| row.read::<String>("city")).await
        };
        let read: Result<Vec<String>> = futures_lite::future::block_on(read);
        assert_eq!(read.unwrap(), ["Bourges", "Bourges", "Orléans"]);
    }
}

#[test]
fn rows_are_read_by_name_and_kind() {
    let store = sales();
    let totals: Vec<(String, Currency)> = store
        .sql("SELECT city, sum(amount) AS total FROM sale GROUP BY city HAVING sum(amount) > ? ORDER BY 1")
        .bind(Currency::from(4))
        .map(|row| Ok((row.read("city")?, row.read("total")?)))
        .run()
        .unwrap();
    assert_eq!(totals, [("Bourges".to_owned(), 30.into()), ("Orléans".to_owned(), 5.into())]);
    for _ in 0..3 {
        let read = store.sql("SELECT * FROM sale WHERE city = $1").bind("Bourges").models::<Sale>();
        assert_eq!(read.run().unwrap().len(), 2);
    }
    let whole = store.sql("SELECT count(*), sum(small), max(day), avg(small) FROM sale").rows();
    let whole = whole.run().unwrap();
    let first = [Value::Int(3), Value::Int(6), Value::Null, Value::Currency(2.into())];
    assert_eq!(whole.rows[0][..3], first[..3]);
    let mut out = Vec::new();
    store.sql("SELECT city, amount, open FROM sale WHERE small = 3").json(&mut out).run().unwrap();
    assert_eq!(out, r#"[{"city":"Orléans","amount":5,"open":false}]"#.as_bytes());
    let odd =
        "SELECT '10.0.0.1'::inet AS net, '{\"a\":1}'::jsonb AS j, 1.5::real AS r, 'x'::name AS n";
    let odd = store.sql(odd).rows().run().unwrap();
    let wanted = [
        Value::Text("10.0.0.1".into()),
        Value::Json("{\"a\": 1}".into()),
        Value::Float(1.5),
        Value::Text("x".into()),
    ];
    assert_eq!(odd.rows[0], wanted);
}

#[test]
fn parameters_take_the_type_that_is_expected() {
    let store = sales();
    let found = |text: &str, value: Value| {
        store.sql(text).bind(value).value::<i64>().run().unwrap().unwrap()
    };
    assert_eq!(found("SELECT count(*) FROM sale WHERE amount >= ?", Value::Int(10)), 2);
    assert_eq!(found("SELECT count(*) FROM sale WHERE small = ?", Value::Int(2)), 1);
    assert_eq!(found("SELECT count(*) FROM sale WHERE code = ?", Uuid::from_u128(7).into()), 3);
    let code = Value::Text(Uuid::from_u128(7).to_string());
    assert_eq!(found("SELECT count(*) FROM sale WHERE code = ?", code), 3);
    assert_eq!(
        found("SELECT count(*) FROM sale WHERE inet '10.0.0.1' << ?", "10.0.0.0/8".into()),
        3
    );
    let error = store.sql("SELECT count(*) FROM sale WHERE small = ?").bind("x").rows().run();
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("parameter 1") && error.to_string().contains("smallint"));
    let error = store.sql("SELECT $1::int").rows().run().unwrap_err();
    assert!(error.to_string().contains("1 parameters, but 0 values"), "{error}");
}

#[test]
fn a_statement_is_held_to_what_it_was_announced_as() {
    let store = sales();
    for (text, kind, part) in [
        ("DELETE FROM sale", ErrorKind::Denied, "use `execute`"),
        (
            "WITH d AS (DELETE FROM sale RETURNING 1) SELECT * FROM d",
            ErrorKind::Denied,
            "`execute`",
        ),
        ("SELECT nextval('sale_id_seq')", ErrorKind::Denied, "`execute`"),
        ("SELECT 1; SELECT 2", ErrorKind::Invalid, "more than one statement"),
        ("SELECT nmae FROM sale", ErrorKind::Invalid, "nmae"),
        ("SELECT (", ErrorKind::Invalid, "syntax"),
        ("BEGIN", ErrorKind::Denied, "is not allowed"),
        ("SET x = 1", ErrorKind::Denied, "is not allowed"),
        ("", ErrorKind::Invalid, "a statement"),
        ("SELECT 1/0", ErrorKind::Invalid, "zero"),
    ] {
        for tries in 0..2 {
            let error = store.sql(text).rows().run().unwrap_err();
            assert_eq!(error.kind(), kind, "{text} {tries}: {error}");
            assert!(error.to_string().contains(part), "{text}: {error}");
            let within = store.transaction(|tx| {
                tx.insert(&sale("Tours", 1, 4)).run()?;
                assert_eq!(tx.sql(text).rows().run().unwrap_err().kind(), kind, "{text}");
                // What was refused has done no harm to the transaction.
                let count = tx.sql("SELECT count(*) FROM sale").value::<i64>().run()?;
                assert_eq!(count, Some(4));
                tx.delete_where::<Sale>(Sale::CITY.eq("Tours")).run()
            });
            assert_eq!(within.unwrap(), 1);
        }
    }
    for (text, kind) in [
        ("SELECT 1", ErrorKind::Invalid),
        ("DROP TABLE sale", ErrorKind::Denied),
        ("UPDATE sale SET small = 200000", ErrorKind::Invalid),
    ] {
        assert_eq!(store.execute(text).run().unwrap_err().kind(), kind, "{text}");
    }
    assert_eq!(store.count::<Sale>().run().unwrap(), 3);
}

#[test]
fn writes_count_their_rows_and_are_seen_in_their_transaction() {
    let store = sales();
    let execute = store.execute("UPDATE sale SET amount = amount * 2 WHERE city = ?");
    assert_eq!(execute.bind("Bourges").run().unwrap(), 2);
    let undone = store.transaction(|tx| {
        assert_eq!(tx.execute("DELETE FROM sale WHERE amount > ?").bind(10).run()?, 2);
        assert_eq!(tx.sql("SELECT count(*) FROM sale").value::<i64>().run()?, Some(1));
        Err::<(), _>(marmota_model::Error::new(ErrorKind::Denied, "not really"))
    });
    assert!(undone.is_err());
    assert_eq!(
        store.sql("SELECT sum(amount) FROM sale").value().run().unwrap(),
        Some(Currency::from(65))
    );
}

#[test]
fn a_table_that_changes_under_a_statement_is_described_again() {
    let store = store();
    store.insert(&label("a")).run().unwrap();
    let columns = |store: &Store| {
        let rows = store.sql("SELECT * FROM tally").rows().run();
        rows.map(|rows| rows.columns.list().len())
    };
    assert_eq!(columns(&store).unwrap(), 3);
    let server = server();
    let engine = store.sql("SELECT current_database()").value::<String>().run().unwrap().unwrap();
    let engine = Postgres::from_url(&server.url(&engine)).unwrap();
    engine.execute("ALTER TABLE tally ADD extra text").unwrap();
    let after = (0..3).find_map(|_| columns(&store).ok());
    assert_eq!(after, Some(4));
    assert_eq!(store.count::<Tally>().run().unwrap(), 1);
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Article {
    id: i64,
    #[model(search)]
    text: String,
}

/// The characters there are, between letters and before them, though not every
/// ideograph: the words that the database makes are those of the other engines.
#[test]
fn the_words_of_searches_are_ours() {
    let engine = Postgres::from_url(&server().make_database().unwrap()).unwrap();
    let store = Store::builder(engine).model::<Article>().open().unwrap();
    let is_dense = |&c: &char| {
        let number = u32::from(c);
        matches!(number, 1..0x3400 | 0xa000..0xac00 | 0xd7a3..0x1_4000 | 0x1_d000..0x1_f300)
            || number % 97 == 0
    };
    let all: Vec<char> = ('\u{1}'..=char::MAX).filter(is_dense).collect();
    for chunk in all.chunks(4_096) {
        let text: String = chunk.iter().flat_map(|&c| ['q', c, 'q', ' ', c, 'q', ' ']).collect();
        let mut words = Words::default();
        words.take(&text);
        let made = store.sql("SELECT marmota_words_1(?)").bind(text).value::<String>();
        let made = made.run().unwrap().unwrap();
        let first = made.split(' ').zip(words.iter()).position(|(made, ours)| made != ours);
        assert_eq!(first, None, "from {:?} on", chunk[0]);
        assert_eq!(made.split(' ').count(), words.len());
    }
    // A word beyond what the column has, and texts that are left out of it.
    let long = "long".repeat(240);
    let filler: String = (0..60_000).map(|number| format!("w{number} ")).collect();
    let texts =
        [format!("a {long} b"), format!("{filler} needle {long}x end"), "needle".to_owned()];
    for text in texts {
        store.insert(&Article { id: 0, text }).run().unwrap();
    }
    for (search, found) in [
        ("needle", vec![2, 3]),
        ("needle -end", vec![3]),
        ("\"w59999 needle\"", vec![2]),
        ("\"needle w59999\"", vec![]),
        (&*long, vec![1]),
        (&*format!("{long}*"), vec![1, 2]),
    ] {
        let ids = store.list::<Article>().filter(marmota_model::Filter::search(search));
        assert_eq!(ids.column(Article::ID).run().unwrap(), found, "{}", &search[..6]);
    }
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(audit)]
struct Patient {
    id: i64,
    name: String,
}

#[test]
fn sql_does_not_pass_by_the_history() {
    let engine = Postgres::from_url(&server().make_database().unwrap()).unwrap();
    let store = Store::builder(engine).model::<Patient>().model::<Tally>().open().unwrap();
    let id = store.insert(&Patient { id: 0, name: "Ana".to_owned() }).run().unwrap();
    for (text, table) in [
        ("UPDATE patient SET name='x'", "patient"),
        ("DELETE FROM patient WHERE id=7777", "patient"),
        ("INSERT INTO patient(name) VALUES('y')", "patient"),
        (
            "WITH gone AS (DELETE FROM patient RETURNING name) \
          INSERT INTO tally(count) SELECT count(*) FROM gone",
            "patient",
        ),
        ("DELETE FROM marmota_history", "marmota_history"),
    ] {
        // Described, then known.
        for _ in 0..2 {
            let error = store.execute(text).run().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{text}: {error}");
            assert!(error.message().contains(&format!("`{table}`")), "{error}");
            assert!(error.message().contains(".unaudited()"), "{error}");
        }
        let inside = store.transaction(|own| own.execute(text).run());
        assert_eq!(inside.unwrap_err().kind(), ErrorKind::Denied, "{text}");
    }
    // In a transaction that has written to it by a verb.
    store
        .transaction(|own| {
            own.patch::<Patient>(id).set(Patient::NAME, "Eva").run()?;
            let error = own.execute("UPDATE patient SET name='x'").run().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            own.execute("INSERT INTO tally(count) SELECT count(*) FROM patient").run().map(drop)
        })
        .unwrap();
    assert_eq!(store.get::<Patient>(id).run().unwrap().name, "Eva");
    assert_eq!(store.count::<Tally>().run().unwrap(), 1);
    let told = "UPDATE patient SET name=$1";
    assert_eq!(store.execute(told).bind("Bea").unaudited().run().unwrap(), 1);
    assert_eq!(store.execute(told).bind("Cleo").run().unwrap_err().kind(), ErrorKind::Denied);
}
