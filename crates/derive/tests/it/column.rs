//! The constants of a model make filters and orders of the right field.

use marmota_model::{Comparison, FilterExpr, Model, Ref, SortKey, Table, Value};

use crate::person::{Gender, HTTPLog, Person, Status};

#[test]
fn columns_know_their_field() {
    assert_eq!((Person::LAST_NAME.position(), Person::LAST_NAME.name()), (2, "last_name"));
    assert_eq!((Person::KIND.position(), Person::KIND.name()), (9, "type"));
    assert_eq!((HTTPLog::TYPE.position(), HTTPLog::TYPE.name()), (2, "type"));
    // The trait's constant is still there beside the column of this name.
    assert_eq!(HTTPLog::TABLE.position(), 6);
    assert_eq!(<HTTPLog as Model>::TABLE, "http_log");
    for (position, field) in Person::schema().fields.iter().enumerate() {
        assert_eq!(Table::new(Person::schema().clone()).unwrap().find(&field.name), Some(position));
    }
}

#[test]
fn columns_compare_with_values_of_their_type() {
    let table = Table::new(Person::schema().clone()).unwrap();
    let equal = |field, value| FilterExpr::Compare { field, comparison: Comparison::Equal, value };
    for (filter, expected) in [
        (Person::LAST_NAME.eq("Bach"), equal(2, Value::Text("Bach".to_owned()))),
        (Person::YEAR_OF_BIRTH.eq(1685), equal(3, Value::Int(1685))),
        (Person::YEAR_OF_DEATH.eq(1750), equal(4, Value::Int(1750))),
        (Person::YEAR_OF_DEATH.eq(None), FilterExpr::IsNull { field: 4 }),
        (Person::KIND.eq(Status::Retired), equal(9, Value::Int(2))),
        (Person::GENDER.eq(Gender::NonBinary), equal(10, Value::Text("x".to_owned()))),
        (Person::BOSS.eq(Ref::new(3)), equal(11, Value::Int(3))),
    ] {
        assert_eq!(filter.into_expr(), expected);
        expected.check(&table).unwrap();
    }
}

#[test]
fn columns_sort() {
    let key = Person::VERSION.descending().into_key().unwrap();
    assert_eq!(key, SortKey { field: 27, descending: true });
}
