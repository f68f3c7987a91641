//! Keyset pagination: each row is returned once, in any order, with NULLs and equal values.

use marmota_model::{ErrorKind, FilterExpr, RowQuery, SortKey, Value};

use crate::conformance::harness::models;
use crate::conformance::harness::models::{Document, Note, Seat, Word};
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

fn stand_of_words(subject: &Subject) -> Stand<'_> {
    let mut stand = Stand::open(subject, models::all);
    let mut random = scattered(7);
    let texts = [None, Some(""), Some("a"), Some("A"), Some("b"), Some("ab"), Some("é"), Some("_")];
    let words: Vec<Word> = (0..137)
        .map(|_| Word {
            id: 0,
            exact: texts[random(8) as usize].map(str::to_owned),
            folded: texts[random(8) as usize].map(str::to_owned),
            rank: random(4) as i64 - 2,
        })
        .collect();
    stand.insert_many(&words).run().unwrap();
    stand.settle();
    stand
}

/// Pages of any size, in any order, return every row once, in the order of the whole list.
pub fn pages_walk_every_row_once(subject: &Subject) {
    let stand = stand_of_words(subject);
    let table = stand.table("word").unwrap();
    let mut random = scattered(11);
    for round in 0..60 {
        let mut order: Vec<SortKey> = Vec::new();
        for _ in 0..random(4) {
            let field = random(4) as usize;
            if order.iter().all(|by| by.field != field) {
                order.push(SortKey { field, descending: random(2) == 1 });
            }
        }
        let filter: Option<FilterExpr> =
            (random(3) == 0).then(|| Word::RANK.ge(0).or(Word::EXACT.is_null()).into_expr());
        let whole = RowQuery { filter, order, ..RowQuery::new() };
        let wanted = stand.list_records(&table).query(whole.clone()).run().unwrap();
        let (limit, mut query, mut found) = (1 + random(40), whole.clone(), Vec::new());
        query.limit = Some(limit);
        loop {
            let page = stand.list_records(&table).query(query.clone()).run().unwrap();
            assert!(page.len() as u64 <= limit);
            let Some(last) = page.last() else { break };
            let after = query.order_with_key(&table);
            query.after = Some(after.iter().map(|by| last.values()[by.field].clone()).collect());
            found.extend(page);
            assert!(found.len() <= wanted.len(), "round {round}: more rows than there are");
        }
        let ids = |rows: &[marmota_model::Record]| -> Vec<Value> {
            rows.iter().map(|row| row.values()[0].clone()).collect()
        };
        assert_eq!(ids(&found), ids(&wanted), "round {round}: {whole:?} by {limit}");
    }
}

/// A page can continue after a row, given as a struct.
pub fn a_page_continues_after_a_row(subject: &Subject) {
    let stand = stand_of_words(subject);
    let list =
        || stand.list::<Word>().order(Word::FOLDED.descending()).order(Word::RANK.ascending());
    let whole = list().run().unwrap();
    for at in [0, 1, 50, 100, 135] {
        let page = list().limit(5).after(&whole[at]).run().unwrap();
        assert_eq!(page, whole[at + 1..whole.len().min(at + 6)]);
    }
    assert_eq!(list().after(whole.last().unwrap()).run().unwrap(), []);
}

/// Rows deleted or inserted between two pages do not hide or repeat other rows.
pub fn pages_stand_while_rows_change(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let keys = stand.insert_many(&Note::numbered(0..30)).run().unwrap();
    stand.settle();
    let page = |after: Option<&Note>| {
        let list = stand.list::<Note>().order(Note::NUMBER.ascending()).limit(10);
        match after {
            Some(last) => list.after(last).run().unwrap(),
            None => list.run().unwrap(),
        }
    };
    let first = page(None);
    // The last row of the page is deleted; one row is inserted before it and one after it.
    stand.delete::<Note>(keys[9]).run().unwrap();
    stand.insert(&Note::new("before", 3)).run().unwrap();
    stand.insert(&Note::new("after", 12)).run().unwrap();
    let second = page(first.last());
    let numbers: Vec<i64> = second.iter().filter_map(|note| note.number).collect();
    assert_eq!(numbers, [10, 11, 12, 12, 13, 14, 15, 16, 17, 18]);
}

/// Keys of every kind can end an order.
pub fn any_key_ends_an_order(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let documents: Vec<Document> = (0..25).map(|_| Document::new("same", b"")).collect();
    let keys = stand.insert_many(&documents).run().unwrap();
    stand.settle();
    let mut found = Vec::new();
    let list = || stand.list::<Document>().order(Document::TITLE.descending()).limit(4);
    let mut page = list().run().unwrap();
    while let Some(last) = page.last().cloned() {
        found.extend(page.into_iter().map(|one| one.id));
        page = list().after(&last).run().unwrap();
    }
    // The key has the direction of the last field.
    assert!(found.iter().eq(keys.iter().rev()));
}

/// A start that does not fit the order is refused.
pub fn a_start_of_another_order_is_refused(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let table = stand.table("seat").unwrap();
    let order = vec![SortKey { field: Seat::NUMBER.position(), descending: false }];
    for after in [
        vec![],
        vec![Value::Int(1)],
        vec![Value::Int(1), Value::Int(1), Value::Int(1)],
        vec![Value::from("1"), Value::Int(1)],
        vec![Value::Int(1), Value::Absent],
    ] {
        let query = RowQuery { order: order.clone(), after: Some(after), ..RowQuery::new() };
        refused(stand.list_records(&table).query(query).run(), ErrorKind::Invalid);
    }
}

register!($ pages_promises pages:
    pages_walk_every_row_once,
    a_page_continues_after_a_row,
    pages_stand_while_rows_change,
    any_key_ends_an_order,
    a_start_of_another_order_is_refused,
);
