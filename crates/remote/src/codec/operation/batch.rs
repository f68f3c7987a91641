//! Encoding of batches. A write to an audited table is sent without its history entry, but with the
//! actor: the server adds the entry, with its own clock.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, FilterExpr, Result, Table, Value};
use marmota_store::operation::{BatchMode, Link, LinkAt, OnConflict, Once, OnceKey, Write};

use super::parts::{
    DELETE, DELETE_WHERE, INCREMENT, INSERT, Numbers, UPDATE, field_of, put_conflict,
    read_conflict, table_of,
};
use crate::codec::bytes::{Bytes, broken, put_bytes, put_option, put_unsigned};
use crate::codec::query::put_filter_option;
use marmota_model::binary::put_value;

/// The maximum number of writes in a batch.
const WRITES_MAX: usize = 1_000_000;
/// The maximum size of an actor's name in bytes.
const ACTOR_BYTES_MAX: usize = 1_024;

/// A batch as the client has sent it.
#[derive(Debug)]
pub(crate) struct ReceivedBatch {
    pub(crate) mode: BatchMode,
    /// The actor that the client has declared.
    pub(crate) actor: Option<String>,
    pub(crate) once: Option<OnceKey>,
    pub(crate) writes: Vec<ReceivedWrite>,
    pub(crate) links: Vec<Link>,
}

/// A write of the batch, not checked yet.
#[derive(Debug)]
pub(crate) enum ReceivedWrite {
    Insert { table: Arc<Table>, row: Vec<Value>, on_conflict: OnConflict },
    Update { table: Arc<Table>, key: Value, row: Vec<Value>, version: Option<i64> },
    Increment { table: Arc<Table>, key: Value, field: usize, by: Value },
    Delete { table: Arc<Table>, key: Value, version: Option<i64> },
    DeleteWhere { table: Arc<Table>, filter: Option<FilterExpr> },
}

fn actor(writes: &[Write]) -> Option<&str> {
    writes.iter().find_map(|write| match write {
        Write::Audited { audit, .. } => audit.actor(),
        _ => None,
    })
}

pub(super) fn put(
    out: &mut Vec<u8>,
    numbers: &dyn Numbers,
    writes: &[Write],
    links: &[Link],
    mode: BatchMode,
    once: Option<&Once<'_>>,
) -> Result<()> {
    out.push(u8::from(mode == BatchMode::Each));
    let actor = actor(writes);
    out.push(u8::from(actor.is_some()));
    if let Some(actor) = actor {
        put_bytes(out, actor.as_bytes());
    }
    out.push(u8::from(once.is_some()));
    if let Some(once) = once {
        let (key, request) = once.key.parts();
        put_bytes(out, key.as_bytes());
        out.extend_from_slice(request);
    }
    put_unsigned(out, writes.len() as u64);
    writes.iter().try_for_each(|write| put_write(out, numbers, write))?;
    put_unsigned(out, links.len() as u64);
    for link in links {
        put_unsigned(out, link.write as u64);
        put_unsigned(out, link.result as u64);
        put_unsigned(
            out,
            match link.at {
                LinkAt::Key => 0,
                LinkAt::Field(field) => field as u64 + 1,
            },
        );
    }
    Ok(())
}

fn put_write(out: &mut Vec<u8>, numbers: &dyn Numbers, write: &Write) -> Result<()> {
    let about = |out: &mut Vec<u8>, verb: u8, table: &Table| {
        out.push(verb);
        put_unsigned(out, numbers.number(table)?.into());
        Ok::<(), Error>(())
    };
    let put_row = |out: &mut Vec<u8>, row: &[Value]| {
        row.iter().for_each(|value| put_value(out, value.as_ref()));
    };
    match write {
        // The server adds the audit entry or comparison itself.
        Write::Audited { write, .. } | Write::Compared { write } => {
            return put_write(out, numbers, write);
        }
        Write::Insert { table, row, on_conflict } => {
            about(out, INSERT, table)?;
            put_conflict(out, *on_conflict);
            put_row(out, row);
        }
        Write::Update { table, key, row, version } => {
            about(out, UPDATE, table)?;
            put_value(out, key.as_ref());
            put_option(out, *version);
            put_row(out, row);
        }
        Write::Increment { table, key, field, by, .. } => {
            about(out, INCREMENT, table)?;
            put_value(out, key.as_ref());
            put_unsigned(out, *field as u64);
            put_value(out, by.as_ref());
        }
        Write::Delete { table, key, version } => {
            about(out, DELETE, table)?;
            put_value(out, key.as_ref());
            put_option(out, *version);
        }
        Write::DeleteWhere { table, filter } => {
            about(out, DELETE_WHERE, table)?;
            put_filter_option(out, filter.as_ref());
        }
        _ => {
            let message = "a client's store cannot check rights: set them in the served store \
                           (`Service::authenticate`)";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    }
    Ok(())
}

impl ReceivedBatch {
    pub(super) fn read(read: &mut Bytes<'_>, tables: &[Arc<Table>]) -> Result<Self> {
        let mode = if read.bool()? { BatchMode::Each } else { BatchMode::AllOrNothing };
        let actor = if read.bool()? { Some(read.text()?.to_owned()) } else { None };
        if actor.as_ref().is_some_and(|actor| actor.len() > ACTOR_BYTES_MAX) {
            return Err(broken("has an actor with too long a name"));
        }
        let once =
            if read.bool()? { Some(OnceKey::of_parts(read.text()?, read.array()?)?) } else { None };
        let count = read.count()?;
        if count > WRITES_MAX {
            return Err(broken("has more writes than a batch may have"));
        }
        let writes = (0..count).map(|_| read_write(read, tables)).collect::<Result<_>>()?;
        let count = read.count()?;
        let links = (0..count).map(|_| read_link(read)).collect::<Result<_>>()?;
        Ok(Self { mode, actor, once, writes, links })
    }
}

fn read_link(read: &mut Bytes<'_>) -> Result<Link> {
    let (write, result) = (read.size()?, read.size()?);
    let at = match read.size()? {
        0 => LinkAt::Key,
        field => LinkAt::Field(field - 1),
    };
    Ok(Link { write, at, result })
}

fn read_write(read: &mut Bytes<'_>, tables: &[Arc<Table>]) -> Result<ReceivedWrite> {
    let verb = read.u8()?;
    let table = Arc::clone(table_of(read, tables)?);
    let value = |read: &mut Bytes<'_>| read.checked_value().map(|value| value.to_value());
    let row = |read: &mut Bytes<'_>, table: &Table| {
        (0..table.fields().len()).map(|_| value(read)).collect::<Result<Vec<_>>>()
    };
    Ok(match verb {
        INSERT => {
            let on_conflict = read_conflict(read, &table)?;
            ReceivedWrite::Insert { row: row(read, &table)?, table, on_conflict }
        }
        UPDATE => {
            let (key, version) = (value(read)?, read.option()?);
            ReceivedWrite::Update { row: row(read, &table)?, table, key, version }
        }
        INCREMENT => {
            let (key, field) = (value(read)?, field_of(read, &table)?);
            ReceivedWrite::Increment { table, key, field, by: value(read)? }
        }
        DELETE => ReceivedWrite::Delete { table, key: value(read)?, version: read.option()? },
        DELETE_WHERE => ReceivedWrite::DeleteWhere { table, filter: read.filter_option()? },
        _ => return Err(broken("has an unknown kind of write")),
    })
}
