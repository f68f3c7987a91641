//! The raw SQL statements that a connection has prepared.

use std::sync::Arc;

use hashbrown::HashMap;
use marmota_model::ValueForm;
use marmota_store::sql::{SqlColumns, Wanted};

use crate::ffi::StatementId;
use crate::statement::vdbe_fast_path::VdbeFastPath;

/// The most texts kept per connection; the least recently used one is dropped.
const TEXTS_MAX: usize = 64;
/// The statements of a connection by their text.
#[derive(Debug, Default)]
pub(crate) struct RawSqlCache {
    by_text: HashMap<Box<str>, usize>,
    pub(crate) kept: Vec<Text>,
    uses: u64,
}

/// One prepared statement, and what is known about it.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) text: Box<str>,
    pub(crate) id: StatementId,
    pub(crate) writes: bool,
    /// The databases that it writes to, one bit each.
    pub(crate) written: u32,
    /// A table that it writes to and whose history is kept.
    pub(crate) audited: Option<Box<str>>,
    /// The numbers of the tables in memory that it reads.
    pub(crate) lent: Box<[usize]>,
    pub(crate) wanted: Box<[Wanted]>,
    /// True if its first word is valid for its use.
    pub(crate) begins_well: bool,
    pub(crate) columns: Arc<SqlColumns>,
    /// The form of each column.
    pub(crate) forms: Box<[Option<ValueForm>]>,
    /// The direct read of its rows without SQLite, if possible.
    pub(crate) fast_path: Option<VdbeFastPath>,
    /// True if it returns the same rows when it is run again on the same snapshot.
    pub(crate) repeats: bool,
    pub(crate) used: u64,
}

impl RawSqlCache {
    pub(crate) fn find(&mut self, text: &str) -> Option<usize> {
        let place = *self.by_text.get(text)?;
        self.uses += 1;
        self.kept[place].used = self.uses;
        Some(place)
    }

    /// Stores a statement. Also returns the one that was dropped for it.
    pub(crate) fn add(&mut self, mut text: Text) -> (usize, Option<StatementId>) {
        self.uses += 1;
        text.used = self.uses;
        let name = text.text.clone();
        let (place, dropped) = if self.kept.len() < TEXTS_MAX {
            self.kept.push(text);
            (self.kept.len() - 1, None)
        } else {
            let oldest = self.kept.iter().enumerate().min_by_key(|(_, text)| text.used);
            let place = oldest.map_or(0, |(place, _)| place);
            let old = std::mem::replace(&mut self.kept[place], text);
            self.by_text.remove(&old.text);
            (place, Some(old.id))
        };
        self.by_text.insert(name, place);
        (place, dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::Connection;

    #[test]
    fn the_text_used_least_recently_goes() {
        let mut connection = Connection::open_memory().unwrap();
        let mut texts = RawSqlCache::default();
        let mut add = |texts: &mut RawSqlCache, text: &str| {
            let id = connection.prepare_one("SELECT 1").unwrap();
            let (columns, forms) = (Arc::default(), Box::default());
            let (text, lent, wanted) = (text.into(), Box::default(), Box::default());
            let (writes, begins_well, written, used) = (false, true, 0, 0);
            let text = Text {
                text,
                id,
                writes,
                written,
                audited: None,
                lent,
                wanted,
                begins_well,
                columns,
                forms,
                fast_path: None,
                repeats: true,
                used,
            };
            texts.add(text).1
        };
        for number in 0..TEXTS_MAX {
            assert!(add(&mut texts, &number.to_string()).is_none());
        }
        assert!(texts.find("0").is_some());
        assert!(add(&mut texts, "new").is_some());
        assert!(texts.find("0").is_some(), "used since");
        assert!(texts.find("1").is_none(), "used least recently");
        assert!(texts.find("new").is_some());
        assert_eq!(texts.by_text.len(), TEXTS_MAX);
    }
}
