//! Compares the rows of a pair, piece by piece, each at one position.

use std::ops::ControlFlow;

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, Result, RowQuery, Table, Value, ValueRef};

use super::apply::{Target, advance};
use super::piece::{Commits, Piece, Source, order};
use crate::admin::transfer::{Row, checksum};
use crate::contract::engine;
use crate::contract::operation::Operation;

/// The number of differences that are listed.
const DIFFERENCES_MAX: usize = 100;
/// A blob is read later than its row, and may differ until the next commit was applied.
const TRIES: usize = 3;

/// The result of a comparison ([`Follower::compare`](super::Follower::compare)).
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
            let mut tries = TRIES;
            let (piece, found) = loop {
                let piece = source.piece(&table, after.as_ref())?;
                advance(source, target, commits, piece.number)?;
                let theirs = read(target, &own, after.as_ref(), &piece)?;
                let found = differences(&table, &piece.rows, &theirs);
                tries -= 1;
                if found.is_empty() || tries == 0 {
                    break (piece, found);
                }
            };
            compared.rows += piece.rows.len() as u64;
            compared.different += found.len() as u64;
            let room = DIFFERENCES_MAX - compared.differences.len();
            compared.differences.extend(found.into_iter().take(room));
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
    let after = after.map(|key| vec![key.clone()]);
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

fn differences(table: &Table, ours: &[Row], theirs: &[Row]) -> Vec<RowDifference> {
    let text = |row: &Row| format!("{:?}", row[table.key()].as_ref());
    let mut left: HashMap<String, u128> =
        theirs.iter().map(|row| (text(row), checksum(row))).collect();
    let mut found = Vec::new();
    let mut differ = |key: String, what| {
        found.push(RowDifference { table: table.name().to_owned(), key, what });
    };
    for row in ours {
        let key = text(row);
        match left.remove(&key) {
            Some(theirs) if theirs == checksum(row) => {}
            Some(_) => differ(key, "the values differ"),
            None => differ(key, "the secondary does not have the row"),
        }
    }
    for (key, _) in left {
        differ(key, "only the secondary has the row");
    }
    found
}
