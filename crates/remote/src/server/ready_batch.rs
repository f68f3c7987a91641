//! A client's batch, validated like a batch of the program itself.

use marmota_model::{Result, Scratch, Table, Value, ValueRef, Violation};
use marmota_store::Store;
use marmota_store::operation::{
    Answered, BatchMode, Keys, Link, LinkAt, OnceKey, Operation, Outcome, Write, complete_linked,
};
use marmota_store::prepare::{self, ValueSource};
use marmota_store::read::check_key;
use marmota_store::refusal::copy_of;
use marmota_store::write::{check_increment, check_version};

use super::submission::check_filter;
use crate::codec::bytes::{Bytes, broken};
use crate::codec::operation::{ReceivedBatch, ReceivedWrite};
use crate::codec::outcome::put_results;

/// The format of results that are stored for a repeat.
const KEPT: u8 = 1;

/// A validated batch, and its results.
#[derive(Debug)]
pub(super) struct ReadyBatch {
    mode: BatchMode,
    writes: Vec<Write>,
    links: Vec<Link>,
    once: Option<OnceKey>,
    pub(super) results: Vec<Result<Outcome>>,
    answered: Option<Answered>,
}

impl ReadyBatch {
    pub(super) fn new(asked: ReceivedBatch, scope: &Store) -> Result<Self> {
        let ReceivedBatch { mode, once, writes: asked, links, .. } = asked;
        let mut writes = Vec::with_capacity(asked.len());
        let mut rest = &links[..];
        for (place, write) in asked.into_iter().enumerate() {
            let count = rest.iter().take_while(|link| link.write == place).count();
            let (taken, others) = rest.split_at(count);
            rest = others;
            let write = ready(write, taken, scope)?;
            for link in taken {
                check_link(link, write.table(), &writes)?;
            }
            writes.push(write);
        }
        if !rest.is_empty() {
            return Err(broken("links writes that do not exist, or are out of order"));
        }
        Ok(Self { mode, writes, links, once, results: Vec::new(), answered: None })
    }

    pub(super) fn operate<T>(
        &mut self,
        scope: &Store,
        run: impl FnOnce(&mut Operation<'_>) -> Result<T>,
    ) -> Result<T> {
        let Self { mode, writes, links, once, results, answered } = self;
        let made = &*writes;
        let mut keep = |results: &[Result<Outcome>]| {
            let mut out = vec![KEPT];
            put_results(&mut out, &with_keys(made, results));
            out
        };
        let once = match once {
            Some(key) => Some(scope.once(key, &mut keep, answered)?),
            None => None,
        };
        run(&mut Operation::Batch { writes, links, mode: *mode, once, results })
    }

    /// Appends the results, and whether they are repeated from an earlier execution.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match &self.answered {
            Some(Answered { bytes, repeated: true }) if bytes.first() == Some(&KEPT) => {
                out.extend_from_slice(&bytes[1..]);
                out.push(2);
            }
            answered => {
                put_results(out, &self.results);
                out.push(u8::from(answered.is_some()));
            }
        }
    }
}

/// Returns the results with the keys of the inserted rows: a repeating client may have generated
/// other keys.
fn with_keys(writes: &[Write], results: &[Result<Outcome>]) -> Vec<Result<Outcome>> {
    let with_key = |(write, result): (&Write, &Result<Outcome>)| match (write, result) {
        (Write::Insert { table, row, .. }, Ok(outcome)) if outcome.keys == Keys::Known => {
            let keys = Keys::One(row[table.key()].clone());
            Ok(Outcome { keys, ..outcome.clone() })
        }
        (_, Ok(outcome)) => Ok(outcome.clone()),
        (_, Err(error)) => Err(copy_of(error)),
    };
    writes.iter().zip(results).map(with_key).collect()
}

/// Reads the results of a batch, and whether they are those of the first execution (`Some(false)`),
/// a repeat, or a batch without idempotency key (`None`).
pub(crate) fn read_results(read: &mut Bytes<'_>) -> Result<(Vec<Result<Outcome>>, Option<bool>)> {
    let results = read.results()?;
    let repeated = match read.u8()? {
        0 => None,
        1 => Some(false),
        2 => Some(true),
        _ => return Err(broken("has an unknown kind of results")),
    };
    Ok((results, repeated))
}

fn check_link(link: &Link, table: &Table, before: &[Write]) -> Result<()> {
    if matches!(link.at, LinkAt::Field(field) if field >= table.fields().len()) {
        return Err(broken("links a field that the table does not have"));
    }
    link.check(table, before)
}

fn ready(asked: ReceivedWrite, links: &[Link], scope: &Store) -> Result<Write> {
    let key_is_linked = links.iter().any(|link| link.at == LinkAt::Key);
    let fill = |table: &Table, row: &mut [Value]| {
        for link in links {
            link.at.reserve(table, |field, value| row[field] = value.to_value());
        }
    };
    let check = |table: &Table, key: &Value| match key_is_linked {
        true => Ok(()),
        false => check_key(table, key.as_ref()),
    };
    Ok(match asked {
        ReceivedWrite::Insert { table, mut row, on_conflict } => {
            fill(&table, &mut row);
            let stamp = scope.stamp(&table);
            let row = prepared(&table, &row, links, |table, row, scratch, violations| {
                prepare::insert_into(table, row, ValueSource::Values, stamp, scratch, violations);
            })?;
            Write::Insert { table, row, on_conflict }
        }
        ReceivedWrite::Update { table, key, mut row, version } => {
            check(&table, &key)?;
            check_version(&table, version)?;
            fill(&table, &mut row);
            let stamp = scope.stamp(&table);
            let row = prepared(&table, &row, links, |table, row, scratch, violations| {
                prepare::update_into(table, row, ValueSource::Values, stamp, scratch, violations);
            })?;
            Write::Update { table, key, row, version }
        }
        ReceivedWrite::Increment { table, key, field, by } => {
            check(&table, &key)?;
            check_increment(&table, field, by.as_ref())?;
            let stamp = scope.stamp(&table).value().to_value();
            Write::Increment { table, key, field, by, stamp }
        }
        ReceivedWrite::Delete { table, key, version } => {
            check(&table, &key)?;
            check_version(&table, version)?;
            Write::Delete { table, key, version }
        }
        ReceivedWrite::DeleteWhere { table, filter } => {
            check_filter(&table, filter.as_ref())?;
            Write::DeleteWhere { table, filter }
        }
    })
}

fn prepared(
    table: &Table,
    row: &[Value],
    links: &[Link],
    prepare: impl for<'a> FnOnce(&'a Table, &mut [ValueRef<'a>], &'a Scratch, &mut Vec<Violation>),
) -> Result<Vec<Value>> {
    let scratch = Scratch::new();
    let mut values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
    let mut violations = Vec::new();
    prepare(table, &mut values, &scratch, &mut violations);
    complete_linked(table, links, &mut values, &mut violations);
    prepare::finish(violations)?;
    Ok(values.iter().map(ValueRef::to_value).collect())
}
