//! The prepared statements of one connection, found by structure instead of text: the verb, the
//! table, the fields, and for lists and filters their shape (see `filter_shape.rs`). The number of
//! kept statements is bounded.

pub(crate) mod column;
pub(crate) mod filter_shape;
pub(crate) mod key;
pub(crate) mod raw_sql_cache;
pub(crate) mod search_index;
pub(crate) mod vdbe_fast_path;

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use marmota_model::FieldSet;

use crate::ffi::StatementId;
use crate::statement::column::Column;

/// The most statements kept per connection. Filters and sets of fields come from callers, so their
/// number is otherwise unbounded.
const STATEMENTS_MAX: usize = 256;

/// The operation of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Verb {
    Get,
    List,
    ListEach,
    Group,
    Count,
    Insert,
    Replace,
    InsertMany,
    Update,
    Increment,
    Delete,
    DeleteWhere,
    Version,
    Savepoint,
    Release,
    RollbackTo,
}

const VERBS: usize = 16;

/// The key of a statement, except the shape of its filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Head {
    pub(crate) verb: Verb,
    /// The table's number.
    pub(crate) table: u32,
    /// The fields read. Those of a write are in its shape.
    pub(crate) fields: FieldSet,
    /// The rows of an insert, the number of a savepoint, or whether a version is compared.
    pub(crate) variant: u32,
}

/// A prepared statement.
#[derive(Debug)]
pub(crate) struct Statement {
    head: Head,
    shape: Box<[u8]>,
    pub(crate) id: StatementId,
    /// The columns of its rows.
    pub(crate) columns: Box<[Column]>,
    used: u64,
}

impl Statement {
    #[inline]
    fn is(&self, head: &Head, shape: &[u8]) -> bool {
        // `memcmp` of zero bytes makes a masked read from the dangling address of an empty slice,
        // which takes a processor 60 ns to reject.
        let is_empty = shape.is_empty() && self.shape.is_empty();
        self.head == *head && (is_empty || *self.shape == *shape)
    }
}

/// The statements of a connection.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    kept: Vec<Statement>,
    by_shape: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// For each table and verb the last used statement: most programs repeat operations, and
    /// comparing is cheaper than hashing.
    recent: Vec<[u32; VERBS]>,
    uses: u64,
}

impl Statements {
    /// Returns the place of the statement, if it exists.
    #[inline]
    pub(crate) fn find(&mut self, head: &Head, shape: &[u8]) -> Option<usize> {
        let recent = self.recent.get(head.table as usize)?;
        let place = recent[head.verb as usize] as usize;
        self.uses += 1;
        if let Some(statement) = self.kept.get_mut(place)
            && statement.is(head, shape)
        {
            statement.used = self.uses;
            return Some(place);
        }
        self.find_by_hash(head, shape)
    }

    fn find_by_hash(&mut self, head: &Head, shape: &[u8]) -> Option<usize> {
        let hash = self.hasher.hash_one((head, shape));
        let place =
            *self.by_shape.find(hash, |&place| self.kept[place as usize].is(head, shape))?;
        self.recent[head.table as usize][head.verb as usize] = place;
        self.kept[place as usize].used = self.uses;
        Some(place as usize)
    }

    /// Stores a statement. Also returns the one that was dropped for it.
    pub(crate) fn add(
        &mut self,
        head: Head,
        shape: &[u8],
        id: StatementId,
        columns: Box<[Column]>,
    ) -> (usize, Option<StatementId>) {
        let statement = Statement { head, shape: shape.into(), id, columns, used: self.uses };
        let (place, dropped) = if self.kept.len() < STATEMENTS_MAX {
            self.kept.push(statement);
            (self.kept.len() - 1, None)
        } else {
            let place = self.least_recent();
            let old = std::mem::replace(&mut self.kept[place], statement);
            let hash = self.hasher.hash_one((&old.head, &*old.shape));
            if let Ok(entry) = self.by_shape.find_entry(hash, |&known| known as usize == place) {
                entry.remove();
            }
            (place, Some(old.id))
        };
        let hash = self.hasher.hash_one((&head, shape));
        let Self { by_shape, kept, hasher, .. } = self;
        by_shape.insert_unique(hash, place as u32, |&place| {
            let statement = &kept[place as usize];
            hasher.hash_one((&statement.head, &*statement.shape))
        });
        let table = head.table as usize;
        if self.recent.len() <= table {
            self.recent.resize(table + 1, [u32::MAX; VERBS]);
        }
        self.recent[table][head.verb as usize] = place as u32;
        (place, dropped)
    }

    fn least_recent(&self) -> usize {
        let oldest = self.kept.iter().enumerate().min_by_key(|(_, statement)| statement.used);
        oldest.map_or(0, |(place, _)| place)
    }

    /// Returns the statement at a place.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> &Statement {
        &self.kept[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::Connection;

    fn head(variant: u32) -> Head {
        Head { verb: Verb::List, table: 0, fields: FieldSet::EMPTY, variant }
    }

    #[test]
    fn the_least_used_goes_first() {
        let mut connection = Connection::open_memory().unwrap();
        let mut statements = Statements::default();
        for number in 0..STATEMENTS_MAX as u32 {
            assert!(statements.find(&head(number), b"a").is_none());
            let id = connection.prepare("SELECT 1").unwrap();
            assert_eq!(statements.add(head(number), b"a", id, Box::default()).1, None);
        }
        assert!(statements.find(&head(0), b"a").is_some());
        assert!(statements.find(&head(0), b"b").is_none());
        let id = connection.prepare("SELECT 2").unwrap();
        let (_, dropped) = statements.add(head(0), b"b", id, Box::default());
        assert!(dropped.is_some());
        assert!(statements.find(&head(0), b"a").is_some(), "used since");
        assert!(statements.find(&head(1), b"a").is_none(), "used least");
        assert_eq!(statements.find(&head(0), b"b").map(|at| statements.at(at).id), Some(id));
    }
}
