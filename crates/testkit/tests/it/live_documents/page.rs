//! The pages that clients follow, computed from rows in Rust.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use marmota_model::Value;
use marmota_store::change::Change;
use serde_json::Value as Json;

use super::Ticket;

/// The rows of the table by key.
pub(super) type Rows = BTreeMap<String, Ticket>;

/// A list: its URL, and the same in Rust.
pub(super) struct Page {
    pub(super) target: &'static str,
    filter: fn(&Ticket) -> bool,
    order: fn(&Ticket, &Ticket) -> Ordering,
    limit: usize,
    has_count: bool,
}

fn by_key(one: &Ticket, other: &Ticket) -> Ordering {
    one.name.cmp(&other.name)
}

pub(super) const PAGES: [Page; 4] = [
    Page {
        target: "/api/ticket?order=rank&limit=5&count=true",
        filter: |_| true,
        order: |one, other| one.rank.cmp(&other.rank).then(by_key(one, other)),
        limit: 5,
        has_count: true,
    },
    Page {
        target: "/api/ticket?filter=state%3D3&order=-rank&limit=20",
        filter: |ticket| ticket.state == 3,
        // Rows of one rank have the direction of the last order.
        order: |one, other| other.rank.cmp(&one.rank).then(by_key(other, one)),
        limit: 20,
        has_count: false,
    },
    Page {
        target: "/api/ticket?filter=text%20%5E%20%27a%27%20and%20rank%20%3C%20700&limit=7&count=true",
        filter: |ticket| ticket.text.starts_with('a') && ticket.rank < 700,
        order: by_key,
        limit: 7,
        has_count: true,
    },
    Page {
        target: "/api/ticket?limit=1000",
        filter: |_| true,
        order: by_key,
        limit: 1000,
        has_count: false,
    },
];

impl Page {
    /// Returns the text of the page of these rows.
    pub(super) fn of(&self, rows: &Rows) -> String {
        let mut rows: Vec<&Ticket> = rows.values().filter(|row| (self.filter)(row)).collect();
        rows.sort_by(|one, other| (self.order)(one, other));
        let shown = rows.iter().take(self.limit);
        let shown = shown.map(|row| line(&row.name, row.state, row.rank, &row.text));
        let count = self.has_count.then_some(rows.len() as u64);
        text(shown, rows.len() > self.limit, count)
    }
}

fn line(name: &str, state: i64, rank: i64, text: &str) -> String {
    format!("{name} {state} {rank} {text}\n")
}

fn text(rows: impl Iterator<Item = String>, has_more: bool, count: Option<u64>) -> String {
    rows.chain([format!("{has_more} {count:?}")]).collect()
}

/// Returns the text of a document of the server.
pub(super) fn of_document(document: &Json) -> String {
    let rows = document["rows"].as_array().unwrap().iter().map(|row| {
        let number = |name: &str| row[name].as_i64().unwrap();
        let of = |name: &str| row[name].as_str().unwrap().to_owned();
        line(&of("name"), number("state"), number("rank"), &of("text"))
    });
    text(rows, !document["next"].is_null(), document["count"].as_u64())
}

pub(super) fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Applies a change of the feed. The row before it must be the one that is there.
pub(super) fn apply(rows: &mut Rows, change: &Change) {
    let ticket = |row: &Vec<Value>| match row.as_slice() {
        [Value::Text(name), Value::Int(state), Value::Int(rank), Value::Text(text)] => {
            Ticket { name: name.to_string(), state: *state, rank: *rank, text: text.to_string() }
        }
        other => panic!("{other:?}"),
    };
    if let Some(before) = change.before.as_ref().map(ticket) {
        assert_eq!(rows.remove(&before.name), Some(before), "{change:?}");
    }
    if let Some(after) = change.after.as_ref().map(ticket) {
        let key = after.name.clone();
        assert!(rows.insert(key, after).is_none(), "{change:?}");
    }
}
