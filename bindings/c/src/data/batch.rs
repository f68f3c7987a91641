//! Batches: writes that are sent together.

use std::mem::MaybeUninit;
use std::sync::Arc;

use marmota::Error;
use marmota::model::{Table, Value, ValueRef};
use marmota::store::Store;
use marmota::store::operation::Outcome;
use marmota::store::{batch, refusal};

use crate::data::rows::{changed_row, key_of, row_of, unknown_action, write_key};
use crate::foreign::{MarmotaRow, entry, required};
use crate::handles::{self, MarmotaHandle, Object, Owned, Target};
use crate::status::Failure;
use crate::store::{MarmotaTable, table_of};
use crate::value::MarmotaValue;

/// `marmota_batch_send`: write all or nothing.
pub const MARMOTA_ALL_OR_NOTHING: u32 = 0;
/// `marmota_batch_send`: keep the writes that succeed.
pub const MARMOTA_EACH: u32 = 1;

/// The maximum number of writes of a batch.
const WRITES_MAX: usize = 1 << 20;

/// Writes, then their results.
struct Batch {
    target: Target,
    writes: Vec<BatchWrite>,
    results: Vec<Result<Outcome, Error>>,
}

struct BatchWrite {
    table: Arc<Table>,
    change: BatchChange,
}

enum BatchChange {
    Insert { row: Vec<Value> },
    Upsert { row: Vec<Value>, action: u32 },
    Update { key: Value, row: Vec<Value>, version: Option<i64> },
    Delete { key: Value },
}

/// A batch, which belongs to its thread.
struct BatchObject(Owned<Batch>);

impl Object for BatchObject {
    const KIND: u8 = 4;
    const NAME: &'static str = "batch";
}

/// Creates an empty batch for a store or a transaction.
///
/// Ownership: free it with `marmota_batch_free`.
/// Threads: the batch belongs to the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_batch_new(
    store: MarmotaHandle,
    batch: Option<&mut MaybeUninit<MarmotaHandle>>,
) -> i32 {
    entry(|| {
        let batch = required(batch, "batch")?;
        let target = Target::find(store)?;
        let new = Batch { target, writes: Vec::new(), results: Vec::new() };
        batch.write(handles::add(BatchObject(Owned::new(new)))?);
        Ok(())
    })
}

/// Adds an insert to a batch; see `marmota_row_insert`. The values are copied.
///
/// Threads: the batch's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_batch_insert(
    batch: MarmotaHandle,
    table: MarmotaTable,
    values: MarmotaRow,
    count: usize,
) -> i32 {
    entry(|| {
        add(batch, table, |table| {
            Ok(BatchChange::Insert { row: to_values(&row_of(table, &values, count)?) })
        })
    })
}

/// Adds an upsert to a batch; see `marmota_row_upsert`. The values are copied.
///
/// Threads: the batch's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_batch_upsert(
    batch: MarmotaHandle,
    table: MarmotaTable,
    values: MarmotaRow,
    count: usize,
    action: u32,
) -> i32 {
    entry(|| {
        if !(crate::data::rows::MARMOTA_IGNORE..=crate::data::rows::MARMOTA_UPDATE)
            .contains(&action)
        {
            return Err(unknown_action(action));
        }
        add(batch, table, |table| {
            Ok(BatchChange::Upsert { row: to_values(&row_of(table, &values, count)?), action })
        })
    })
}

/// Adds a write of all fields of a row to a batch; see `marmota_row_update`. The values are copied.
///
/// Threads: the batch's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_batch_update(
    batch: MarmotaHandle,
    table: MarmotaTable,
    values: MarmotaRow,
    count: usize,
) -> i32 {
    entry(|| add(batch, table, |table| update(table, &values, count, true)))
}

/// Adds a write of the fields that are not absent to a batch; see `marmota_row_patch`. The values are
/// copied.
///
/// Threads: the batch's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_batch_patch(
    batch: MarmotaHandle,
    table: MarmotaTable,
    values: MarmotaRow,
    count: usize,
) -> i32 {
    entry(|| add(batch, table, |table| update(table, &values, count, false)))
}

/// Adds a delete to a batch; see `marmota_row_delete`. The key is copied.
///
/// Threads: the batch's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_batch_delete(
    batch: MarmotaHandle,
    table: MarmotaTable,
    key: MarmotaRow,
) -> i32 {
    entry(|| add(batch, table, |_| Ok(BatchChange::Delete { key: key.one("key")?.to_value() })))
}

/// Sends the writes of a batch as one operation, in one transaction; the batch is empty afterwards.
/// `mode` is MARMOTA_ALL_OR_NOTHING or MARMOTA_EACH. `count` receives the number of writes that
/// succeeded, and may be null. `marmota_batch_result` has the result of each write.
///
/// Threads: the batch's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_batch_send(
    batch: MarmotaHandle,
    mode: u32,
    count: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        if mode > MARMOTA_EACH {
            let message = format!("mode {mode}: use MARMOTA_ALL_OR_NOTHING or MARMOTA_EACH");
            return Err(Failure::argument(message));
        }
        let batch = handles::find::<BatchObject>(batch)?;
        let mut batch = batch.0.lock()?;
        let (target, writes) = (batch.target.clone(), std::mem::take(&mut batch.writes));
        batch.results = target.with(|store| Ok(send(store, writes, mode)?))?;
        if let Some(count) = count {
            count.write(batch.results.iter().filter(|result| result.is_ok()).count());
        }
        Ok(())
    })
}

/// Returns the result of a write of the batch that was sent: MARMOTA_OK, or the code of its error.
/// `key` receives the key of an inserted row, otherwise MARMOTA_ABSENT; it may be null.
///
/// Ownership: a text or UUID of `key` is lent until the thread's next call but one that lends.
/// Threads: the batch's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_batch_result(
    batch: MarmotaHandle,
    index: usize,
    key: Option<&mut MaybeUninit<MarmotaValue>>,
) -> i32 {
    entry(|| {
        let batch = handles::find::<BatchObject>(batch)?;
        let batch = batch.0.lock()?;
        match batch.results.get(index) {
            Some(Ok(outcome)) => {
                let made = key_of(&mut outcome.clone(), || Value::Absent);
                write_key(key, &made)
            }
            Some(Err(error)) => Err(refusal::copy_of(error).into()),
            None => {
                let count = batch.results.len();
                Err(Failure::argument(format!("result {index}: the batch has {count} results")))
            }
        }
    })
}

/// Frees a batch. Writes that were not sent are dropped.
///
/// Threads: any thread, when no call uses the batch.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_batch_free(batch: MarmotaHandle) -> i32 {
    entry(|| handles::remove::<BatchObject>(batch).map(drop))
}

fn add(
    batch: MarmotaHandle,
    table: MarmotaTable,
    change: impl FnOnce(&Arc<Table>) -> Result<BatchChange, Failure>,
) -> Result<(), Failure> {
    let batch = handles::find::<BatchObject>(batch)?;
    let mut batch = batch.0.lock()?;
    if batch.writes.len() >= WRITES_MAX {
        let message = format!("the batch has {WRITES_MAX} writes: send it, then add others");
        return Err(Failure::busy(message));
    }
    let write = batch.target.with(|store| {
        let table = table_of(store, table)?;
        Ok(BatchWrite { change: change(table)?, table: Arc::clone(table) })
    })?;
    batch.writes.push(write);
    Ok(())
}

fn update(
    table: &Table,
    values: &MarmotaRow,
    count: usize,
    whole: bool,
) -> Result<BatchChange, Failure> {
    let mut row = row_of(table, values, count)?;
    let (key, version) = changed_row(table, &mut row, whole)?;
    Ok(BatchChange::Update { key: key.to_value(), version, row: to_values(&row) })
}

fn to_values(row: &[ValueRef<'_>]) -> Vec<Value> {
    row.iter().map(ValueRef::to_value).collect()
}

/// The writes of a batch, to be sent later.
pub(crate) struct UnsentBatch {
    store: Arc<Store>,
    writes: Vec<BatchWrite>,
}

impl UnsentBatch {
    /// Takes the writes of a batch, which is empty afterwards.
    pub(crate) fn take(batch: MarmotaHandle) -> Result<Self, Failure> {
        let batch = handles::find::<BatchObject>(batch)?;
        let mut batch = batch.0.lock()?;
        let Target::Store(store) = &batch.target else {
            let message = "the batch belongs to a transaction: use marmota_batch_send";
            return Err(Failure::argument(message));
        };
        let store = Arc::clone(store);
        Ok(Self { store, writes: std::mem::take(&mut batch.writes) })
    }

    /// Sends the writes: all or nothing.
    pub(crate) async fn send(self) -> Result<(), Error> {
        batch_of(&self.store, self.writes).all_or_nothing().await.map(drop)
    }
}

fn send(
    store: &Store,
    writes: Vec<BatchWrite>,
    mode: u32,
) -> Result<Vec<Result<Outcome, Error>>, Error> {
    let batch = batch_of(store, writes);
    match mode {
        MARMOTA_ALL_OR_NOTHING => batch.all_or_nothing().run(),
        _ => batch.continue_on_error().run(),
    }
}

fn batch_of(store: &Store, writes: Vec<BatchWrite>) -> batch::Batch<'_> {
    let mut batch = store.batch();
    for BatchWrite { table, change } in writes {
        match change {
            BatchChange::Insert { row } => {
                batch.insert_values(&table, &row);
            }
            BatchChange::Upsert { row, action } => {
                let added = batch.insert_values(&table, &row);
                match action {
                    crate::data::rows::MARMOTA_IGNORE => added.or_ignore(),
                    crate::data::rows::MARMOTA_REPLACE => added.or_replace(),
                    _ => added.or_update(),
                };
            }
            BatchChange::Update { key, row, version } => {
                batch.update_values(&table, key, &row, version);
            }
            BatchChange::Delete { key } => {
                batch.delete_value(table, key, None);
            }
        }
    }
    batch
}
