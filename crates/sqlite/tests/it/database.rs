//! A database with a few tables, and short calls to use it by.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::{
    Collation, Currency, EnumStored, Error, Field, FieldSet, FilterExpr, Index, KeyKind, Kind,
    Literal, NoRows, Result, Role, RowQuery, RowSink, RowSource, Rule, Schema, Table, Value,
    ValueRef, Variant,
};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::engine::{Engine, Session};
use marmota_store::operation::{Operation, Outcome};

pub(crate) fn id() -> Field {
    Field::new("id", Kind::I64).role(Role::Key)
}

pub(crate) fn text(name: &'static str) -> Field {
    Field::new(name, Kind::TEXT)
}

pub(crate) fn reference(name: &'static str, table: &'static str, key: KeyKind) -> Field {
    Field::new(name, Kind::Reference { table: table.into(), key })
}

pub(crate) fn table(name: &'static str, fields: Vec<Field>) -> Arc<Table> {
    Arc::new(Table::new(Schema::new(name, fields)).unwrap())
}

pub(crate) fn table_with(
    name: &'static str,
    fields: Vec<Field>,
    indexes: Vec<Index>,
) -> Arc<Table> {
    Arc::new(Table::new(Schema::new(name, fields).indexes(indexes)).unwrap())
}

/// `city(code text key, name)`.
pub(crate) fn city() -> Arc<Table> {
    table("city", vec![text("code").role(Role::Key), text("name")])
}

pub(crate) const EMAIL: usize = 2;
pub(crate) const YEAR: usize = 3;
pub(crate) const BALANCE: usize = 4;
pub(crate) const CITY: usize = 5;
pub(crate) const UPDATED: usize = 6;
pub(crate) const VERSION: usize = 7;

/// `person(id, name, email unique nocase?, year i16?, balance, city?, updated, version)`.
pub(crate) fn person() -> Arc<Table> {
    let nocase = Kind::Text { chars_max: 80, collation: Collation::NoCase };
    let year = Kind::Int { min: i64::from(i16::MIN), max: i64::from(i16::MAX) };
    table_with(
        "person",
        vec![
            id(),
            text("name"),
            Field::new("email", nocase).nullable(true).unique(true),
            Field::new("year", year).nullable(true),
            Field::new("balance", Kind::Currency).default(Literal::Int(0)),
            reference("city", "city", KeyKind::Text).nullable(true),
            Field::new("updated", Kind::Timestamp).role(Role::UpdatedAt),
            Field::new("version", Kind::I64).role(Role::Version),
        ],
        vec![Index::unique(vec![1, 3])],
    )
}

/// Every kind of field, all optional, in a table with a UUID for a key.
pub(crate) fn every_kind() -> Arc<Table> {
    let variants = vec![
        Variant { name: "red".into(), number: 1 },
        Variant { name: "green".into(), number: 2 },
    ];
    let colour = |stored| Kind::Enum { variants: variants.clone().into(), stored };
    let mut fields = vec![Field::new("id", Kind::Uuid).role(Role::Key)];
    for (name, kind) in [
        ("flag", Kind::Bool),
        ("number", Kind::I64),
        ("ratio", Kind::Float),
        ("price", Kind::Currency),
        ("words", Kind::TEXT),
        ("bytes", Kind::Blob),
        ("json", Kind::Json),
        ("day", Kind::Date),
        ("clock", Kind::Time),
        ("moment", Kind::Timestamp),
        ("uuid", Kind::Uuid),
        ("colour_name", colour(EnumStored::Text)),
        ("colour_number", colour(EnumStored::Integer)),
    ] {
        fields.push(Field::new(name, kind).nullable(true));
    }
    fields[5].rules = vec![Rule::NotEmpty].into();
    table("thing", fields)
}

pub(crate) fn memory(tables: &[Arc<Table>]) -> Sqlite {
    open(Location::Memory, tables)
}

pub(crate) fn file(path: &std::path::Path, tables: &[Arc<Table>]) -> Sqlite {
    open(Location::File(path.to_owned()), tables)
}

/// How files are opened: with the feature `encryption` all of them have a key.
#[cfg(feature = "encryption")]
pub(crate) fn options() -> SqliteOptions {
    SqliteOptions::default().key(|| Ok(key()))
}

#[cfg(feature = "encryption")]
pub(crate) fn key() -> marmota_sqlite::EncryptionKey {
    marmota_sqlite::EncryptionKey::raw([7; 32])
}

/// How files are opened.
#[cfg(not(feature = "encryption"))]
pub(crate) fn options() -> SqliteOptions {
    SqliteOptions::default()
}

fn open(location: Location, tables: &[Arc<Table>]) -> Sqlite {
    let options = if location == Location::Memory { SqliteOptions::default() } else { options() };
    let engine = Sqlite::open(location, options).unwrap();
    engine.prepare(tables, 0).unwrap();
    engine
}

/// A row of `person` as an insert takes it.
pub(crate) fn person_row(name: &str) -> Vec<ValueRef<'_>> {
    let mut row = vec![ValueRef::Null; 8];
    row[0] = ValueRef::Absent;
    row[1] = ValueRef::Text(name);
    row[BALANCE] = ValueRef::Currency(Currency::from_scaled(0));
    row[UPDATED] = ValueRef::Timestamp(marmota_model::Timestamp::default());
    row[VERSION] = ValueRef::Int(1);
    row
}

/// Carries out an operation, waiting where it has to.
pub(crate) fn run(
    session: &mut dyn Session,
    operation: &mut Operation<'_>,
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    marmota_store::engine::run(session, operation, sink)
}

/// The short calls.
pub(crate) trait Calls {
    fn run(&mut self, operation: Operation<'_>) -> Result<Outcome>;
    fn insert(&mut self, table: &Table, row: &[ValueRef<'_>]) -> Result<Outcome>;
    fn insert_many(&mut self, table: &Table, rows: &[Vec<ValueRef<'_>>]) -> Result<Outcome>;
    fn row(&mut self, table: &Table, key: ValueRef<'_>) -> Option<Vec<Value>>;
    fn rows(&mut self, table: &Table, query: &RowQuery) -> Vec<Vec<Value>>;
    fn count(&mut self, table: &Table, filter: Option<&FilterExpr>) -> u64;
}

impl Calls for Box<dyn Session> {
    fn run(&mut self, mut operation: Operation<'_>) -> Result<Outcome> {
        run(&mut **self, &mut operation, &mut NoRows)
    }

    fn insert(&mut self, table: &Table, row: &[ValueRef<'_>]) -> Result<Outcome> {
        self.run(Operation::insert(table, row))
    }

    fn insert_many(&mut self, table: &Table, rows: &[Vec<ValueRef<'_>>]) -> Result<Outcome> {
        self.run(Operation::insert_many(table, &mut Rows::of(rows)))
    }

    fn row(&mut self, table: &Table, key: ValueRef<'_>) -> Option<Vec<Value>> {
        let mut rows = Collected::default();
        let operation = &mut Operation::Get { table, key, fields: table.all() };
        run(&mut **self, operation, &mut rows).unwrap();
        rows.0.pop()
    }

    fn rows(&mut self, table: &Table, query: &RowQuery) -> Vec<Vec<Value>> {
        let mut rows = Collected::default();
        let outcome = run(&mut **self, &mut Operation::List { table, query }, &mut rows).unwrap();
        assert_eq!(outcome.rows, rows.0.len() as u64);
        rows.0
    }

    fn count(&mut self, table: &Table, filter: Option<&FilterExpr>) -> u64 {
        self.run(Operation::Count { table, filter }).unwrap().rows
    }
}

#[derive(Default)]
pub(crate) struct Collected(pub(crate) Vec<Vec<Value>>);

impl RowSink for Collected {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.0.push(row.iter().map(ValueRef::to_value).collect());
        ControlFlow::Continue(())
    }
}

/// Rows as a source; can be made to fail at one.
pub(crate) struct Rows<'a> {
    rows: std::slice::Iter<'a, Vec<ValueRef<'a>>>,
    pub(crate) fails_at: usize,
    given: usize,
}

impl<'a> Rows<'a> {
    pub(crate) fn of(rows: &'a [Vec<ValueRef<'a>>]) -> Self {
        Self { rows: rows.iter(), fails_at: usize::MAX, given: 0 }
    }
}

impl<'a> RowSource<'a> for Rows<'a> {
    fn remaining(&self) -> usize {
        self.rows.len()
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        if self.given == self.fails_at {
            return Err(Error::new(marmota_model::ErrorKind::Invalid, "a rule is broken"));
        }
        self.given += 1;
        let Some(next) = self.rows.next() else { return Ok(false) };
        row.copy_from_slice(next);
        Ok(true)
    }
}

/// The field, value and rule of each violation.
pub(crate) fn told(error: &Error) -> Vec<(&str, &str, &str)> {
    let violations = error.violations().iter();
    violations.map(|v| (&*v.field, &*v.value, &*v.rule)).collect()
}

pub(crate) fn fields(positions: &[usize]) -> FieldSet {
    positions.iter().copied().collect()
}
