//! Conditions on a path inside a JSON field: every engine returns the same rows as an evaluation of
//! the whole value, with SQL's three-valued logic.

use std::cmp::Ordering;

use marmota_model::json::{JsonCondition, JsonPath, JsonStep, JsonTest};
use marmota_model::{
    Comparison, ErrorKind, Filter, FilterExpr, Json, Record, RowQuery, Value, parse_filter,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::json;

use crate::conformance::harness::models;
use crate::conformance::harness::models::Place;
use crate::conformance::harness::refusal::{blamed, refused};
use crate::conformance::harness::subject::{Stand, Subject};

const OPTIONS: usize = 1;

fn stand_of(
    subject: &Subject,
    options: impl IntoIterator<Item = Option<serde_json::Value>>,
) -> (Stand<'_>, Vec<i64>) {
    let mut stand = Stand::open(subject, models::all);
    let places: Vec<Place> =
        options.into_iter().map(|options| Place { id: 0, options: options.map(Json) }).collect();
    let keys = stand.insert_many(&places).run().unwrap();
    stand.settle();
    (stand, keys)
}

fn found(stand: &Stand<'_>, filter: Filter<Place>) -> Vec<i64> {
    stand.list::<Place>().filter(filter).column(Place::ID).run().unwrap()
}

/// Typed and textual conditions on paths work in lists, counts and deletes, alone and with other
/// conditions.
pub fn paths_select_by_what_is_inside(subject: &Subject) {
    let (stand, keys) = stand_of(
        subject,
        [
            Some(json!({"address": {"city": "Bourges", "zip": 18000}, "tags": ["Old", "big"]})),
            Some(json!({"address": {"city": "Nevers", "zip": 58000.5}, "tags": []})),
            Some(json!({"address": {"city": null}, "tags": "Old"})),
            Some(json!([1, {"a b": true}])),
            Some(json!("Bourges")),
            None,
        ],
    );
    let at = |path| Place::OPTIONS.at(path);
    let not = |filter: Filter<Place>| !filter;
    let table = stand.table("place").unwrap();
    for (filter, text, wanted) in [
        (at("address.city").eq("Bourges"), "options.address.city = 'Bourges'", vec![0]),
        (at("address.city").ne("Bourges"), "options.address.city != 'Bourges'", vec![1]),
        (not(at("address.city").eq("Bourges")), "not options.address.city = 'Bourges'", vec![1]),
        (at("address.zip").gt(18_000_i64), "options.address.zip > 18000", vec![1]),
        (at("address.zip").le(18_000.0), "options.address.zip <= 18000.0", vec![0]),
        (at("address.zip").eq("18000"), "options.address.zip = '18000'", vec![]),
        (at("address.zip").ne("18000"), "options.address.zip != '18000'", vec![0, 1]),
        (at("address.zip").lt("2"), "options.address.zip < '2'", vec![]),
        (not(at("address.zip").lt("2")), "not options.address.zip < '2'", vec![]),
        (at("tags[0]").contains("OL"), "options.tags[0] ~ 'OL'", vec![0]),
        (at("tags[1]").starts_with("b"), "options.tags[1] ^ 'b'", vec![0]),
        (at("tags").is_in(["Old", "x"]), "options.tags in ('Old', 'x')", vec![2]),
        (not(at("tags").is_in(["Old"])), "options.tags not in ('Old')", vec![0, 1]),
        (at("address.city").is_null(), "options.address.city = null", vec![2, 3, 4, 5]),
        (at("address.city").ne(Value::Null), "options.address.city != null", vec![0, 1]),
        (at("address.city").exists(), "options.address.city exists", vec![0, 1, 2]),
        (not(at("tags").exists()), "not options.tags exists", vec![3, 4, 5]),
        (at("[1].'a b'").eq(true), "options[1].'a b' = true", vec![3]),
    ] {
        let wanted: Vec<i64> = wanted.into_iter().map(|place: usize| keys[place]).collect();
        assert_eq!(parse_filter(&table, text).unwrap().of().unwrap(), filter, "{text}");
        assert_eq!(found(&stand, filter.clone()), wanted, "{text}");
        let count = stand.count::<Place>().filter(filter.clone()).run().unwrap();
        assert_eq!(count, wanted.len() as u64, "{text}");
        let first = found(&stand, filter.clone().and(Place::ID.le(keys[0])));
        let wanted_first: Vec<i64> = wanted.iter().copied().filter(|&key| key == keys[0]).collect();
        assert_eq!(first, wanted_first, "{text}");
    }
    let city = at("address.city").eq("Bourges").or(at("address.city").eq("Nevers"));
    assert_eq!(stand.delete_where::<Place>(city).run().unwrap(), 2);
    assert_eq!(stand.count::<Place>().run().unwrap(), 4);
}

fn scalar() -> BoxedStrategy<serde_json::Value> {
    select(vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(-0.0),
        json!(1),
        json!(1.0),
        json!(1.5),
        json!(-7),
        json!(i64::MAX),
        json!(9_223_372_036_854_775_807.0),
        json!(u64::MAX),
        json!(i64::MIN),
        json!("\u{e9}"),
        json!(""),
        json!("a"),
        json!("A\n\"\\"),
        json!("1"),
        json!("true"),
    ])
    .boxed()
}

/// Names, including ones that need quotes and escapes.
const NAMES: [&str; 6] = ["a", "b", "a b", "\"\\", "\u{e9}", ""];

fn value() -> BoxedStrategy<serde_json::Value> {
    scalar()
        .prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                vec((select(&NAMES[..]), inner), 0..4).prop_map(|members| {
                    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
                }),
            ]
        })
        .boxed()
}

fn path() -> BoxedStrategy<JsonPath> {
    let step = prop_oneof![
        3 => select(&NAMES[..]).prop_map(|name| {
            format!(".\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
        }),
        2 => (0..3_u32).prop_map(|place| format!("[{place}]")),
    ];
    vec(step, 1..4).prop_map(|steps| JsonPath::new(&steps.concat())).boxed()
}

fn literal() -> BoxedStrategy<Value> {
    scalar()
        .prop_filter_map("null is no value to compare with", |value| match value {
            serde_json::Value::Bool(value) => Some(Value::Bool(value)),
            serde_json::Value::String(text) => Some(Value::Text(text)),
            serde_json::Value::Number(number) => {
                Some(number.as_i64().map_or(Value::Float(number.as_f64()?), Value::Int))
            }
            _ => None,
        })
        .boxed()
}

fn condition() -> BoxedStrategy<JsonCondition> {
    let comparison = select(vec![
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ]);
    let place = select(vec![marmota_model::Place::Anywhere, marmota_model::Place::Start]);
    let test = prop_oneof![
        6 => (comparison, literal()).prop_map(|(comparison, value)| {
            JsonTest::Compare(comparison, value)
        }),
        2 => vec(literal(), 0..3).prop_map(JsonTest::In),
        1 => Just(JsonTest::IsNull),
        1 => Just(JsonTest::Exists),
        1 => (place, select(vec!["", "a", "A"])).prop_map(|(place, part)| {
            JsonTest::Match(place, part.to_owned())
        }),
    ];
    (path(), test).prop_map(|(path, test)| JsonCondition { path, test }).boxed()
}

/// The expected result of the condition on the whole value.
fn wanted(whole: Option<&serde_json::Value>, condition: &JsonCondition) -> Option<bool> {
    let steps = condition.path.steps().unwrap();
    let inside = whole.and_then(|whole| {
        steps.iter().try_fold(whole, |value, step| match step {
            JsonStep::Member(name) => value.as_object()?.get(name),
            JsonStep::Element(place) => value.as_array()?.get(*place as usize),
        })
    });
    let there = inside.filter(|value| !value.is_null());
    match &condition.test {
        JsonTest::Exists => return Some(inside.is_some()),
        JsonTest::IsNull => return Some(there.is_none()),
        JsonTest::In(values) if values.is_empty() => return Some(false),
        _ => {}
    }
    let there = there?;
    match &condition.test {
        JsonTest::In(values) => {
            Some(values.iter().any(|value| order(there, value) == Some(Ordering::Equal)))
        }
        JsonTest::Match(place, part) => Some(there.as_str().is_some_and(|text| {
            let (text, part) = (text.to_ascii_lowercase(), part.to_ascii_lowercase());
            match place {
                marmota_model::Place::Anywhere => text.contains(&part),
                marmota_model::Place::Start => text.starts_with(&part),
            }
        })),
        JsonTest::Compare(Comparison::Equal, value) => {
            Some(order(there, value) == Some(Ordering::Equal))
        }
        JsonTest::Compare(Comparison::NotEqual, value) => {
            Some(order(there, value) != Some(Ordering::Equal))
        }
        JsonTest::Compare(comparison, value) => {
            let order = order(there, value)?;
            Some(match comparison {
                Comparison::Less => order.is_lt(),
                Comparison::LessOrEqual => order.is_le(),
                Comparison::Greater => order.is_gt(),
                _ => order.is_ge(),
            })
        }
        _ => unreachable!("answered above"),
    }
}

fn order(found: &serde_json::Value, value: &Value) -> Option<Ordering> {
    use serde_json::Value as J;
    match (found, value) {
        (J::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (J::String(a), Value::Text(b)) => Some(a.cmp(b)),
        (J::Number(a), Value::Int(b)) if a.is_i64() => Some(a.as_i64()?.cmp(b)),
        // The numbers of the pool are exact as floats, or so far apart that it does not matter,
        // except the greatest integer, which is less than its float.
        (J::Number(a), Value::Float(b)) if a.as_i64() == Some(i64::MAX) => {
            Some((9.2e18).partial_cmp(b)?)
        }
        (J::Number(a), Value::Int(i64::MAX)) => Some(a.as_f64()?.partial_cmp(&9.2e18)?),
        (J::Number(a), Value::Int(b)) => a.as_f64()?.partial_cmp(&(*b as f64)),
        (J::Number(a), Value::Float(b)) => a.as_f64()?.partial_cmp(b),
        _ => None,
    }
}

/// With random values, paths and conditions, a condition and its negation select the same rows as
/// an evaluation of the whole value.
pub fn random_json_is_looked_into(subject: &Subject) {
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[5; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let mut make = |strategy: &BoxedStrategy<serde_json::Value>| {
        strategy.new_tree(&mut runner).unwrap().current()
    };
    let mut values: Vec<Option<serde_json::Value>> =
        std::iter::repeat_with(|| Some(make(&value()))).take(300).collect();
    values.push(None);
    let (stand, keys) = stand_of(subject, values.iter().cloned());
    let table = stand.table("place").unwrap();
    let conditions = vec(condition(), 400).new_tree(&mut runner).unwrap().current();
    let mut hits = 0;
    for condition in conditions {
        let filter = FilterExpr::Inside { field: OPTIONS, condition: Box::new(condition.clone()) };
        let filter = Filter::from_expr(&table, filter).unwrap().of().unwrap();
        let select = |answer: bool| -> Vec<i64> {
            let rows = values.iter().zip(&keys);
            rows.filter(|(value, _)| wanted(value.as_ref(), &condition) == Some(answer))
                .map(|(_, key)| *key)
                .collect()
        };
        let (yes, no) = (select(true), select(false));
        hits += usize::from(!yes.is_empty());
        assert_eq!(found(&stand, filter.clone()), yes, "{condition:?}");
        assert_eq!(found(&stand, !filter), no, "not {condition:?}");
    }
    assert!(hits > 150, "{hits} of 400 conditions select something");
}

/// An invalid path, a path into a field that is not JSON, and a value that JSON does not have are
/// refused with the field.
pub fn a_path_that_makes_no_sense_is_refused(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let count = |filter| stand.count::<Place>().filter(filter).run();
    blamed(count(Place::OPTIONS.at("a[").eq(1_i64)), ErrorKind::Invalid, "options", "path");
    blamed(count(Place::OPTIONS.at("").exists()), ErrorKind::Invalid, "options", "path");
    let deep = "a.".repeat(100) + "a";
    blamed(count(Place::OPTIONS.at(&deep).exists()), ErrorKind::Invalid, "options", "path");
    blamed(count(Place::OPTIONS.at("a").eq(f64::NAN)), ErrorKind::Invalid, "options", "type");
    let blob = Value::Blob(vec![1]);
    blamed(count(Place::OPTIONS.at("a").eq(blob)), ErrorKind::Invalid, "options", "type");
    let condition = JsonCondition { path: JsonPath::new("a"), test: JsonTest::Exists };
    let other = FilterExpr::Inside { field: 0, condition: Box::new(condition) };
    let table = stand.table("place").unwrap();
    blamed(Filter::from_expr(&table, other), ErrorKind::Invalid, "id", "path");
    let many = Place::OPTIONS.at("a").is_in(0..1000_i64);
    refused(count(many), ErrorKind::Invalid);
}

/// Unusual JSON from clients (deeply nested, with a duplicate name, half a surrogate pair, or
/// numbers out of range) is selected or not, and does not disturb reads of other rows.
pub fn strange_json_is_no_obstacle(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let deep = format!("{{\"x\":{}{},\"a\":1}}", "[".repeat(5000), "]".repeat(5000));
    let texts = [
        deep.as_str(),
        r#"{"a":7,"a":1}"#,
        r#"{"a":"\ud800"}"#,
        r#"{"a":1e999}"#,
        "{\"a\" :\t1.0}",
        r#"{"\u0061":1}"#,
    ];
    let table = stand.table("place").unwrap();
    for text in texts {
        let mut record = Record::new(std::sync::Arc::clone(&table));
        record.set("options", Value::Json(text.to_owned())).unwrap();
        stand.insert_record(&record).run().unwrap();
    }
    stand.settle();
    let table = stand.table("place").unwrap();
    let list = |filter: Filter<Place>| {
        let fields = marmota_model::FieldSet::EMPTY.with(0);
        let filter = filter.into_expr();
        let query = RowQuery { filter: Some(filter), fields: Some(fields), ..RowQuery::new() };
        let rows = stand.list_records(&table).query(query).run().unwrap();
        rows.iter().map(|row| row.values()[0].as_ref().as_int().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(list(Place::OPTIONS.at("a").eq(1_i64)), [1, 2, 5, 6]);
    assert_eq!(list(Place::OPTIONS.at("a").gt(1_i64)), [4]);
    assert_eq!(list(Place::OPTIONS.at("a").ne(1_i64)), [3, 4]);
    assert_eq!(list(Place::OPTIONS.at("a").exists()), [1, 2, 3, 4, 5, 6]);
}

register!($ json_paths_promises json_paths:
    paths_select_by_what_is_inside,
    random_json_is_looked_into,
    a_path_that_makes_no_sense_is_refused,
    strange_json_is_no_obstacle,
);
