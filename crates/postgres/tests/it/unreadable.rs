//! Values that another program wrote and that no field has: infinite dates,
//! years before 1, 24:00, NaN.

use marmota_model::{Currency, Date, Error, ErrorKind, FieldSet, RowQuery, Time, Timestamp};
use marmota_postgres::Postgres;
use marmota_store::Store;

use crate::server;

#[derive(Clone, Debug, Default, marmota_derive::Model, PartialEq)]
struct Shift {
    id: i64,
    name: String,
    day: Option<Date>,
    end: Option<Time>,
    at: Option<Timestamp>,
    pay: Option<Currency>,
}

fn store(values: &str) -> Store {
    let engine = Postgres::from_url(&server().make_database().unwrap()).unwrap();
    let store = Store::builder(engine).model::<Shift>().open().unwrap();
    store.insert(&Shift { name: "whole".to_owned(), ..Shift::default() }).run().unwrap();
    let sql = format!("INSERT INTO shift (name,day,\"end\",at,pay) VALUES ('odd',{values})");
    store.execute(sql).run().unwrap();
    store
}

fn named(error: &Error) -> (&str, &str) {
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    let [violation] = error.violations() else { panic!("{error:?}") };
    assert!(violation.message.contains("row 2"), "{error}");
    (&violation.field, &violation.value)
}

#[test]
fn a_value_that_no_field_has_is_named_with_its_row() {
    for (values, field, value) in [
        ("'infinity',NULL,NULL,NULL", "day", "infinity"),
        ("'-infinity',NULL,NULL,NULL", "day", "-infinity"),
        ("'0044-03-15 BC',NULL,NULL,NULL", "day", "before 0001-01-01"),
        ("'20000-01-01',NULL,NULL,NULL", "day", "after 9999-12-31"),
        ("NULL,'24:00',NULL,NULL", "end", "24:00:00"),
        ("NULL,NULL,'-infinity',NULL", "at", "-infinity"),
        ("NULL,NULL,'0044-03-15 BC',NULL", "at", "before 0001-01-01"),
        ("NULL,NULL,NULL,'NaN'", "pay", "NaN"),
    ] {
        let store = store(values);
        assert_eq!(named(&store.list::<Shift>().run().unwrap_err()), (field, value));
        assert_eq!(named(&store.get::<Shift>(2).run().unwrap_err()), (field, value));
        // The rest can be read: another row, and the other fields of this one.
        assert_eq!(store.get::<Shift>(1).run().unwrap().name, "whole");
        let table = store.table("shift").unwrap();
        let fields = Some(FieldSet::first(2));
        let rows =
            store.list_records(&table).query(RowQuery { fields, ..RowQuery::new() }).run().unwrap();
        assert_eq!(rows.len(), 2);
        // The connection goes on, and the row can be written to.
        store.execute("UPDATE shift SET name='kept' WHERE id=2").run().unwrap();
        assert_eq!(store.count::<Shift>().run().unwrap(), 2);
        store.delete::<Shift>(2).run().unwrap();
        assert_eq!(store.list::<Shift>().run().unwrap().len(), 1);
    }
}
