//! Tables that another program has made, or that models have outgrown.

use marmota_model::{ErrorKind, Field, FilterExpr, KeyKind, Kind, Role, RowQuery, Schema, Value};
use marmota_postgres::Postgres;
use marmota_store::Store;

use crate::{Tally, label, server};

fn id() -> Field {
    Field::new("id", Kind::I64).role(Role::Key)
}

fn engine(sql: &str) -> (String, Postgres) {
    let url = server().make_database().unwrap();
    let engine = Postgres::from_url(&url).unwrap();
    engine.execute(sql).unwrap();
    (url, engine)
}

fn refused(sql: &str, schema: Schema) -> String {
    let (_, engine) = engine(sql);
    let error = Store::builder(engine).schema(schema).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    error.to_string()
}

#[test]
fn a_table_of_another_programs_is_taken_on() {
    let sql = "CREATE TABLE tally (id bigserial PRIMARY KEY, extra text, \
               count integer NOT NULL, label text COLLATE \"C\"); \
               CREATE UNIQUE INDEX theirs ON tally (label); \
               INSERT INTO tally (count, label) VALUES (3, 'there')";
    let (_, engine) = engine(sql);
    let store = Store::builder(engine).model::<Tally>().open().unwrap();
    assert_eq!(store.get::<Tally>(1).run().unwrap().count, 3);
    let big = Tally { count: i32::MAX.into(), ..label("big") };
    let key = store.insert(&big).run().unwrap();
    assert_eq!(store.get::<Tally>(key).run().unwrap(), Tally { id: key, ..big.clone() });
    let error = store.insert(&Tally { label: Some("there".to_owned()), ..big }).run().unwrap_err();
    assert_eq!((error.kind(), &*error.violations()[0].field), (ErrorKind::Conflict, "label"));
}

#[test]
fn what_does_not_fit_is_refused_with_the_way_out() {
    let words = || Schema::new("word", vec![id(), Field::new("text", Kind::TEXT)]);
    let of = |columns: &str| format!("CREATE TABLE word ({columns})");
    let told = refused(&of("id bigserial PRIMARY KEY, text bytea NOT NULL"), words());
    assert!(told.contains("`text`") && told.contains("bytea"), "{told}");
    let told = refused("CREATE VIEW word AS SELECT 1 AS id", words());
    assert!(told.contains("word"), "{told}");
}

#[test]
fn what_another_program_wrote_is_not_taken_for_something_else() {
    let sql = "CREATE TABLE event (id bigserial PRIMARY KEY, at timestamptz NOT NULL); \
               INSERT INTO event (at) VALUES ('infinity')";
    let (_, engine) = engine(sql);
    let schema = Schema::new("event", vec![id(), Field::new("at", Kind::Timestamp)]);
    let store = Store::builder(engine).schema(schema).open().unwrap();
    let table = store.table("event").unwrap();
    let error = store.list_records(&table).run().unwrap_err();
    let [violation] = error.violations() else { panic!("{error:?}") };
    assert_eq!((&*violation.field, &*violation.value), ("at", "infinity"));
    assert!(violation.message.contains("row 1"), "{error}");
    assert_eq!(store.count::<Tally>().run().map(drop).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_table_that_changes_under_a_statement_is_prepared_again() {
    let (url, engine) = engine("");
    let store = Store::builder(Postgres::from_url(&url).unwrap()).model::<Tally>().open().unwrap();
    let key = store.insert(&label("a")).run().unwrap();
    for round in 0..3 {
        assert_eq!(store.get::<Tally>(key).run().unwrap().count, round);
        let transaction = store.begin_run().unwrap();
        transaction.increment(Tally::COUNT, key, 1).run().unwrap();
        transaction.commit().run().unwrap();
        let wider = ["integer", "numeric", "bigint"][round as usize];
        if round != 1 {
            engine.execute(&format!("ALTER TABLE tally ALTER count TYPE {wider}")).unwrap();
        }
        engine.execute("ALTER TABLE tally ADD extra text").ok();
    }
    assert_eq!(store.get::<Tally>(key).run().unwrap().count, 3);
}

#[test]
fn names_need_no_care() {
    let fields = vec![
        Field::new("order", Kind::I64).role(Role::Key),
        Field::new("select", Kind::TEXT).unique(true),
        Field::new("Group", Kind::I64).nullable(true),
    ];
    let (_, engine) = engine("");
    let store = Store::builder(engine).schema(Schema::new("user", fields)).open().unwrap();
    let table = store.table("user").unwrap();
    let mut record = marmota_model::Record::new(table.clone());
    record.set("select", "'; DROP TABLE \"user\"; --").unwrap();
    record.set("Group", 4).unwrap();
    store.insert_record(&record).run().unwrap();
    assert!(store.insert_record(&record).run().is_err());
    let filter = Some(FilterExpr::Compare {
        field: 2,
        comparison: marmota_model::Comparison::Equal,
        value: Value::Int(4),
    });
    let query = RowQuery { filter, ..RowQuery::new() };
    assert_eq!(store.list_records(&table).query(query).run().unwrap().len(), 1);
}

#[test]
fn a_reference_to_a_composite_key_is_a_foreign_key_of_its_fields() {
    let (url, engine) = engine(
        "CREATE TABLE pair (a bigint, b text COLLATE \"C\", PRIMARY KEY (b, a)); \
         CREATE TABLE vote (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, a bigint); \
         INSERT INTO pair VALUES (1, 'x')",
    );
    let fields = || vec![Field::new("a", Kind::I64), Field::new("b", Kind::TEXT)];
    let open = |is_referring: bool| {
        let pair = Schema::new("pair", fields()).composite_key("key", vec![1, 0]);
        let to_pair = Kind::Reference { table: "pair".into(), key: KeyKind::Text };
        let mut vote = vec![id(), Field::new("a", Kind::I64).nullable(true)];
        if is_referring {
            vote.push(Field::new("b", Kind::TEXT).nullable(true));
            vote.push(Field::new("to", to_pair).nullable(true).computed("key(b, a)"));
        }
        let vote = Schema::new("vote", vote);
        let builder = Store::builder(Postgres::from_url(&url).unwrap());
        builder.schema(pair).schema(vote).open().unwrap();
    };
    open(true);
    open(true);
    let store = Store::builder(Postgres::from_url(&url).unwrap()).open().unwrap();
    let sql = "SELECT string_agg(pg_get_constraintdef(oid), ';') FROM pg_constraint \
               WHERE contype='f'";
    let read = || {
        let found = store.sql(sql).map(|row| row.read_at::<Option<String>>(0)).run().unwrap();
        found[0].clone().unwrap_or_default()
    };
    assert_eq!(read(), "FOREIGN KEY (b, a) REFERENCES pair(b, a)");
    engine.execute("INSERT INTO vote (a, b) VALUES (2, 'x')").unwrap_err();
    engine.execute("INSERT INTO vote (a, b) VALUES (1, 'x'), (2, NULL)").unwrap();
    // Without the field, the foreign key goes; the column keeps its values.
    open(false);
    assert_eq!(read(), "");
    engine.execute("INSERT INTO vote (a, b) VALUES (2, 'x')").unwrap();
}
