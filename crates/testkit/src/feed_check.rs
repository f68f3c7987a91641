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
    let mut replay = FeedReplay::default();
    match replay.read(store)? {
        None => replay.difference(store),
        difference => Ok(difference),
    }
}

/// The rows that follow from the commits of a change feed that were read so far, also over restarts
/// of the store.
#[derive(Clone, Debug, Default)]
pub struct FeedReplay {
    rows: HashMap<(String, String), Vec<Value>>,
    position: Option<Position>,
    changes: u64,
}

impl FeedReplay {
    /// Reads the commits after the last one that was read, up to the last one of the store. Returns
    /// the first fault: a gap, a commit out of order, a change whose row before it is not the row
    /// that the changes so far have given, as after a lost or repeated change.
    ///
    /// # Errors
    /// Those of the store.
    pub fn read(&mut self, store: &Store) -> Result<Option<String>> {
        let end = store.position()?;
        let begin = format!("{}{}", &end.to_string()[..IDENTITY], "0".repeat(IDENTITY));
        let from = self.position.map_or_else(|| begin.parse::<Position>(), Ok)?;
        if from > end {
            return Ok(Some(format!("the feed ends at {end}, before {from}, which was read")));
        }
        let mut stream = store.changes()?.from(from)?;
        while stream.position() < end {
            let commit = match block_on(stream.next())? {
                Some(FeedEvent::Commit(commit)) => commit,
                Some(FeedEvent::Gap(position)) => {
                    return Ok(Some(format!("the feed has no commits before {position}")));
                }
                None => return Ok(Some("the feed ends before its last commit".to_owned())),
            };
            let at = commit.position;
            if self.position.is_some_and(|last| last >= at) {
                return Ok(Some(format!("the commit at {at} comes after one at or after it")));
            }
            for change in &commit.changes {
                let place = (change.table.name().to_owned(), row_key(change.key()));
                let before = match &change.after {
                    Some(after) => self.rows.insert(place.clone(), after.clone()),
                    None => self.rows.remove(&place),
                };
                if before != change.before {
                    let found = &change.before;
                    return Ok(Some(format!(
                        "at {at}, the row {place:?} was {before:?}, but is {found:?} in the feed"
                    )));
                }
                self.changes += 1;
            }
            self.position = Some(at);
        }
        Ok(None)
    }

    /// Compares the rows with those that are stored. Returns the first difference.
    ///
    /// # Errors
    /// Those of the store.
    pub fn difference(&self, store: &Store) -> Result<Option<String>> {
        let (mut difference, mut found) = (None, 0);
        for table in tables_of(store) {
            each_row(store, &table, |row| {
                let place = (table.name().to_owned(), row_key(&row[table.key()]));
                let (stored, of_feed) = (without_blobs(&table, row), self.rows.get(&place));
                found += usize::from(of_feed.is_some());
                if difference.is_none() && of_feed != Some(&stored) {
                    let text =
                        format!("the row {place:?} is {stored:?}, but {of_feed:?} in the feed");
                    difference = Some(text);
                }
            })?;
        }
        let many = self.rows.len() - found;
        let left = (many > 0).then(|| format!("the feed has {many} rows that are not stored"));
        Ok(difference.or(left))
    }

    /// Returns the position of the last commit that was read.
    #[must_use]
    pub const fn position(&self) -> Option<Position> {
        self.position
    }

    /// Continues after another commit, as a faulty reader does: to test the check.
    pub fn set_position(&mut self, position: Option<Position>) {
        self.position = position;
    }

    /// Returns the number of changes that were read.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }
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
