//! Groups of rows: fields to group by, computed values, conditions and orders on groups; the first
//! rows for each value of a field; and estimated counts.

use std::ops::ControlFlow;

use marmota_model::{
    AggregateColumn, AggregateFunction, Collation, Comparison, Currency, ErrorKind, FilterExpr,
    GroupQuery, Model, RowQuery, Scratch, SortKey, Table, Uuid, Value, ValueRef, parse_filter,
    parse_order,
};
use marmota_store::group::{avg, count, count_of, max, min, sum};
use marmota_store::operation::Operation;

use crate::conformance::harness::models;
use crate::conformance::harness::models::{Colour, Level, Maybe, Note, Word};
use crate::conformance::harness::refusal::refused;
use crate::conformance::harness::subject::{Stand, Subject};

/// A pseudo-random sequence of numbers, which is the same each time.
fn scattered(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// Rows with few different values, and NULL, in each field. Sums of floats are exact.
fn rows(random: &mut impl FnMut(u64) -> u64, count: usize) -> Vec<Maybe> {
    let mut some = |below: u64| match random(below + 1) {
        0 => None,
        number => Some(number as usize - 1),
    };
    let row = |_| Maybe {
        id: 0,
        flag: some(2).map(|it| it == 1),
        i32: some(3).map(|it| [i32::MIN, 0, i32::MAX][it]),
        i64: some(4).map(|it| [-7, 0, 1 << 40, i64::MAX / 1_000][it]),
        f64: some(3).map(|it| [-0.5, 0.0, 1024.25][it]),
        amount: some(3).map(|it| Currency::from_scaled([-1, 25_000, 1 << 40][it])),
        text: some(3).map(|it| ["B", "a", "é"][it].to_owned()),
        json: None,
        date: some(2).map(|it| ["1969-12-31", "2000-02-29"][it].parse().unwrap()),
        time: some(2).map(|it| ["00:00:00", "10:00:00.000001"][it].parse().unwrap()),
        at: some(2)
            .map(|it| ["1970-01-01T00:00:00Z", "2026-01-01T00:00:00.000001Z"][it].parse().unwrap()),
        uuid: some(2).map(|it| Uuid::from_u128([1, 1 << 100][it])),
        colour: some(2).map(|it| [Colour::Red, Colour::Blue][it]),
        level: some(2).map(|it| [Level::Low, Level::High][it]),
        blob: None,
    };
    (0..count).map(row).collect()
}

fn values_of(row: &impl Model) -> Vec<Value> {
    let scratch = Scratch::new();
    let mut values = vec![ValueRef::Absent; row_width(row)];
    row.write(&mut values, &scratch);
    values.iter().map(ValueRef::to_value).collect()
}

fn row_width<M: Model>(_: &M) -> usize {
    M::schema().fields.len()
}

/// The number of a value as a 128-bit integer.
fn whole(value: &Value) -> i128 {
    match value {
        Value::Int(value) => (*value).into(),
        Value::Currency(value) => value.scaled().into(),
        other => panic!("{other:?}"),
    }
}

/// Evaluates an aggregate in plain code.
fn evaluated(column: &AggregateColumn, rows: &[&Vec<Value>]) -> Value {
    let Some(field) = column.field else { return Value::Int(rows.len() as i64) };
    let values = rows.iter().map(|row| &row[field]).filter(|value| **value != Value::Null);
    let values: Vec<&Value> = values.collect();
    let order = |a: &&&Value, b: &&&Value| a.as_ref().order(&b.as_ref());
    let owned = |value: Option<&&Value>| value.map_or(Value::Null, |value| (*value).clone());
    match column.function {
        AggregateFunction::Count => Value::Int(values.len() as i64),
        _ if values.is_empty() => Value::Null,
        AggregateFunction::Min => owned(values.iter().min_by(order)),
        AggregateFunction::Max => owned(values.iter().max_by(order)),
        function => {
            let is_mean = function == AggregateFunction::Avg;
            let count = values.len() as f64;
            if let Value::Float(_) = values[0] {
                let float = |value: &&Value| match value {
                    Value::Float(value) => *value,
                    other => panic!("{other:?}"),
                };
                let sum: f64 = values.iter().map(float).sum();
                return Value::Float(if is_mean { sum / count } else { sum });
            }
            let sum: i128 = values.iter().map(|value| whole(value)).sum();
            match (values[0], is_mean) {
                (Value::Currency(_), true) => Value::Float(sum as f64 / count / 10_000.0),
                (_, true) => Value::Float(sum as f64 / count),
                (Value::Currency(_), false) => {
                    Value::Currency(Currency::from_scaled(sum.try_into().unwrap()))
                }
                _ => Value::Int(sum.try_into().unwrap()),
            }
        }
    }
}

/// Evaluates a query without conditions on groups in plain code.
fn expected(query: &GroupQuery, rows: &[Vec<Value>]) -> Vec<Vec<Value>> {
    let mut keys: Vec<Vec<Value>> = Vec::new();
    let key_of =
        |row: &Vec<Value>| -> Vec<Value> { query.by.iter().map(|&by| row[by].clone()).collect() };
    for row in rows {
        let key = key_of(row);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    if query.by.is_empty() {
        keys = vec![Vec::new()];
    }
    let groups = keys.into_iter().map(|key| {
        let group: Vec<&Vec<Value>> = rows.iter().filter(|row| key_of(row) == key).collect();
        let values = query.aggregates.iter().map(|column| evaluated(column, &group));
        key.clone().into_iter().chain(values.collect::<Vec<_>>()).collect()
    });
    let mut groups: Vec<Vec<Value>> = groups.collect();
    let order = query.total_order();
    groups.sort_by(|a, b| {
        let orders = order.iter().map(|by| {
            let order = Collation::Binary.order(a[by.field].as_ref(), b[by.field].as_ref());
            if by.descending { order.reverse() } else { order }
        });
        orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
    groups
}

fn found(stand: &Stand<'_>, table: &str, query: GroupQuery) -> Vec<Vec<Value>> {
    let table = stand.table(table).unwrap();
    let groups = stand.list_records(&table).group(query).run().unwrap();
    groups.iter().map(|row| row.values().to_vec()).collect()
}

fn assert_same(found: &[Vec<Value>], wanted: &[Vec<Value>], query: &GroupQuery) {
    assert_eq!(found.len(), wanted.len(), "{query:?}");
    let pairs = found.iter().flatten().zip(wanted.iter().flatten());
    for (found, wanted) in pairs {
        match (found, wanted) {
            // Means of numbers beyond 53 bits are rounded once or twice.
            (Value::Float(a), Value::Float(b)) => {
                assert!((a - b).abs() <= b.abs() * 1e-12, "{a} {b} {query:?}");
            }
            _ => assert_eq!(found, wanted, "{query:?}"),
        }
    }
}

/// Groups, and the values that are computed for them, are those of plain code, for each kind of
/// field.
pub fn groups_are_those_of_plain_code(subject: &Subject) {
    const BY: [&str; 9] = ["flag", "i32", "text", "date", "time", "at", "uuid", "colour", "level"];
    const VALUES: [(AggregateFunction, &[&str]); 5] = [
        (AggregateFunction::Count, &["id", "text", "json", "uuid"]),
        (AggregateFunction::Sum, &["i32", "i64", "f64", "amount"]),
        (AggregateFunction::Avg, &["i32", "i64", "f64", "amount"]),
        (AggregateFunction::Min, &["i32", "i64", "f64", "amount", "text", "date", "time", "at"]),
        (AggregateFunction::Max, &["i32", "i64", "f64", "amount", "text", "date", "time", "at"]),
    ];
    let mut random = scattered(50);
    let mut stand = Stand::open(subject, models::all);
    let mut all = rows(&mut random, 120);
    let keys = stand.insert_many(&all).run().unwrap();
    all.iter_mut().zip(keys).for_each(|(row, key)| row.id = key);
    stand.settle();
    let all: Vec<Vec<Value>> = all.iter().map(values_of).collect();
    let table = stand.table("maybe").unwrap();
    let position = |name: &str| table.position(name).unwrap();
    for _ in 0..40 {
        let mut query = GroupQuery::new();
        for _ in 0..random(4) {
            let field = position(BY[random(BY.len() as u64) as usize]);
            if !query.by.contains(&field) {
                query.by.push(field);
            }
        }
        for number in 0..=random(6) {
            let (function, fields) = VALUES[random(5) as usize];
            let field = position(fields[random(fields.len() as u64) as usize]);
            let column = AggregateColumn::new(function, Some(field));
            query.aggregates.push(column.named(format!("v{number}")));
        }
        if random(2) == 0 {
            query.aggregates.push(AggregateColumn::new(AggregateFunction::Count, None));
        }
        for _ in 0..random(3) {
            let field = random((query.by.len() + query.aggregates.len()) as u64) as usize;
            // Means are compared with rounding, so they do not decide the order.
            let is_mean = field
                .checked_sub(query.by.len())
                .is_some_and(|at| query.aggregates[at].function == AggregateFunction::Avg);
            if !is_mean && query.order.iter().all(|by| by.field != field) {
                query.order.push(SortKey { field, descending: random(2) == 1 });
            }
        }
        let filter = (random(2) == 0).then(|| {
            let (field, value) = (position("i64"), Value::Int(0));
            FilterExpr::Compare { field, comparison: Comparison::GreaterOrEqual, value }
        });
        let selected: Vec<Vec<Value>> = all
            .iter()
            .filter(|row| {
                filter.is_none() || row[position("i64")].as_ref().as_int().is_some_and(|it| it >= 0)
            })
            .cloned()
            .collect();
        query.filter = filter;
        let wanted = expected(&query, &selected);
        assert_same(&found(&stand, "maybe", query.clone()), &wanted, &query);
        query.limit = Some(2);
        let wanted = &wanted[..wanted.len().min(2)];
        assert_same(&found(&stand, "maybe", query.clone()), wanted, &query);
    }
}

/// Conditions on groups follow SQL's logic, and compare texts by the collation of their field.
pub fn groups_are_selected_by_their_values(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let words = ["Ann", "ann", "BOB", "bob", "bob", "Zoë"];
    let words: Vec<Word> =
        words.iter().zip(0..).map(|(text, rank)| Word::new(Some(text), rank)).collect();
    stand.insert_many(&words).run().unwrap();
    stand.insert(&Word::new(None, 9)).run().unwrap();
    stand.settle();
    let table = stand.table("word").unwrap();
    let groups = |having: &str, order: &str| -> Vec<Vec<Value>> {
        let mut query =
            GroupQuery { by: vec![table.position("folded").unwrap()], ..GroupQuery::new() };
        query.select(&table, "count,sum(rank),min(folded),max(exact)").unwrap();
        let result: Table = query.result(&table).unwrap();
        if !having.is_empty() {
            let having = parse_filter(&result, having).unwrap();
            query.having = Some(having.into_expr_for(&result).unwrap());
        }
        if !order.is_empty() {
            let order = parse_order(&result, order).unwrap();
            query.order = order.into_iter().map(|by| by.into_key_for(&result).unwrap()).collect();
        }
        found(&stand, "word", query)
    };
    let row = |name: Option<&str>, count: i64, sum: i64, greatest: Option<&str>| {
        let text = |text: Option<&str>| text.map_or(Value::Null, Value::from);
        vec![text(name), Value::Int(count), Value::Int(sum), text(name), text(greatest)]
    };
    let none = row(None, 1, 9, None);
    let ann = row(Some("ann"), 2, 1, Some("ann"));
    let bob = row(Some("bob"), 3, 9, Some("bob"));
    let zoe = row(Some("zoë"), 1, 5, Some("Zoë"));
    let all = [none.clone(), ann.clone(), bob.clone(), zoe.clone()];
    assert_eq!(groups("", ""), all);
    assert_eq!(groups("count > 1", "-count"), [bob.clone(), ann.clone()]);
    assert_eq!(groups("folded = 'ANN' or min_folded ^ 'BO'", ""), [ann.clone(), bob.clone()]);
    assert_eq!(groups("max_exact = 'zoë'", ""), Vec::<Vec<Value>>::new());
    assert_eq!(groups("max_exact in ('Zoë')", ""), std::slice::from_ref(&zoe));
    assert_eq!(groups("folded = null", ""), std::slice::from_ref(&none));
    assert_eq!(groups("not folded = 'ann'", "-sum_rank,-folded"), [bob, zoe]);
    assert_eq!(groups("sum_rank = 9 and count = 1", ""), [none]);
}

/// The typed verbs return tuples; a value of a condition or order need not be selected.
pub fn groups_are_typed(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let notes =
        [("a", Some(1)), ("a", Some(2)), ("b", Some(40)), ("b", None), ("c", None), ("c", None)];
    let notes = notes.map(|(text, number)| Note::new(text, number));
    stand.insert_many(&notes).run().unwrap();
    stand.settle();
    let list = || stand.list::<Note>();
    assert_eq!(list().group_by(Note::TEXT).run().unwrap(), ["a", "b", "c"]);
    assert_eq!(list().group_by(Note::TEXT).limit(1).run().unwrap(), ["a"]);
    let text = str::to_owned;
    let values = (count(), count_of(Note::NUMBER), sum(Note::NUMBER));
    let groups = list().filter(Note::TEXT.ne("c")).group_by(Note::TEXT).select(values).run();
    assert_eq!(groups.unwrap(), [(text("a"), (2, 2, Some(3))), (text("b"), (2, 1, Some(40)))]);
    let ends = (min(Note::NUMBER), max(Note::NUMBER), avg(Note::NUMBER));
    let groups = list().group_by(Note::TEXT).select(ends).order(Note::TEXT.descending());
    assert_eq!(
        groups.run().unwrap(),
        [
            (text("c"), (None, None, None)),
            (text("b"), (Some(40), Some(40), Some(40.0))),
            (text("a"), (Some(1), Some(2), Some(1.5))),
        ]
    );
    let groups = list().group_by((Note::TEXT, Note::NUMBER)).select(count());
    let groups = groups.having(count().gt(1)).having(max(Note::ID).gt(0)).run().unwrap();
    assert_eq!(groups, [((text("c"), None), 2)]);
    let groups = list().group_by(Note::TEXT).select(count());
    let groups = groups.order(sum(Note::NUMBER).descending()).limit(2).run().unwrap();
    assert_eq!(groups, [(text("b"), 2), (text("a"), 2)]);
    let totals = list().aggregate((count(), sum(Note::NUMBER), max(Note::TEXT))).run().unwrap();
    assert_eq!(totals, (6, Some(43), Some(text("c"))));
    let totals = list().filter(Note::ID.eq(0)).aggregate((count(), sum(Note::NUMBER))).run();
    assert_eq!(totals.unwrap(), (0, None));
    let groups = list().filter(Note::ID.eq(0)).group_by(Note::TEXT).select(count()).run();
    assert_eq!(groups.unwrap(), []);
    let wrong = list().group_by(Note::TEXT).select(count()).order(Note::NUMBER.ascending()).run();
    refused(wrong, ErrorKind::Invalid);
}

/// A sum beyond 64 bits is an error; a sum of which only a part is beyond them is not.
pub fn a_sum_beyond_its_range_is_an_error(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let row = |i64: i64| Maybe {
        i64: Some(i64),
        amount: Some(Currency::from_scaled(i64)),
        text: Some("a".to_owned()),
        ..Maybe::default()
    };
    for ends in [[i64::MAX, 1, -1], [i64::MIN, -1, 1]] {
        let keys = stand.insert_many(&ends.map(row)).run().unwrap();
        stand.settle();
        let both = (sum(Maybe::I64), sum(Maybe::AMOUNT));
        let totals = stand.list::<Maybe>().aggregate(both).run().unwrap();
        assert_eq!(totals, (Some(ends[0]), Some(Currency::from_scaled(ends[0]))));
        stand.delete::<Maybe>(keys[2]).run().unwrap();
        stand.settle();
        let total = stand.list::<Maybe>().aggregate(sum(Maybe::I64)).run();
        assert!(refused(total, ErrorKind::Invalid).to_string().contains("a sum of `i64`"));
        let total = stand.list::<Maybe>().aggregate(sum(Maybe::AMOUNT)).run();
        assert!(refused(total, ErrorKind::Invalid).to_string().contains("a sum of `amount`"));
        let groups = stand.list::<Maybe>().group_by(Maybe::TEXT).select(sum(Maybe::I64)).run();
        refused(groups, ErrorKind::Invalid);
        let mean = stand.list::<Maybe>().aggregate(avg(Maybe::I64)).run().unwrap().unwrap();
        assert!((mean / (ends[0] as f64 / 2.0) - 1.0).abs() < 1e-12, "{mean}");
        keys[..2].iter().for_each(|key| stand.delete::<Maybe>(*key).run().unwrap());
        stand.settle();
    }
}

/// Queries of groups that do not fit the table are refused, with the reason.
pub fn groups_that_do_not_fit_are_refused(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let table = stand.table("maybe").unwrap();
    let group = |query: GroupQuery| {
        refused(stand.list_records(&table).group(query).run(), ErrorKind::Invalid);
    };
    group(GroupQuery::new());
    for field in ["f64", "json", "blob"] {
        group(GroupQuery { by: vec![table.position(field).unwrap()], ..GroupQuery::new() });
    }
    group(GroupQuery { by: vec![99], ..GroupQuery::new() });
    group(GroupQuery { by: vec![1, 2, 3, 4, 6, 8, 9, 10, 11], ..GroupQuery::new() });
    let by = || GroupQuery { by: vec![1], ..GroupQuery::new() };
    let having = FilterExpr::IsNull { field: 1 };
    group(GroupQuery { having: Some(having), ..by() });
    group(GroupQuery { order: vec![SortKey { field: 1, descending: false }], ..by() });
    let text = AggregateColumn::new(AggregateFunction::Sum, Some(table.position("text").unwrap()));
    group(GroupQuery { aggregates: vec![text], ..by() });
}

/// A list that is limited for each value of a field has the first rows of each, in its order.
pub fn the_first_rows_of_each_value(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let mut random = scattered(4);
    let words: Vec<Word> = (0..90)
        .map(|_| Word {
            id: 0,
            exact: [None, Some("a"), Some("b")][random(3) as usize].map(str::to_owned),
            folded: None,
            rank: random(5) as i64,
        })
        .collect();
    stand.insert_many(&words).run().unwrap();
    stand.settle();
    let table = stand.table("word").unwrap();
    let (by, order) = (table.position("rank").unwrap(), table.position("exact").unwrap());
    for (limit, descending, all) in [
        (1, false, None),
        (3, true, None),
        (50, false, None),
        (2, true, Some(3)),
        (1, false, Some(3)),
    ] {
        let query = RowQuery {
            filter: Some(Word::RANK.is_in([0, 1, 3, 7]).into_expr()),
            order: vec![SortKey { field: order, descending }],
            limit: all,
            ..RowQuery::new()
        };
        let read = |operation: &mut Operation<'_>| {
            let mut rows: Vec<Vec<Value>> = Vec::new();
            let mut sink = |row: &[ValueRef<'_>]| {
                rows.push(row.iter().map(ValueRef::to_value).collect());
                ControlFlow::Continue(())
            };
            stand.run(operation, &mut sink).unwrap();
            rows
        };
        let whole = RowQuery { limit: None, ..query.clone() };
        let whole = read(&mut Operation::List { table: &table, query: &whole });
        let each = read(&mut Operation::ListEach { table: &table, query: &query, by, limit });
        if let Some(all) = all {
            assert_eq!(each.len() as u64, all);
        }
        for rank in 0..5 {
            let of = |rows: &[Vec<Value>]| -> Vec<Vec<Value>> {
                rows.iter().filter(|row| row[by] == Value::Int(rank)).cloned().collect()
            };
            let (wanted, each) = (of(&whole), of(&each));
            let wanted = &wanted[..wanted.len().min(limit as usize)];
            match all {
                None => assert_eq!(each, wanted, "{rank}"),
                Some(_) => assert!(wanted.starts_with(&each), "{rank}"),
            }
        }
    }
}

/// An estimated count is a number of rows; it is exact on an engine without statistics.
pub fn counts_can_be_estimated(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    stand.insert_many(&Note::numbered(0..30)).run().unwrap();
    stand.settle();
    let estimate = stand.count::<Note>().filter(Note::NUMBER.lt(10)).estimated().run().unwrap();
    match stand.capability().estimates {
        true => assert!(estimate < 10_000, "{estimate}"),
        false => assert_eq!(estimate, 10),
    }
}

register!($ grouping_promises grouping:
    groups_are_those_of_plain_code,
    groups_are_selected_by_their_values,
    groups_are_typed,
    a_sum_beyond_its_range_is_an_error,
    groups_that_do_not_fit_are_refused,
    the_first_rows_of_each_value,
    counts_can_be_estimated,
);
