//! Filters, orders, pages and limits.

use marmota_model::{
    Comparison, FilterExpr, Order, Place, RowQuery, SortKey, Value, ValueRef, parse_filter,
    parse_order,
};
use marmota_sqlite::Sqlite;
use marmota_store::engine::{Engine, Session};
use marmota_store::operation::Operation;

use crate::database::{Calls, EMAIL, YEAR, city, memory, person, person_row};

/// Five people; Bob has no year and no address.
fn people() -> (Sqlite, Box<dyn Session>, std::sync::Arc<marmota_model::Table>) {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    for (name, email, year) in [
        ("Ada", Some("ada@x.org"), Some(1815)),
        ("Bob", None, None),
        ("ädele", Some("ADELE@x.org"), Some(1815)),
        ("50%_off\\", Some("off@y.org"), Some(2000)),
        ("ada", Some("b@y.org"), Some(-5)),
    ] {
        let mut row = person_row(name);
        row[EMAIL] = email.map_or(ValueRef::Null, ValueRef::Text);
        row[YEAR] = year.map_or(ValueRef::Null, ValueRef::Int);
        session.insert(&person, &row).unwrap();
    }
    (engine, session, person)
}

fn ids(rows: &[Vec<Value>]) -> Vec<i64> {
    rows.iter().map(|row| row[0].as_ref().as_int().unwrap()).collect()
}

#[test]
fn filters_have_the_logic_of_sql() {
    let (_engine, mut session, person) = people();
    for (text, expected) in [
        ("year = 1815", vec![1, 3]),
        ("year != 1815", vec![4, 5]),
        ("not (year = 1815)", vec![4, 5]),
        ("not (year = 1815 and name = \"Ada\")", vec![2, 3, 4, 5]),
        ("year = null", vec![2]),
        ("year > 1815 or name = \"Bob\"", vec![2, 4]),
        ("year <= -5", vec![5]),
        ("name = \"ada\"", vec![5]),
        ("email = \"adele@X.ORG\"", vec![3]),
        ("year in (1815, -5)", vec![1, 3, 5]),
        ("name ~ \"DA\"", vec![1, 5]),
        ("name ~ \"Ä\"", vec![]),
        ("name ~ \"%_\"", vec![4]),
        ("name ~ \"\\\\\"", vec![4]),
        ("name ^ \"a\"", vec![1, 5]),
    ] {
        let read = parse_filter(&person, text).and_then(|filter| filter.into_expr_for(&person));
        let filter = match read {
            Ok(filter) => filter,
            Err(error) => panic!("{text}: {error}"),
        };
        let query = RowQuery { filter: Some(filter.clone()), ..RowQuery::new() };
        assert_eq!(ids(&session.rows(&person, &query)), expected, "{text}");
        assert_eq!(session.count(&person, Some(&filter)), expected.len() as u64, "{text}");
    }
}

#[test]
fn lists_without_members_have_a_meaning() {
    let (_engine, mut session, person) = people();
    let none = FilterExpr::In { field: YEAR, values: vec![] };
    for (filter, count) in [
        (FilterExpr::And(vec![]), 5),
        (FilterExpr::Or(vec![]), 0),
        (none.clone(), 0),
        (FilterExpr::Not(Box::new(none)), 5),
    ] {
        assert_eq!(session.count(&person, Some(&filter)), count, "{filter:?}");
    }
}

#[test]
fn the_largest_filter_allowed_is_taken() {
    let (_engine, mut session, person) = people();
    let is = |value: i64| FilterExpr::Compare {
        field: 0,
        comparison: Comparison::Equal,
        value: Value::Int(value),
    };
    let wide = FilterExpr::Or((0..marmota_model::FILTER_TERMS_MAX as i64 - 1).map(is).collect());
    wide.check(&person).unwrap();
    assert_eq!(session.count(&person, Some(&wide)), 5);
    let mut deep = is(3);
    for _ in 0..marmota_model::FILTER_DEPTH_MAX {
        deep = FilterExpr::Not(Box::new(FilterExpr::And(vec![deep])));
    }
    assert_eq!(session.count(&person, Some(&deep)), 1);
    let long = FilterExpr::Match { field: 1, place: Place::Anywhere, text: "a".repeat(60_000) };
    let error = session.run(Operation::Count { table: &person, filter: Some(&long) }).unwrap_err();
    assert_eq!(error.kind(), marmota_model::ErrorKind::Invalid);
}

#[test]
fn nulls_sort_first_and_last_when_descending() {
    let (_engine, mut session, person) = people();
    for (text, expected) in [
        ("year", [2, 5, 1, 3, 4]),
        ("-year", [4, 3, 1, 5, 2]),
        ("year,-id", [2, 5, 3, 1, 4]),
        ("name", [4, 1, 2, 5, 3]),
        ("email", [2, 1, 3, 5, 4]),
        ("-id", [5, 4, 3, 2, 1]),
    ] {
        let keys = |order: Vec<Order>| {
            order.into_iter().map(|by| by.into_key_for(&person)).collect::<Result<Vec<_>, _>>()
        };
        let order = match parse_order(&person, text).and_then(keys) {
            Ok(order) => order,
            Err(error) => panic!("{text}: {error}"),
        };
        let query = RowQuery { order, ..RowQuery::new() };
        assert_eq!(ids(&session.rows(&person, &query)), expected, "{text}");
    }
}

#[test]
fn pages_put_together_are_the_whole_list() {
    let (_engine, mut session, person) = people();
    let order = |field, descending| SortKey { field, descending };
    for order in [
        vec![],
        vec![order(0, true)],
        vec![order(YEAR, false)],
        vec![order(YEAR, true)],
        vec![order(EMAIL, true), order(YEAR, false)],
        vec![order(1, true)],
        vec![order(1, false)],
        vec![order(YEAR, true), order(0, false)],
    ] {
        let whole = RowQuery { order: order.clone(), ..RowQuery::new() };
        let expected = ids(&session.rows(&person, &whole));
        let mut query = RowQuery { limit: Some(2), ..whole.clone() };
        let mut paged = Vec::new();
        loop {
            let page = session.rows(&person, &query);
            let Some(last) = page.last() else { break };
            let by = whole.order_with_key(&person);
            query.after = Some(by.iter().map(|by| last[by.field].clone()).collect());
            paged.extend(ids(&page));
        }
        assert_eq!(paged, expected, "{order:?}");
    }
}

#[test]
fn a_limit_of_none_gives_none() {
    let (_engine, mut session, person) = people();
    for (limit, expected) in [(Some(0), 0), (Some(2), 2), (Some(u64::MAX), 5), (None, 5)] {
        let query = RowQuery { limit, ..RowQuery::new() };
        assert_eq!(session.rows(&person, &query).len(), expected);
    }
}

#[test]
fn more_shapes_than_are_kept_all_work() {
    let (_engine, mut session, person) = people();
    for round in 0..2 {
        for count in 1..400 {
            let filter = FilterExpr::In { field: 0, values: (1..=count).map(Value::Int).collect() };
            let found = session.count(&person, Some(&filter));
            assert_eq!(found, 5.min(count as u64), "round {round}");
        }
    }
}
