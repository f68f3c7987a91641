//! The rows of the change feed are those of the table, whatever form SQLite has stored them in: in
//! one page or several, with whole numbers for floats, without columns that were added later.

use std::collections::BTreeMap;

use marmota_model::{Field, FieldSet, Kind, Literal, Record, Role, RowQuery, Schema, Value};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::Store;
use marmota_store::action::block_on;
use marmota_store::change::{ChangeRetention, FeedEvent, Position};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

type Rows = BTreeMap<i64, Vec<Value>>;

fn schema(is_new: bool) -> Schema {
    let mut fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("real", Kind::Float),
        Field::new("text", Kind::TEXT).nullable(true),
        Field::new("number", Kind::I64).nullable(true),
    ];
    if is_new {
        // Not the last one, so that the order of the fields differs from that of the columns.
        let level = Field::new("level", Kind::I64).default(Literal::Int(7));
        fields.insert(1, level);
        fields.push(Field::new("ratio", Kind::Float).default(Literal::Int(2)));
    }
    Schema::new("item", fields)
}

fn open(folder: &std::path::Path, is_new: bool) -> Store {
    let location = Location::File(folder.join("changes.db"));
    let sqlite = Sqlite::open(location, SqliteOptions::default()).unwrap();
    let builder = Store::builder(sqlite).schema(schema(is_new));
    builder.changes(ChangeRetention::default()).open().unwrap()
}

/// A write: of a row with a key, whose values are made of the numbers.
#[derive(Clone, Debug)]
enum Step {
    Insert(u16, i8),
    Update(i64, u16, i8),
    Delete(i64),
    Sql(&'static str),
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![0..60_u16, Just(0), 3_000..9_000_u16];
    prop_oneof![
        4 => (length.clone(), any::<i8>()).prop_map(|(length, number)| Step::Insert(length, number)),
        3 => (1..20_i64, length, any::<i8>()).prop_map(|(id, length, number)| Step::Update(id, length, number)),
        2 => (1..20_i64).prop_map(Step::Delete),
        1 => prop::sample::select(vec![
            "UPDATE item SET real = 3, number = NULL WHERE id % 3 = 0",
            "UPDATE item SET text = text || 'x'",
            "INSERT OR REPLACE INTO item (id, real, text) VALUES (5, 4, 'replaced')",
            "DELETE FROM item WHERE id % 5 = 1",
        ]).prop_map(Step::Sql),
    ]
}

fn execute(store: &Store, step: &Step) {
    let table = store.table("item").unwrap();
    let fill = |record: &mut Record, length: u16, number: i8| {
        record.set("real", f64::from(number) / 2.0).unwrap();
        let text = match length {
            0 => Value::Null,
            _ => Value::Text("é".repeat(usize::from(length))),
        };
        record.set("text", text).unwrap();
        let number = if number > 0 { Value::Int(i64::from(number) << 40) } else { Value::Null };
        record.set("number", number).unwrap();
    };
    let done = match step {
        Step::Insert(length, number) => {
            let mut record = Record::new(table);
            fill(&mut record, *length, *number);
            store.insert_record(&record).run().map(drop)
        }
        Step::Update(id, length, number) => {
            let mut record = Record::new(std::sync::Arc::clone(&table));
            fill(&mut record, *length, *number);
            store.update_record(*id, &record).run().map(drop)
        }
        Step::Delete(id) => store.delete_record(&table, *id).run().map(drop),
        Step::Sql(sql) => store.execute(*sql).run().map(drop),
    };
    if let Err(error) = done {
        assert_eq!(error.kind(), marmota_model::ErrorKind::NotFound, "{step:?}: {error}");
    }
}

/// Applies the changes after a position, and checks each row before a change.
fn follow(store: &Store, rows: &mut Rows, from: Position) -> Position {
    let mut stream = store.changes().unwrap().from(from).unwrap();
    let end = store.position().unwrap();
    while stream.position() < end {
        let Some(FeedEvent::Commit(commit)) = block_on(stream.next()).unwrap() else {
            panic!("no commit")
        };
        for change in &commit.changes {
            let key = change.key().as_ref().as_int().unwrap();
            assert_eq!(rows.get(&key), change.before.as_ref());
            match &change.after {
                Some(after) => drop(rows.insert(key, after.clone())),
                None => drop(rows.remove(&key)),
            }
        }
    }
    end
}

fn stored(store: &Store) -> Rows {
    let table = store.table("item").unwrap();
    let query = RowQuery { fields: Some(FieldSet::first(table.fields().len())), ..RowQuery::new() };
    let mut rows = Rows::new();
    let mut keep = |row: &[marmota_model::ValueRef<'_>]| {
        let row: Vec<Value> = row.iter().map(|value| value.to_value()).collect();
        rows.insert(row[0].as_ref().as_int().unwrap(), row);
        std::ops::ControlFlow::Continue(())
    };
    let mut list = marmota_store::operation::Operation::List { table: &table, query: &query };
    store.run(&mut list, &mut keep).unwrap();
    rows
}

#[test]
fn changes_have_the_rows_that_are_read() {
    let steps = || prop::collection::vec(step(), 1..40);
    let config = Config { cases: 24, ..Config::default() };
    TestRunner::new(config)
        .run(&(steps(), steps()), |(old, new)| {
            let folder = tempfile::tempdir().unwrap();
            let store = open(folder.path(), false);
            let (mut rows, begin) = (Rows::new(), store.position().unwrap());
            old.iter().for_each(|step| execute(&store, step));
            follow(&store, &mut rows, begin);
            prop_assert_eq!(&rows, &stored(&store));
            store.close().unwrap();

            // Columns that were added after the rows.
            let store = open(folder.path(), true);
            let (mut rows, begin) = (stored(&store), store.position().unwrap());
            new.iter().for_each(|step| execute(&store, step));
            follow(&store, &mut rows, begin);
            prop_assert_eq!(&rows, &stored(&store));
            store.close().unwrap();
            Ok(())
        })
        .unwrap();
}
