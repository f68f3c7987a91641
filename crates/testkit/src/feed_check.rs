//! The change feed of a database compared with its tables.

use std::collections::HashMap;

use marmota_model::{Kind, Result, Table, Value};
use marmota_store::Store;
use marmota_store::action::block_on;
use marmota_store::change::{FeedEvent, Position};

use crate::stress::expected::{each_row, row_key};
use crate::stress::tables_of;

/// The length of the part of a position that is the identity of the feed.
const IDENTITY: usize = 16;

/// Applies all changes of a store's feed, from its first commit on, to empty tables, and compares
/// the result with the rows that are stored. Returns the first difference.
///
/// The store must have had a feed since it was created, and all of its commits.
///
/// ```
/// use marmota_derive::Model;
/// use marmota_memory::Memory;
/// use marmota_store::Store;
/// use marmota_store::change::ChangeRetention;
///
/// #[derive(Debug, Model)]
/// struct Note {
///     id: i64,
///     text: String,
/// }
///
/// let builder = Store::builder(Memory::new()).model::<Note>();
/// let store = builder.changes(ChangeRetention::default()).open()?;
/// store.insert(&Note { id: 0, text: "first".to_owned() }).run()?;
/// assert_eq!(marmota_testkit::feed_difference(&store)?, None);
/// # Ok::<(), marmota_model::Error>(())
/// ```
///
/// # Errors
/// Those of the store.
pub fn feed_difference(store: &Store) -> Result<Option<String>> {
    let end = store.position()?;
    let begin = format!("{}{}", &end.to_string()[..IDENTITY], "0".repeat(IDENTITY));
    let mut stream = store.changes()?.from(begin.parse::<Position>()?)?;
    let mut rows: HashMap<(String, String), Vec<Value>> = HashMap::new();
    while stream.position() < end {
        let commit = match block_on(stream.next())? {
            Some(FeedEvent::Commit(commit)) => commit,
            Some(FeedEvent::Gap(position)) => {
                return Ok(Some(format!("the feed has no commits before {position}")));
            }
            None => return Ok(Some("the feed ends before its last commit".to_owned())),
        };
        for change in &commit.changes {
            let place = (change.table.name().to_owned(), row_key(change.key()));
            let before = match &change.after {
                Some(after) => rows.insert(place.clone(), after.clone()),
                None => rows.remove(&place),
            };
            if before != change.before {
                let (position, found) = (commit.position, &change.before);
                return Ok(Some(format!(
                    "at {position}, the row {place:?} was {before:?}, but is {found:?} in the feed"
                )));
            }
        }
    }
    let mut difference = None;
    for table in tables_of(store) {
        each_row(store, &table, |row| {
            let place = (table.name().to_owned(), row_key(&row[table.key()]));
            let (stored, found) = (without_blobs(&table, row), rows.remove(&place));
            if difference.is_none() && found.as_ref() != Some(&stored) {
                difference =
                    Some(format!("the row {place:?} is {stored:?}, but {found:?} in the feed"));
            }
        })?;
    }
    let left = rows.keys().next().map(|place| format!("the feed has a row {place:?} too many"));
    Ok(difference.or(left))
}

/// Returns a row as the feed has it.
fn without_blobs(table: &Table, mut row: Vec<Value>) -> Vec<Value> {
    for (field, value) in table.fields().iter().zip(&mut row) {
        if field.kind == Kind::Blob {
            *value = Value::Absent;
        }
    }
    row
}
