//! Tables of another program's whose columns hold less than a model's fields,
//! or sort otherwise: taken as they are, since nothing is lost.

use marmota_derive::Model;
use marmota_model::{
    Comparison, Currency, Error, ErrorKind, FilterExpr, Place, RowQuery, SortKey, Value,
};
use marmota_postgres::Postgres;
use marmota_store::Store;

use crate::server;

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Reading {
    id: i64,
    small: i64,
    wide: i32,
    word: String,
    amount: Currency,
}

const TABLE: &str = "CREATE TABLE reading (id integer NOT NULL PRIMARY KEY, small smallint NOT NULL, \
                     wide bigint NOT NULL, word varchar(5) COLLATE \"und-x-icu\" NOT NULL, \
                     amount numeric(8,4) NOT NULL)";

fn store(sql: &str) -> Store {
    let engine = Postgres::from_url(&server().make_database().unwrap()).unwrap();
    engine.execute(sql).unwrap();
    Store::builder(engine).model::<Reading>().open().unwrap()
}

fn reading(id: i64) -> Reading {
    let amount = Currency::from_scaled(12_345);
    Reading { id, small: id % 7, wide: 3, word: format!("w{id}"), amount }
}

/// The field at fault, and the rule.
fn at_fault(error: &Error) -> (&str, &str, &str) {
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    let [violation] = error.violations() else { panic!("{error:?}") };
    (&violation.field, &violation.value, &violation.message)
}

#[test]
fn columns_that_hold_less_stay_as_they_are() {
    let store = store(TABLE);
    store.insert(&reading(1)).run().unwrap();
    assert_eq!(store.get::<Reading>(1).run().unwrap(), reading(1));
    let types = "SELECT string_agg(format_type(atttypid,atttypmod),' ' ORDER BY attnum) \
                 FROM pg_attribute WHERE attrelid='reading'::regclass AND attnum>0";
    let found = store.sql(types).value::<String>().run().unwrap().unwrap();
    assert_eq!(found, "integer smallint bigint character varying(5) numeric(8,4)");
}

#[test]
fn what_a_column_does_not_take_is_named() {
    let store = store(TABLE);
    store.insert(&reading(1)).run().unwrap();
    let small = Reading { small: 40_000, ..reading(2) };
    let error = store.insert(&small).run().unwrap_err();
    let (field, value, words) = at_fault(&error);
    assert_eq!((field, value), ("small", "40000"));
    assert!(words.contains("between -32768 and 32767") && words.contains("bigint"), "{words}");
    let error = store.update(&Reading { id: 1, ..small.clone() }).run().unwrap_err();
    assert_eq!(at_fault(&error).0, "small");
    let error = store.insert(&Reading { id: 1 << 40, ..reading(2) }).run().unwrap_err();
    assert_eq!(at_fault(&error).0, "id");
    let error = store.insert(&Reading { word: "longer".into(), ..reading(2) }).run().unwrap_err();
    let (field, _, words) = at_fault(&error);
    assert!(field == "word" && words.contains("at most 5 characters"), "{words}");
    let amount = Currency::from_scaled(100_000_000);
    let error = store.insert(&Reading { amount, ..reading(2) }).run().unwrap_err();
    assert_eq!(at_fault(&error).0, "amount");
    let error = store.increment(Reading::SMALL, 1, 32_767).run().unwrap_err();
    let (field, _, words) = at_fault(&error);
    assert!(field == "small" && words.contains("32767"), "{words}");
    // Among many, and in a batch and a transaction: the row is named, nothing is written.
    let rows = [reading(2), small.clone(), reading(4)];
    let error = store.insert_many(&rows).run().unwrap_err();
    assert!(error.to_string().contains("row 1") && error.to_string().contains("small"), "{error}");
    let error = store.update_many(&[Reading { id: 1, ..small.clone() }]).run().unwrap_err();
    assert!(error.to_string().contains("small"), "{error}");
    let kept = store.transaction(|own| {
        own.insert(&reading(5)).run()?;
        assert_eq!(at_fault(&own.insert(&small).run().unwrap_err()).0, "small");
        own.count::<Reading>().run()
    });
    assert_eq!(kept.unwrap(), 2);
    assert_eq!(store.count::<Reading>().run().unwrap(), 2);
    // A key that no row can have is not there.
    let error = store.get::<Reading>(1_i64 << 40).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_key_without_a_default_has_to_be_given() {
    let store = store(TABLE);
    let error = store.insert(&Reading { id: 0, ..reading(1) }).run().unwrap_err();
    let (field, _, words) = at_fault(&error);
    assert!(field == "id" && words.contains("IDENTITY"), "{words}");
    // A default that names a sequence of another owner makes keys, behind those that are given.
    let sql = format!(
        "CREATE SEQUENCE numbers; {TABLE}; \
         ALTER TABLE reading ALTER id SET DEFAULT nextval('numbers')"
    );
    let store = self::store(&sql);
    store.insert(&reading(7)).run().unwrap();
    assert_eq!(store.insert(&Reading { id: 0, ..reading(1) }).run().unwrap(), 8);
}

#[test]
fn many_rows_go_where_columns_have_another_width() {
    let store = store(TABLE);
    // So many with keys would be copied in binary, were the columns as wide as the fields.
    let rows: Vec<Reading> = (1..=600).map(reading).collect();
    store.insert_many(&rows).run().unwrap();
    let changed: Vec<Reading> =
        rows.iter().map(|row| Reading { small: 9, ..row.clone() }).collect();
    store.update_many(&changed).run().unwrap();
    assert_eq!(store.list::<Reading>().run().unwrap(), changed);
    let over = Reading { small: 5, ..reading(600) };
    store.upsert(&over).run().unwrap();
    assert_eq!(store.get::<Reading>(600).run().unwrap().small, 5);
}

#[test]
fn texts_of_a_language_are_compared_byte_by_byte() {
    let store = store(TABLE);
    let words = ["b", "B", "a", "Z", "é", "É"];
    for (id, word) in (1..).zip(words) {
        store.insert(&Reading { word: word.to_owned(), ..reading(id) }).run().unwrap();
    }
    let table = store.table("reading").unwrap();
    let found = |filter: Option<FilterExpr>| -> Vec<String> {
        let order = vec![SortKey { field: 3, descending: false }];
        let query = RowQuery { filter, order, ..RowQuery::new() };
        let rows = store.list_records(&table).query(query).run().unwrap();
        rows.iter()
            .map(|row| row.value("word").unwrap().as_ref().as_text().unwrap().to_owned())
            .collect()
    };
    assert_eq!(found(None), ["B", "Z", "a", "b", "É", "é"]);
    let compare = |comparison| {
        let value = Value::from("a");
        Some(FilterExpr::Compare { field: 3, comparison, value })
    };
    assert_eq!(found(compare(Comparison::Less)), ["B", "Z"]);
    assert_eq!(found(compare(Comparison::Equal)), ["a"]);
    let within = FilterExpr::Match { field: 3, place: Place::Start, text: "é".to_owned() };
    assert_eq!(found(Some(within)), ["é"]);
}

#[test]
fn what_loses_something_is_refused() {
    for (column, wanted, with) in
        [("word varchar(5)", "char(5)", "character(5)"), ("small smallint", "real", "real")]
    {
        let name = column.split(' ').next().unwrap();
        let sql = TABLE.replace(column, &format!("{name} {wanted}"));
        let sql = sql.replace("char(5) COLLATE \"und-x-icu\"", "char(5)");
        let engine = Postgres::from_url(&server().make_database().unwrap()).unwrap();
        engine.execute(&sql).unwrap();
        let error = Store::builder(engine).model::<Reading>().open().unwrap_err();
        let words = error.to_string();
        assert!(words.contains(name) && words.contains(with), "{words}");
    }
    let deaf =
        "CREATE COLLATION deaf (provider=icu, locale='und-u-ks-level2', deterministic=false)";
    let sql = format!("{deaf}; {}", TABLE.replace("und-x-icu", "deaf"));
    let engine = Postgres::from_url(&server().make_database().unwrap()).unwrap();
    engine.execute(&sql).unwrap();
    let error = Store::builder(engine).model::<Reading>().open().unwrap_err();
    assert!(error.to_string().contains("collation"), "{error}");
}

#[test]
fn a_field_over_a_generated_column_is_refused_when_the_store_is_opened() {
    for (column, generated) in [
        ("wide bigint NOT NULL", "wide bigint NOT NULL GENERATED ALWAYS AS (small * 2) STORED"),
        ("wide bigint NOT NULL", "wide bigint NOT NULL GENERATED ALWAYS AS IDENTITY"),
    ] {
        let engine = Postgres::from_url(&server().make_database().unwrap()).unwrap();
        engine.execute(&TABLE.replace(column, generated)).unwrap();
        let error = Store::builder(engine).model::<Reading>().open().unwrap_err();
        let words = error.to_string();
        assert!(words.contains("wide") && words.contains("GENERATED"), "{words}");
    }
}

#[test]
fn a_user_without_rights_is_told_in_our_words() {
    let url = server().make_database().unwrap();
    let owner = Postgres::from_url(&url).unwrap();
    let user = format!("reader_{}", url.rsplit('/').next().unwrap());
    owner
        .execute(&format!(
            "{TABLE}; CREATE ROLE {user} LOGIN PASSWORD 'r'; GRANT SELECT ON reading TO {user}"
        ))
        .unwrap();
    let database = url.rsplit('/').next().unwrap();
    let port = server().port();
    let url = format!("postgres://{user}:r@127.0.0.1:{port}/{database}");
    let open = |url: &str| Store::builder(Postgres::from_url(url).unwrap()).model::<Reading>();
    let store = open(&url).open().unwrap();
    assert_eq!(store.count::<Reading>().run().unwrap(), 0);
    let error = store.insert(&reading(1)).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    let words = error.to_string();
    assert!(words.contains("GRANT") && !words.contains("permission denied"), "{words}");
    // What it cannot make is named with the step.
    owner.execute("ALTER TABLE reading ALTER wide DROP NOT NULL").unwrap();
    let error = open(&url).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    assert!(error.to_string().contains("wide") && error.to_string().contains("own"), "{error}");
    let error = open(&url).cache(1 << 20).open().unwrap_err();
    assert!(error.to_string().contains("own"), "{error}");
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Sale {
    id: i64,
    price: Currency,
    details: marmota_model::Json<Vec<i64>>,
    at: marmota_model::Timestamp,
}

#[test]
fn decimals_jsonb_and_times_without_a_zone_are_kept() {
    let engine = Postgres::from_url(&server().make_database().unwrap()).unwrap();
    let sql = "CREATE TABLE sale (id bigint PRIMARY KEY, price numeric(8,2) NOT NULL, \
               details jsonb NOT NULL, at timestamp NOT NULL)";
    engine.execute(sql).unwrap();
    let store = Store::builder(engine).model::<Sale>().open().unwrap();
    let sale = |id: i64, price: &str| Sale {
        id,
        price: price.parse().unwrap(),
        details: marmota_model::Json(vec![1, 2]),
        at: "2026-11-27T01:02:03Z".parse().unwrap(),
    };
    store.insert(&sale(1, "12.34")).run().unwrap();
    assert_eq!(store.get::<Sale>(1).run().unwrap(), sale(1, "12.34"));
    // The zone of the test server is another one.
    let at = store.sql("SELECT at::text FROM sale").value::<String>().run().unwrap();
    assert_eq!(at.as_deref(), Some("2026-11-27 01:02:03"));
    for error in [
        store.insert(&sale(2, "0.005")).run().unwrap_err(),
        store.update(&sale(1, "0.001")).run().map(drop).unwrap_err(),
        store.insert_many(&[sale(2, "1"), sale(3, "0.005")]).run().map(drop).unwrap_err(),
        store
            .increment(Sale::PRICE, 1, "0.0001".parse::<Currency>().unwrap())
            .run()
            .map(drop)
            .unwrap_err(),
    ] {
        assert_eq!(at_fault(&error).0, "price", "{error}");
        assert!(error.to_string().contains("at most 2 decimals"), "{error}");
    }
    let many: Vec<Sale> = (10..700).map(|id| sale(id, "0.25")).collect();
    store.insert_many(&many).run().unwrap();
    assert_eq!(store.get::<Sale>(699).run().unwrap(), sale(699, "0.25"));
}
