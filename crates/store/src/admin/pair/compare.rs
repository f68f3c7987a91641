//! Compares the rows of a pair, piece by piece, each at one position.

use std::ops::ControlFlow;

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, Result, RowQuery, Table, Value, ValueRef};

use super::apply::{Target, advance};
use super::piece::{Commits, Piece, Source, order};
use crate::admin::transfer::{Row, checksum};
use crate::contract::engine::{self, Session};
use crate::contract::operation::Operation;

/// The number of differences that are listed.
pub(super) const DIFFERENCES_MAX: usize = 100;
/// The number of times that a row is read again while it changes.
const TRIES: usize = 1_000;

/// The result of a comparison ([`PairFollower::compare`](super::PairFollower::compare)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// The number of rows that were compared.
    pub rows: u64,
    /// The number of rows that differ, or that one of the databases does not have.
    pub different: u64,
    /// The first 100 of these.
    pub differences: Vec<RowDifference>,
}

/// A row that is not the same in both databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowDifference {
    /// The table.
    pub table: String,
    /// The key, as a text.
    pub key: String,
    /// What differs.
    pub what: &'static str,
}

/// Compares all rows.
///
/// # Errors
/// Those of the engines; [`ErrorKind::Closed`] once `is_stopped` returns true.
pub(super) fn all(
    source: &mut Source,
    target: &mut Target<'_>,
    commits: &mut Commits,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Compared> {
    let mut compared = Compared::default();
    for (table, own) in target.tables.clone() {
        let mut after = None;
        loop {
            if is_stopped() {
                return Err(Error::new(ErrorKind::Closed, "the comparison was stopped"));
            }
            let piece = source.piece(&table, after.as_ref())?;
            advance(source, target, commits, piece.number)?;
            let theirs = read(target, &own, after.as_ref(), &piece)?;
            compared.rows += piece.rows.len() as u64;
            for (key, what) in differences(&table, &piece.rows, &theirs) {
                let is_listed = compared.differences.len() < DIFFERENCES_MAX;
                if is_listed && is_same(source, target, commits, (&table, &own), &key)? {
                    continue;
                }
                compared.different += 1;
                if is_listed {
                    let (table, key) = (table.name().to_owned(), format!("{:?}", key.as_ref()));
                    compared.differences.push(RowDifference { table, key, what });
                }
            }
            match piece.to {
                Some(to) => after = Some(to),
                None => break,
            }
        }
    }
    Ok(compared)
}

/// Reads the rows that the secondary has in the range of a piece.
fn read(
    target: &mut Target<'_>,
    table: &Table,
    after: Option<&Value>,
    piece: &Piece,
) -> Result<Vec<Row>> {
    let after = after.map(|key| table.place_of_key(key.clone()));
    // A range with more rows than the primary has differs anyway.
    let limit = Some(piece.rows.len() as u64 + 1);
    let query = RowQuery { after, fields: Some(table.all()), limit, ..RowQuery::new() };
    let mut rows = Vec::new();
    let mut keep = |row: &[ValueRef<'_>]| {
        let row: Row = row.iter().map(ValueRef::to_value).collect();
        let is_in = piece.to.as_ref().is_none_or(|to| order(table, &row[table.key()], to).is_le());
        if is_in {
            rows.push(row);
        }
        if is_in { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    engine::run(&mut *target.session, &mut Operation::List { table, query: &query }, &mut keep)?;
    Ok(rows)
}

/// Returns true if a row is the same in both databases after all. A commit is applied with the blobs
/// that its rows have at that time, which may be newer than the position of a piece.
fn is_same(
    source: &mut Source,
    target: &mut Target<'_>,
    commits: &mut Commits,
    (table, own): (&Table, &Table),
    key: &Value,
) -> Result<bool> {
    for _ in 0..TRIES {
        let before = get(&mut *source.session, table, key)?;
        let last = source.last_position()?;
        advance(source, target, commits, last.number)?;
        let theirs = get(&mut *target.session, own, key)?;
        let is_same = before == theirs;
        if is_same || before == get(&mut *source.session, table, key)? {
            return Ok(is_same);
        }
    }
    Ok(false)
}

/// Returns the checksum of a row, if the row exists.
fn get(session: &mut dyn Session, table: &Table, key: &Value) -> Result<Option<u128>> {
    let mut found = None;
    let mut get = Operation::Get { table, key: key.as_ref(), fields: table.all() };
    engine::run(session, &mut get, &mut |row: &[ValueRef<'_>]| {
        found = Some(checksum(&row.iter().map(ValueRef::to_value).collect()));
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Returns the keys of rows that are not the same, and what differs.
fn differences(table: &Table, ours: &[Row], theirs: &[Row]) -> Vec<(Value, &'static str)> {
    let key_of = |row: &Row| row[table.key()].clone();
    let text = |row: &Row| format!("{:?}", row[table.key()].as_ref());
    let mut left: HashMap<String, &Row> = theirs.iter().map(|row| (text(row), row)).collect();
    let mut found = Vec::new();
    for row in ours {
        match left.remove(&text(row)) {
            Some(theirs) if checksum(theirs) == checksum(row) => {}
            Some(_) => found.push((key_of(row), "the values differ")),
            None => found.push((key_of(row), "the secondary does not have the row")),
        }
    }
    found.extend(left.into_values().map(|row| (key_of(row), "only the secondary has the row")));
    found
}
