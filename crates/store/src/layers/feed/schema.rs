//! The internal tables of a change feed.
//!
//! | table | a row is |
//! |---|---|
//! | `marmota_commit` | a commit; its automatic key is the number of the commit |
//! | `marmota_commit_table` | a table as it was recorded: encoded changes name it by this key |
//! | `marmota_feed` | the identity of the feed, and the last commit that was removed; the only one |
//! | `marmota_cursor` | the last commit that a hook has handled, and who calls the hook |
//! | `marmota_dead_letter` | a change on which a hook has failed |

use marmota_model::{Field, Kind, Role, Schema};

pub(crate) const COMMITS: &str = "marmota_commit";
pub(crate) const SHAPES: &str = "marmota_commit_table";
pub(crate) const IDENTITY: &str = "marmota_feed";
pub(crate) const CURSORS: &str = "marmota_cursor";
pub(crate) const DEAD_LETTERS: &str = "marmota_dead_letter";
/// The names of all tables of a feed.
pub(crate) const FEED_TABLES: [&str; 5] = [COMMITS, SHAPES, IDENTITY, CURSORS, DEAD_LETTERS];

/// The columns of the table of commits, by place.
pub(crate) mod commit {
    pub(crate) const NUMBER: usize = 0;
    pub(crate) const AT: usize = 1;
    pub(crate) const BYTES: usize = 2;
    pub(crate) const CHANGES: usize = 3;
}

/// The columns of the table of recorded tables, by place.
pub(crate) mod shape {
    pub(crate) const NUMBER: usize = 0;
    pub(crate) const TABLE: usize = 1;
    pub(crate) const FIELDS: usize = 2;
}

/// The columns of the table with the identity, by place.
pub(crate) mod identity {
    pub(crate) const KEY: usize = 0;
    pub(crate) const FEED: usize = 2;
    pub(crate) const REMOVED: usize = 3;
}

/// The columns of the table of cursors, by place.
pub(crate) mod cursor {
    pub(crate) const KEY: usize = 0;
    pub(crate) const NAME: usize = 1;
    pub(crate) const FEED: usize = 2;
    pub(crate) const NUMBER: usize = 3;
    pub(crate) const HOLDER: usize = 4;
    pub(crate) const UNTIL: usize = 5;
    pub(crate) const VERSION: usize = 6;
    pub(crate) const COLUMNS: usize = 7;
}

/// The columns of the table of dead letters, by place.
pub(crate) mod dead_letter {
    pub(crate) const KEY: usize = 0;
    pub(crate) const HOOK: usize = 1;
    pub(crate) const POSITION: usize = 2;
    pub(crate) const TABLE: usize = 3;
    pub(crate) const ROW: usize = 4;
    pub(crate) const ERROR: usize = 5;
    pub(crate) const AT: usize = 6;
}

fn key() -> Field {
    Field::new("id", Kind::I64).role(Role::Key)
}

pub(crate) fn commits() -> Schema {
    let fields = vec![
        key(),
        Field::new("at", Kind::Timestamp),
        Field::new("bytes", Kind::I64),
        Field::new("changes", Kind::Blob),
    ];
    Schema::new(COMMITS, fields)
}

pub(crate) fn shapes() -> Schema {
    let fields = vec![key(), Field::new("of_table", Kind::TEXT), Field::new("fields", Kind::Json)];
    Schema::new(SHAPES, fields)
}

pub(crate) fn identity() -> Schema {
    let fields = vec![
        key(),
        // Unique, so that two processes which open a database at once insert one row.
        Field::new("name", Kind::TEXT).unique(true),
        Field::new("feed", Kind::I64),
        Field::new("removed", Kind::I64),
    ];
    Schema::new(IDENTITY, fields)
}

pub(crate) fn cursors() -> Schema {
    let fields = vec![
        key(),
        Field::new("name", Kind::TEXT).unique(true),
        Field::new("feed", Kind::I64),
        Field::new("number", Kind::I64),
        Field::new("holder", Kind::Uuid),
        Field::new("until", Kind::Timestamp),
        Field::new("version", Kind::I64).role(Role::Version),
    ];
    Schema::new(CURSORS, fields)
}

pub(crate) fn dead_letters() -> Schema {
    let fields = vec![
        key(),
        Field::new("hook", Kind::TEXT),
        Field::new("position", Kind::TEXT),
        Field::new("of_table", Kind::TEXT),
        Field::new("of_key", Kind::TEXT),
        Field::new("error", Kind::TEXT),
        Field::new("at", Kind::Timestamp),
    ];
    Schema::new(DEAD_LETTERS, fields)
}
