//! Parts of encoded operations: the verbs, the settings, tables, fields and conflict actions.

use std::sync::Arc;
use std::time::Duration;

use marmota_model::{FieldSet, Result, Table};
use marmota_store::Durability;
use marmota_store::operation::OnConflict;

use crate::codec::bytes::{Bytes, broken, put_unsigned};
use crate::codec::query::put_fields;

/// The first byte of each packet of a client.
pub(crate) const HELLO: u8 = 0;
pub(super) const GET: u8 = 1;
pub(super) const LIST: u8 = 2;
pub(super) const COUNT: u8 = 3;
pub(super) const INSERT: u8 = 4;
pub(super) const INSERT_MANY: u8 = 5;
pub(super) const UPDATE: u8 = 6;
pub(super) const UPDATE_MANY: u8 = 7;
pub(super) const INCREMENT: u8 = 8;
pub(super) const DELETE: u8 = 9;
pub(super) const DELETE_WHERE: u8 = 10;
pub(super) const BATCH: u8 = 11;
pub(super) const BEGIN: u8 = 12;
pub(super) const COMMIT: u8 = 13;
pub(super) const ROLLBACK: u8 = 14;
pub(super) const SAVEPOINT: u8 = 15;
pub(super) const RELEASE: u8 = 16;
pub(super) const ROLLBACK_TO: u8 = 17;
pub(super) const LIST_EACH: u8 = 18;
pub(super) const GROUP: u8 = 19;
pub(super) const ESTIMATE: u8 = 20;
pub(super) const LIST_RANKED: u8 = 21;
/// Cancels the operation with a number.
pub(crate) const CANCEL: u8 = 32;

const DURABILITIES: [Option<Durability>; 4] =
    [None, Some(Durability::None), Some(Durability::Relaxed), Some(Durability::Full)];

/// The settings common to all operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// See [`marmota_store::engine::Session::submit`].
    pub(crate) durability: Option<Durability>,
    /// How long the client waits.
    pub(crate) within: Option<Duration>,
}

impl Terms {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        let place = DURABILITIES.iter().position(|&known| known == self.durability);
        out.push(place.unwrap_or_default() as u8);
        let within = self.within.map_or(0, |within| within.as_millis().max(1));
        put_unsigned(out, u64::try_from(within).unwrap_or(u64::MAX));
    }

    pub(crate) fn read(read: &mut Bytes<'_>) -> Result<Self> {
        let place = usize::from(read.u8()?);
        let durability =
            *DURABILITIES.get(place).ok_or_else(|| broken("has an unknown durability"))?;
        let within = Some(read.unsigned()?).filter(|&ms| ms != 0).map(Duration::from_millis);
        Ok(Self { durability, within })
    }
}

/// The numbers of tables, agreed between client and server.
pub(crate) trait Numbers {
    fn number(&self, table: &Table) -> Result<u32>;
}

const REFUSE: u8 = 0;
const IGNORE: u8 = 1;
const REPLACE: u8 = 2;
const UPDATE_THERE: u8 = 3;

pub(super) fn put_conflict(out: &mut Vec<u8>, on_conflict: OnConflict) {
    match on_conflict {
        OnConflict::Refuse => out.push(REFUSE),
        OnConflict::Ignore => out.push(IGNORE),
        OnConflict::Replace => out.push(REPLACE),
        OnConflict::Update { fields } => {
            out.push(UPDATE_THERE);
            put_fields(out, fields);
        }
    }
}

pub(super) fn read_conflict(read: &mut Bytes<'_>, table: &Table) -> Result<OnConflict> {
    Ok(match read.u8()? {
        REFUSE => OnConflict::Refuse,
        IGNORE => OnConflict::Ignore,
        REPLACE => OnConflict::Replace,
        UPDATE_THERE => {
            let given: FieldSet = read.fields(table.fields().len())?;
            OnConflict::UPDATE.with_given(table, given)
        }
        _ => return Err(broken("has an unknown conflict action")),
    })
}

pub(super) fn table_of<'t>(
    read: &mut Bytes<'_>,
    tables: &'t [Arc<Table>],
) -> Result<&'t Arc<Table>> {
    tables.get(read.size()?).ok_or_else(|| broken("names a table that was not in the hello"))
}

pub(super) fn field_of(read: &mut Bytes<'_>, table: &Table) -> Result<usize> {
    let field = read.size()?;
    if field >= table.fields().len() {
        return Err(broken("names a field that the table does not have"));
    }
    Ok(field)
}
