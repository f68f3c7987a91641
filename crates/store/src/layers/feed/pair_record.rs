//! The record of a pair: one row in each of the two databases.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use marmota_model::binary::{BinaryReader, put_value};
use marmota_model::{
    Error, ErrorKind, Field, Kind, NoRows, Result, Role, RowQuery, Schema, Table, Uuid, Value,
    ValueRef,
};

use crate::contract::change::Position;
use crate::contract::durability::Durability;
use crate::contract::engine::{self, Engine, Session};
use crate::contract::operation::Operation;

/// The name of the table.
pub(crate) const PAIR: &str = "marmota_pair";
/// The key of the only row.
const ROW: ValueRef<'static> = ValueRef::Int(1);

/// The columns, by place.
mod column {
    pub(super) const KEY: usize = 0;
    pub(super) const PAIR: usize = 1;
    pub(super) const ROLE: usize = 2;
    pub(super) const TERM: usize = 3;
    pub(super) const PEER: usize = 4;
    pub(super) const FEED: usize = 5;
    pub(super) const NUMBER: usize = 6;
    pub(super) const TABLE: usize = 7;
    pub(super) const AFTER: usize = 8;
    pub(super) const COUNT: usize = 9;
}

/// The role of a database in a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairRole {
    /// It serves reads and writes.
    Primary,
    /// It gets the commits of the other one.
    Secondary,
}

impl PairRole {
    /// Returns its name: `primary` or `secondary`.
    ///
    /// ```
    /// assert_eq!(marmota_store::pair::PairRole::Primary.name(), "primary");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
        }
    }
}

/// The part of the rows that a secondary has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Covered {
    /// All rows of the tables before this one, and those of it with a key up to this one.
    UpTo(String, Option<Value>),
    /// All rows.
    All,
}

/// What a database records about its pair.
#[derive(Clone, Debug)]
pub struct PairRecord {
    /// Identifies the pair: the same in both databases.
    pub pair: Uuid,
    /// The role of this database.
    pub role: PairRole,
    /// The number of flips until now.
    pub term: i64,
    /// The URL of the other database, without a password.
    pub peer: String,
    /// The position of the primary that a secondary has.
    pub(crate) position: Position,
    pub(crate) covered: Covered,
}

impl fmt::Display for PairRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of a pair with {}", self.role.name(), self.peer)
    }
}

/// Returns the table, which is one for all engines: they know a table by its address.
///
/// # Errors
/// None, unless the schema is invalid.
pub(crate) fn table() -> Result<Arc<Table>> {
    static TABLE: OnceLock<Arc<Table>> = OnceLock::new();
    match TABLE.get() {
        Some(table) => Ok(Arc::clone(table)),
        None => {
            let table = Arc::new(Table::new(schema())?);
            Ok(Arc::clone(TABLE.get_or_init(|| table)))
        }
    }
}

fn schema() -> Schema {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("pair", Kind::Uuid),
        Field::new("role", Kind::TEXT),
        Field::new("term", Kind::I64),
        Field::new("peer", Kind::TEXT),
        Field::new("feed", Kind::I64),
        Field::new("number", Kind::I64),
        // The table that is being copied; NULL once all are.
        Field::new("of_table", Kind::TEXT).nullable(true),
        // The last key that was copied, encoded.
        Field::new("after", Kind::Blob).nullable(true),
    ];
    Schema::new(PAIR, fields)
}

impl PairRecord {
    /// Reads the record of a database that may not have been opened yet.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn find(engine: &dyn Engine) -> Result<Option<Self>> {
        let table = table()?;
        if !engine.open_table(&table)? {
            return Ok(None);
        }
        Self::read(&mut *engine.session()?, &table)
    }

    /// Reads the record.
    ///
    /// # Errors
    /// Those of the engine; [`ErrorKind::Engine`] for a row that is not a record.
    pub(crate) fn read(session: &mut dyn Session, table: &Table) -> Result<Option<Self>> {
        let mut found = None;
        let query = RowQuery { fields: Some(table.all()), limit: Some(1), ..RowQuery::new() };
        let mut list = Operation::List { table, query: &query };
        engine::run(session, &mut list, &mut |row: &[ValueRef<'_>]| {
            found = Some(Self::of_row(row));
            ControlFlow::Break(())
        })?;
        found.transpose()
    }

    fn of_row(row: &[ValueRef<'_>]) -> Result<Self> {
        let damaged = || Error::new(ErrorKind::Engine, format!("the row of `{PAIR}` is damaged"));
        let int = |place: usize| row[place].as_int().ok_or_else(damaged);
        let text = |place: usize| row[place].as_text().map(str::to_owned);
        let ValueRef::Uuid(pair) = row[column::PAIR] else { return Err(damaged()) };
        let role = match row[column::ROLE].as_text() {
            Some("primary") => PairRole::Primary,
            Some("secondary") => PairRole::Secondary,
            _ => return Err(damaged()),
        };
        let after = match row[column::AFTER] {
            ValueRef::Blob(bytes) => Some(BinaryReader::new(bytes).value()?.to_value()),
            _ => None,
        };
        let feed = int(column::FEED)? as u64;
        let number = int(column::NUMBER)? as u64;
        Ok(Self {
            pair,
            role,
            term: int(column::TERM)?,
            peer: text(column::PEER).ok_or_else(damaged)?,
            position: Position { feed, number },
            covered: text(column::TABLE).map_or(Covered::All, |of| Covered::UpTo(of, after)),
        })
    }

    /// Writes the record, as a part of the open transaction if there is one.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn write(&self, session: &mut dyn Session, table: &Table) -> Result<()> {
        let (of, after) = match &self.covered {
            Covered::UpTo(of, after) => (Some(&**of), after.as_ref()),
            Covered::All => (None, None),
        };
        let after = after.map(|key| {
            let mut bytes = Vec::new();
            put_value(&mut bytes, key.as_ref());
            bytes
        });
        let mut row = [ValueRef::Absent; column::COUNT];
        row[column::PAIR] = ValueRef::Uuid(self.pair);
        row[column::ROLE] = ValueRef::Text(self.role.name());
        row[column::TERM] = ValueRef::Int(self.term);
        row[column::PEER] = ValueRef::Text(&self.peer);
        row[column::FEED] = ValueRef::Int(self.position.feed as i64);
        row[column::NUMBER] = ValueRef::Int(self.position.number as i64);
        row[column::TABLE] = of.map_or(ValueRef::Null, ValueRef::Text);
        row[column::AFTER] = after.as_deref().map_or(ValueRef::Null, ValueRef::Blob);
        let mut update = Operation::Update { table, key: ROW, row: &row, version: None };
        match run_durably(session, &mut update) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                row[column::KEY] = ROW;
                run_durably(session, &mut Operation::insert(table, &row))
            }
            written => written,
        }
    }

    /// Removes the record.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn remove(session: &mut dyn Session, table: &Table) -> Result<()> {
        run_durably(session, &mut Operation::DeleteWhere { table, filter: None })
    }

    /// Checks that a store may be opened on this database without a pair.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a secondary.
    pub(crate) fn check_is_primary(&self) -> Result<()> {
        if self.role == PairRole::Primary {
            return Ok(());
        }
        let message = match &self.covered {
            Covered::All => format!(
                "this database is the secondary of a live move; the primary is {0}: open that one. \
                 If it refuses too, a flip was interrupted: `marmota move --settle` with both \
                 databases makes this or the other one the primary",
                self.peer
            ),
            Covered::UpTo(..) => format!(
                "this database has only a part of the rows of {0}, from which a live move copies \
                 them: open that one, and start the move again",
                self.peer
            ),
        };
        Err(Error::new(ErrorKind::Invalid, message))
    }
}

/// Executes an operation with full durability.
fn run_durably(session: &mut dyn Session, operation: &mut Operation<'_>) -> Result<()> {
    engine::run_as(session, Some(Durability::Full), operation, &mut NoRows).map(drop)
}
