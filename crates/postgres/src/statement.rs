//! Statements: text made once per structure, independent of values.
//!
//! A statement is found by its verb, its table, its fields and the shape of its filter
//! (`filter_shape.rs`): in the session's own map, else in the engine's, which all sessions share,
//! so that a connection prepares it once. Connections track what they have prepared.

pub(crate) mod column;
pub(crate) mod controls;
pub(crate) mod filter_shape;
pub(crate) mod index_filter;
pub(crate) mod json_path;
pub(crate) mod key;
pub(crate) mod search;
pub(crate) mod sql_words;
pub(crate) mod sql_writer;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use marmota_model::FieldSet;
use parking_lot::Mutex;

use crate::statement::column::Column;

/// The most statement texts that a session, and the engine, keep.
const TEXTS_MAX: usize = 1_024;

/// The operation of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Verb {
    Get,
    List,
    ListEach,
    Group,
    Count,
    Estimate,
    Insert,
    InsertMany,
    InsertOver,
    Copy,
    Update,
    UpdateMany,
    Increment,
    Delete,
    DeleteWhere,
    Diagnostic,
    MoveKeys,
    Targets,
    Referrers,
    Control,
}

/// The key of a statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Head {
    pub(crate) verb: Verb,
    /// The table's number.
    pub(crate) table: u32,
    /// The fields read or written.
    pub(crate) fields: FieldSet,
    /// Further properties, depending on the verb.
    pub(crate) variant: u32,
    /// The shape of a filter and order.
    pub(crate) shape: Box<[u8]>,
}

/// A statement.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) name: StatementName,
    pub(crate) sql: String,
    /// The types of its parameters.
    pub(crate) types: Vec<u32>,
    /// The columns of its rows.
    pub(crate) columns: Box<[Column]>,
    /// The formats of its parameters and rows; `None` if all of them are binary.
    pub(crate) formats: Option<Formats>,
    /// True for a read that took long the last time.
    is_long: AtomicBool,
}

/// The name of a prepared statement at the server: a hash of its SQL and of the types of its
/// parameters. Other users of a server connection over a pooler may have prepared a statement with
/// the same name; then it is the same statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatementName([u8; 16]);

impl StatementName {
    fn of(sql: &str, types: &[u32]) -> Self {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$";
        let hash = |half: u8| {
            let mut hasher = DefaultHasher::new();
            (half, sql, types).hash(&mut hasher);
            hasher.finish()
        };
        let mut rest = u128::from(hash(0)) << 64 | u128::from(hash(1));
        let mut name = [0; 16];
        for letter in &mut name {
            *letter = LETTERS[(rest & 63) as usize];
            rest >>= 6;
        }
        Self(name)
    }

    pub(crate) const fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the name as a number, for maps.
    pub(crate) const fn key(self) -> u128 {
        u128::from_ne_bytes(self.0)
    }
}

impl From<u128> for StatementName {
    fn from(key: u128) -> Self {
        Self(key.to_ne_bytes())
    }
}

/// 1 for each parameter and column that is binary, 0 for text.
#[derive(Debug)]
pub(crate) struct Formats {
    pub(crate) parameters: Box<[u8]>,
    pub(crate) results: Box<[u8]>,
}

impl Text {
    pub(crate) fn new(sql: String, types: Vec<u32>, columns: Box<[Column]>) -> Self {
        let name = StatementName::of(&sql, &types);
        Self { name, sql, types, columns, formats: None, is_long: AtomicBool::new(false) }
    }

    /// Returns true for a read that took long the last time.
    pub(crate) fn is_long(&self) -> bool {
        self.is_long.load(Ordering::Relaxed)
    }

    /// Records whether a read took long.
    pub(crate) fn note_long(&self, is_long: bool) {
        // Written only if it changes: all threads read it.
        if self.is_long() != is_long {
            self.is_long.store(is_long, Ordering::Relaxed);
        }
    }

    /// Returns the same statement with formats.
    pub(crate) fn with_formats(&self, formats: Formats) -> Self {
        let Self { name, sql, types, columns, .. } = self;
        let (sql, types, columns) = (sql.clone(), types.clone(), columns.clone());
        let is_long = AtomicBool::new(self.is_long());
        Self { name: *name, sql, types, columns, formats: Some(formats), is_long }
    }

    /// Returns a statement for which the server infers the parameter types.
    pub(crate) fn plain(sql: &str) -> Self {
        Self::new(sql.to_owned(), Vec::new(), Box::default())
    }
}

/// The engine's statements.
#[derive(Debug, Default)]
pub(crate) struct AllTexts(Mutex<HashMap<Head, Arc<Text>>>);

/// A session's statements.
#[derive(Debug)]
pub(crate) struct Texts {
    all: Arc<AllTexts>,
    known: HashMap<Head, Arc<Text>>,
    /// The last used ones, by table and verb: most programs repeat operations.
    recent: HashMap<(u32, Verb), (Head, Arc<Text>)>,
}

impl Texts {
    pub(crate) fn new(all: Arc<AllTexts>) -> Self {
        Self { all, known: HashMap::new(), recent: HashMap::new() }
    }

    /// Returns the statement for these properties; `make` makes its text if it does not exist.
    #[inline]
    pub(crate) fn find(
        &mut self,
        verb: Verb,
        table: u32,
        fields: FieldSet,
        variant: u32,
        shape: &[u8],
        make: impl FnOnce() -> Text,
    ) -> Arc<Text> {
        if let Some((head, text)) = self.recent.get(&(table, verb))
            && head.fields == fields
            && head.variant == variant
            && *head.shape == *shape
        {
            return Arc::clone(text);
        }
        let head = Head { verb, table, fields, variant, shape: shape.into() };
        let text = match self.known.get(&head) {
            Some(text) => Arc::clone(text),
            None => {
                let text = self.all.find(&head, make);
                if self.known.len() >= TEXTS_MAX {
                    self.known.clear();
                }
                self.known.insert(head.clone(), Arc::clone(&text));
                text
            }
        };
        self.recent.insert((table, verb), (head, Arc::clone(&text)));
        text
    }
}

impl AllTexts {
    fn find(&self, head: &Head, make: impl FnOnce() -> Text) -> Arc<Text> {
        let mut all = self.0.lock();
        if let Some(text) = all.get(head) {
            return Arc::clone(text);
        }
        if all.len() >= TEXTS_MAX {
            all.clear();
        }
        let text = Arc::new(make());
        all.insert(head.clone(), Arc::clone(&text));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_named_by_what_they_say() {
        let text = |sql: &str, types: &[u32]| {
            Text::new(sql.to_owned(), types.to_vec(), Box::default()).name
        };
        assert_eq!(text("SELECT $1", &[20]), text("SELECT $1", &[20]));
        assert_ne!(text("SELECT $1", &[20]), text("SELECT $1", &[23]));
        assert_ne!(text("SELECT 1", &[]), text("SELECT 2", &[]));
        let name = text("SELECT 1", &[]);
        assert_eq!(StatementName::from(name.key()), name);
        assert!(name.bytes().iter().all(|byte| byte.is_ascii_graphic()));
    }
}
