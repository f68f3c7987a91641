//! Filters and orders: every operator on every kind of field, with SQL's three-valued logic.

use marmota_model::{
    Blob, Comparison, Currency, ErrorKind, FILTER_BYTES_MAX, FILTER_DEPTH_MAX, FILTER_TERMS_MAX,
    Filter, FilterExpr, Json, Place, RowQuery, Uuid, Value, parse_filter, parse_order,
};

use crate::conformance::harness::models;
use crate::conformance::harness::models::{Colour, Level, Maybe, Note, Sample, Word};
use crate::conformance::harness::refusal::{blamed, refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

/// No row.
const NONE: [i64; 0] = [];

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

/// Three rows for each kind of field, in ascending order of values, after a row of NULLs.
fn ordered() -> [Maybe; 4] {
    let row = |step: usize| Maybe {
        id: 0,
        flag: Some(step > 0),
        i32: Some([-2, 0, 10][step]),
        i64: Some([i64::MIN, -1, i64::MAX][step]),
        f64: Some([-0.5, 0.0, 1e300][step]),
        amount: Some(Currency::from_scaled([-1, 1, 100_000][step])),
        text: Some(["B", "a", "é"][step].to_owned()),
        json: Some(Json(vec![step as u8])),
        date: Some(["0001-01-01", "1969-12-31", "2000-02-29"][step].parse().unwrap()),
        time: Some(["00:00:00", "09:00:00", "10:00:00.000001"][step].parse().unwrap()),
        at: Some(
            ["0099-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000001Z"][step]
                .parse()
                .unwrap(),
        ),
        uuid: Some(Uuid::from_u128([1, 1 << 100, u128::MAX][step])),
        colour: Some([Colour::Red, Colour::Blue, Colour::Blue][step]),
        level: Some([Level::Low, Level::High, Level::High][step]),
        blob: Some(Blob::Bytes([vec![], vec![0], vec![0, 0]][step].clone())),
    };
    [Maybe { blob: None, ..Maybe::default() }, row(0), row(1), row(2)]
}

fn stand_of_maybes(subject: &Subject) -> (Stand<'_>, Vec<i64>) {
    let mut stand = Stand::open(subject, models::all);
    let keys = stand.insert_many(&ordered()).run().unwrap();
    stand.settle();
    (stand, keys)
}

fn keys_of(stand: &Stand<'_>, table: &str, filter: FilterExpr) -> Vec<i64> {
    let table = stand.table(table).unwrap();
    let query = RowQuery { filter: Some(filter), ..RowQuery::new() };
    let rows = stand.list_records(&table).query(query).run().unwrap();
    let key = |value: &Value| value.as_ref().as_int().unwrap();
    rows.iter().map(|row| key(&row.values()[table.key()])).collect()
}

/// On each kind of field, comparisons with each row's value follow the order of values and exclude
/// NULLs, also within `not`.
pub fn every_kind_compares(subject: &Subject) {
    use marmota_model::{Model, Scratch, ValueRef};
    let (stand, keys) = stand_of_maybes(subject);
    let (rows, scratch) = (ordered(), Scratch::new());
    let rows = rows.each_ref().map(|one| {
        let mut row = vec![ValueRef::Absent; Maybe::schema().fields.len()];
        one.write(&mut row, &scratch);
        row
    });
    for (field, what) in Maybe::schema().fields.iter().enumerate().skip(1) {
        for against in &rows[1..] {
            for comparison in COMPARISONS {
                let value = against[field].to_value();
                let filter = FilterExpr::Compare { field, comparison, value };
                let selects = |row: &&Vec<ValueRef<'_>>| {
                    let order = row[field].order(&against[field]);
                    match comparison {
                        Comparison::Equal => order.is_eq(),
                        Comparison::NotEqual => order.is_ne(),
                        Comparison::Less => order.is_lt(),
                        Comparison::LessOrEqual => order.is_le(),
                        Comparison::Greater => order.is_gt(),
                        Comparison::GreaterOrEqual => order.is_ge(),
                    }
                };
                let (mut wanted, mut others) = (Vec::new(), Vec::new());
                for (row, key) in rows.iter().zip(&keys).skip(1) {
                    if selects(&row) { wanted.push(*key) } else { others.push(*key) }
                }
                let found = keys_of(&stand, "maybe", filter.clone());
                assert_eq!(found, wanted, "{} {filter:?}", what.name);
                let found = keys_of(&stand, "maybe", FilterExpr::Not(Box::new(filter.clone())));
                assert_eq!(found, others, "{} not {filter:?}", what.name);
            }
        }
    }
}

/// `in`, `is null` and their negations work on each kind of field.
pub fn every_kind_is_in_or_null(subject: &Subject) {
    use marmota_model::{Model, Scratch, ValueRef};
    let (stand, keys) = stand_of_maybes(subject);
    let (rows, scratch) = (ordered(), Scratch::new());
    let rows = rows.each_ref().map(|one| {
        let mut row = vec![ValueRef::Absent; Maybe::schema().fields.len()];
        one.write(&mut row, &scratch);
        row
    });
    let not = |filter: &FilterExpr| FilterExpr::Not(Box::new(filter.clone()));
    for (field, what) in Maybe::schema().fields.iter().enumerate().skip(1) {
        let null = FilterExpr::IsNull { field };
        assert_eq!(keys_of(&stand, "maybe", null.clone()), keys[..1], "{}", what.name);
        assert_eq!(keys_of(&stand, "maybe", not(&null)), keys[1..], "{}", what.name);
        let values = vec![rows[3][field].to_value(), rows[2][field].to_value()];
        let both = FilterExpr::In { field, values };
        assert_eq!(keys_of(&stand, "maybe", both.clone()), keys[2..], "{}", what.name);
        assert_eq!(keys_of(&stand, "maybe", not(&both)), keys[1..2], "{}", what.name);
        let none = FilterExpr::In { field, values: Vec::new() };
        assert_eq!(keys_of(&stand, "maybe", none.clone()), NONE, "{}", what.name);
        assert_eq!(keys_of(&stand, "maybe", not(&none)), keys, "{}", what.name);
    }
}

/// A comparison with NULL is neither true nor false, and neither is its negation; `and` and `or`
/// combine it as in SQL.
pub fn null_is_neither_true_nor_false(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let notes = [Note::new("a", 1), Note::new("b", None), Note::new("c", 3)];
    let keys = stand.insert_many(&notes).run().unwrap();
    stand.settle();
    let found = |filter: Filter<Note>| keys_of(&stand, "note", filter.into_expr());
    let not = |filter: Filter<Note>| !filter;
    let one = || Note::NUMBER.eq(1);
    let all = [keys[0], keys[1], keys[2]];
    assert_eq!(found(Note::NUMBER.ne(1)), [keys[2]]);
    assert_eq!(found(not(one())), [keys[2]]);
    assert_eq!(found(not(not(one()))), [keys[0]]);
    assert_eq!(found(one().or(not(one()))), [keys[0], keys[2]]);
    assert_eq!(found(one().or(Note::TEXT.eq("b"))), [keys[0], keys[1]]);
    assert_eq!(found(not(one().and(Note::TEXT.eq("b")))), [keys[0], keys[2]]);
    assert_eq!(found(not(one().and(Note::TEXT.eq("x")))), all);
    assert_eq!(found(not(one().or(Note::TEXT.eq("x")))), [keys[2]]);
    assert_eq!(found(not(Note::NUMBER.is_in([1, 2]))), [keys[2]]);
    assert_eq!(found(Note::NUMBER.eq(None)), [keys[1]]);
    assert_eq!(found(Note::NUMBER.ne(None)), [keys[0], keys[2]]);
    assert_eq!(found(Filter::all([])), all);
    assert_eq!(found(Filter::any([])), NONE);
    assert_eq!(found(not(Filter::all([]))), NONE);
    assert_eq!(found(not(Filter::any([]))), all);
    let count = stand.count::<Note>().filter(not(one())).run().unwrap();
    assert_eq!(count, 1);
}

const TEXTS: [Option<&str>; 16] = [
    Some("curie"),
    Some("CURIE"),
    Some("Marie Curie"),
    Some("50% off"),
    Some("50 off"),
    Some("a_b"),
    Some("axb"),
    Some("it's"),
    Some("say \"hi\""),
    Some("back\\slash"),
    Some("[x]*?"),
    Some("Élan"),
    Some("élan"),
    Some("🦫 dam"),
    Some(""),
    None,
];

fn stand_of_words(subject: &Subject) -> (Stand<'_>, Vec<i64>) {
    let mut stand = Stand::open(subject, models::all);
    let words: Vec<Word> =
        TEXTS.iter().zip(0..).map(|(text, rank)| Word::new(*text, rank)).collect();
    let keys = stand.insert_many(&words).run().unwrap();
    stand.settle();
    (stand, keys)
}

/// `contains` and `starts_with` match every character literally and ignore the case of A to Z, with
/// every collation of the field.
pub fn texts_are_searched(subject: &Subject) {
    let (stand, keys) = stand_of_words(subject);
    let parts = [
        "curie", "CuRiE", "%", "_", "'", "\"", "\\", "[", "*", "?", "É", "é", "🦫", "", " ", "50%",
        "a_", "e c", "x", "lan", "nothing",
    ];
    for part in parts {
        for place in [Place::Anywhere, Place::Start] {
            let folded = part.to_ascii_lowercase();
            let selects = |text: &str| match place {
                Place::Anywhere => text.contains(&folded),
                Place::Start => text.starts_with(&folded),
            };
            let (mut wanted, mut others) = (Vec::new(), Vec::new());
            for (text, key) in TEXTS.iter().zip(&keys) {
                let Some(text) = text else { continue };
                if selects(&text.to_ascii_lowercase()) {
                    wanted.push(*key);
                } else {
                    others.push(*key);
                }
            }
            for field in [Word::EXACT.position(), Word::FOLDED.position()] {
                let filter = FilterExpr::Match { field, place, text: part.to_owned() };
                let found = keys_of(&stand, "word", filter.clone());
                assert_eq!(found, wanted, "{filter:?}");
                let found = keys_of(&stand, "word", FilterExpr::Not(Box::new(filter.clone())));
                assert_eq!(found, others, "not {filter:?}");
            }
        }
    }
}

/// With a case-insensitive collation, every operator ignores the case of A to Z. Otherwise texts
/// are compared byte by byte.
pub fn collation_decides_how_texts_compare(subject: &Subject) {
    let (stand, keys) = stand_of_words(subject);
    let found = |filter: Filter<Word>| keys_of(&stand, "word", filter.into_expr());
    assert_eq!(found(Word::EXACT.eq("curie")), [keys[0]]);
    assert_eq!(found(Word::FOLDED.eq("cURIE")), [keys[0], keys[1]]);
    assert_eq!(found(Word::EXACT.eq("cURIE")), NONE);
    assert_eq!(found(Word::EXACT.is_in(["CURIE", "ÉLAN"])), [keys[1]]);
    assert_eq!(found(Word::FOLDED.is_in(["CURIE", "ÉLAN"])), [keys[0], keys[1], keys[11]]);
    assert_eq!(found(Word::FOLDED.ne("CURIE")).len(), 13);
    assert_eq!(found(Word::FOLDED.ge("CURIE").and(Word::FOLDED.le("curie"))), keys[..2]);
    assert_eq!(found(Word::EXACT.lt("B")).len(), 3);
    assert_eq!(found(Word::FOLDED.lt("B")).len(), 6);
    // `_` is between Z and a; compared as lower case, it is before all letters.
    assert!(found(Word::FOLDED.gt("_")).contains(&keys[1]));
    assert!(!found(Word::EXACT.gt("_")).contains(&keys[1]));
}

/// Comparisons with a value outside the field's range match no row, or every row below it.
pub fn values_beyond_the_field_find_nothing(subject: &Subject) {
    let (stand, keys) = stand_of_maybes(subject);
    let compare = |field, comparison, value: Value| {
        keys_of(&stand, "maybe", FilterExpr::Compare { field, comparison, value })
    };
    let i32 = Maybe::I32.position();
    assert_eq!(compare(i32, Comparison::Equal, Value::Int(1 << 40)), NONE);
    assert_eq!(compare(i32, Comparison::Less, Value::Int(1 << 40)), keys[1..]);
    assert_eq!(compare(i32, Comparison::GreaterOrEqual, Value::Int(i64::MIN)), keys[1..]);
    let f64 = Maybe::F64.position();
    assert_eq!(compare(f64, Comparison::Less, Value::Float(f64::INFINITY)), keys[1..]);
    assert_eq!(compare(f64, Comparison::Less, Value::Float(f64::NEG_INFINITY)), NONE);
    assert_eq!(compare(f64, Comparison::Equal, Value::Float(-0.0)), [keys[2]]);
}

/// NaN is refused, because engines disagree about what equals it.
pub fn not_a_number_is_refused(subject: &Subject) {
    let (stand, _) = stand_of_maybes(subject);
    let table = stand.table("maybe").unwrap();
    for comparison in [Comparison::Equal, Comparison::Less, Comparison::GreaterOrEqual] {
        let (field, value) = (Maybe::F64.position(), Value::Float(f64::NAN));
        let query = RowQuery {
            filter: Some(FilterExpr::Compare { field, comparison, value }),
            ..RowQuery::new()
        };
        let list = stand.list_records(&table).query(query).run();
        blamed(list, ErrorKind::Invalid, "f64", "type");
    }
}

/// A filter that does not fit the table is refused with its field.
pub fn a_filter_of_another_kind_is_refused(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let table = stand.table("sample").unwrap();
    let list = |filter: FilterExpr| {
        stand.list_records(&table).query(RowQuery { filter: Some(filter), ..RowQuery::new() }).run()
    };
    let equal = |field, value| FilterExpr::Compare { field, comparison: Comparison::Equal, value };
    let i8 = Sample::I8.position();
    blamed(list(equal(i8, Value::from("1"))), ErrorKind::Invalid, "i8", "type");
    blamed(list(equal(i8, Value::Null)), ErrorKind::Invalid, "i8", "type");
    let values = vec![Value::Int(1), Value::Null];
    blamed(list(FilterExpr::In { field: i8, values }), ErrorKind::Invalid, "i8", "type");
    let like = FilterExpr::Match { field: i8, place: Place::Start, text: "1".to_owned() };
    blamed(list(like), ErrorKind::Invalid, "i8", "type");
    refused(list(FilterExpr::IsNull { field: 100 }), ErrorKind::Invalid);
    let note = stand.table("note").unwrap();
    refused(Filter::from_expr(&note, equal(1, Value::Int(1))), ErrorKind::Invalid);
    // A filter that was parsed for one table and is used on another.
    let of_note = parse_filter(&note, "number = 1").unwrap();
    assert!(stand.list_records(&note).filter(of_note.clone()).run().is_ok());
    let error = stand.list_records(&table).filter(of_note.clone()).run();
    says(&refused(error, ErrorKind::Invalid), &["`number`", "`note`", "`sample`"]);
    refused(of_note.of::<Sample>(), ErrorKind::Invalid);
    let order = parse_order(&note, "-number").unwrap().remove(0);
    let error = stand.list_records(&table).order(order).run();
    says(&refused(error, ErrorKind::Invalid), &["`number`", "`note`", "`sample`"]);
}

/// A filter of the maximum size works; a larger one is refused.
pub fn large_filters_are_answered(subject: &Subject) {
    let (stand, keys) = stand_of_maybes(subject);
    let table = stand.table("maybe").unwrap();
    let list = |filter: Filter<Maybe>| {
        let filter = filter.into_expr();
        let rows =
            stand.list_records(&table).query(RowQuery { filter: Some(filter), ..RowQuery::new() });
        rows.run().map(|rows| rows.len())
    };
    let nested = |depth: usize| {
        (0..depth).fold(Maybe::I32.eq(0), |inner, level| match level % 3 {
            0 => !inner,
            1 => inner.and(Maybe::I64.is_null()),
            _ => Maybe::I64.eq(7).or(inner),
        })
    };
    list(nested(FILTER_DEPTH_MAX)).unwrap();
    refused(list(nested(FILTER_DEPTH_MAX + 1)), ErrorKind::Invalid);
    let wide = |count: i32| Filter::any((1..count).map(|number| Maybe::I32.eq(10 * number)));
    assert_eq!(list(wide(FILTER_TERMS_MAX as i32)).unwrap(), 1);
    refused(list(wide(FILTER_TERMS_MAX as i32 + 1)), ErrorKind::Invalid);
    let long = |bytes: usize| {
        let texts = Maybe::TEXT.contains("x".repeat(40_000));
        texts.or(Maybe::TEXT.contains("x".repeat(bytes - 40_000))).or(Maybe::I32.eq(10))
    };
    assert_eq!(list(long(FILTER_BYTES_MAX)).unwrap(), 1);
    let error = list(long(FILTER_BYTES_MAX + 1)).unwrap_err();
    assert!(error.to_string().contains("65536 bytes"), "{error}");
    let terms = FILTER_TERMS_MAX as i64 - 1;
    let list_of = Maybe::ID.is_in((0..terms).map(|offset| keys[1] + offset));
    assert_eq!(list(list_of).unwrap(), 3);
}

/// Rows have the requested order, with NULLs first (last if descending), and rows with equal values
/// in the order of keys.
pub fn rows_come_in_order(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let texts = [Some("b"), None, Some("A"), Some("a"), Some("B"), None, Some("_"), Some("é")];
    let words: Vec<Word> =
        texts.iter().zip(0..).map(|(text, rank)| Word::new(*text, rank % 3)).collect();
    let keys = stand.insert_many(&words).run().unwrap();
    stand.settle();
    let ids = |listed: Vec<Word>| -> Vec<usize> {
        listed.iter().map(|word| keys.iter().position(|key| *key == word.id).unwrap()).collect()
    };
    let list = || stand.list::<Word>();
    let (exact, folded, rank) = (Word::EXACT, Word::FOLDED, Word::RANK);
    assert_eq!(ids(list().run().unwrap()), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(ids(list().order(exact.ascending()).run().unwrap()), [1, 5, 2, 4, 6, 3, 0, 7]);
    assert_eq!(ids(list().order(exact.descending()).run().unwrap()), [7, 0, 3, 6, 4, 2, 5, 1]);
    assert_eq!(ids(list().order(folded.ascending()).run().unwrap()), [1, 5, 6, 2, 3, 0, 4, 7]);
    assert_eq!(ids(list().order(folded.descending()).run().unwrap()), [7, 4, 0, 3, 2, 6, 5, 1]);
    let mixed = list().order(rank.descending()).order(exact.ascending()).run().unwrap();
    assert_eq!(ids(mixed), [5, 2, 1, 4, 7, 6, 3, 0]);
    let mixed = list().order(folded.ascending()).order(rank.descending()).run().unwrap();
    assert_eq!(ids(mixed), [5, 1, 6, 2, 3, 4, 0, 7]);
    assert_eq!(ids(list().order(Word::ID.descending()).limit(2).run().unwrap()), [7, 6]);
    assert_eq!(ids(list().limit(0).run().unwrap()), [0_usize; 0]);
    assert_eq!(ids(list().limit(u64::MAX).run().unwrap()).len(), 8);
}

/// Every kind of field can be sorted by.
pub fn every_kind_sorts(subject: &Subject) {
    use marmota_model::{Model, SortKey};
    let (stand, keys) = stand_of_maybes(subject);
    let table = stand.table("maybe").unwrap();
    for (field, what) in Maybe::schema().fields.iter().enumerate() {
        for descending in [false, true] {
            let query = RowQuery { order: vec![SortKey { field, descending }], ..RowQuery::new() };
            let rows = stand.list_records(&table).query(query).run().unwrap();
            let mut found: Vec<i64> =
                rows.iter().filter_map(|row| row.values()[0].as_ref().as_int()).collect();
            if descending {
                found.reverse();
            }
            assert_eq!(found, keys, "{} {descending}", what.name);
        }
    }
}

register!($ filters_promises filters:
    every_kind_compares,
    every_kind_is_in_or_null,
    null_is_neither_true_nor_false,
    texts_are_searched,
    collation_decides_how_texts_compare,
    values_beyond_the_field_find_nothing,
    not_a_number_is_refused,
    a_filter_of_another_kind_is_refused,
    large_filters_are_answered,
    rows_come_in_order,
    every_kind_sorts,
);
