//! Reads of several rows by their keys.

use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::task::{Context, Poll};

use marmota::Error;
use marmota::model::{Table, ValueRef};
use marmota::store::action::block_on;
use marmota::store::operation::{Operation, Outcome};
use marmota::store::{Pending, Progress, Store, read};

use crate::foreign::{MarmotaRow, entry, required};
use crate::handles::{MarmotaHandle, Target};
use crate::status::Failure;
use crate::store::{MarmotaTable, table_of};
use crate::value::{LentRows, MarmotaValue, lend};

/// The maximum number of keys of a call.
const KEYS_MAX: usize = 1 << 16;

/// Reads the rows with these keys, with their blobs. Each is a read of its own, but a database server
/// gets all of them before the first is awaited. A row that does not exist has only absent values.
///
/// Ownership: `*rows` has `count` rows with `*width` values each, in the order of the keys. They are
/// lent until the thread's next call but one that lends.
/// Threads: any thread; for a transaction its thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_rows_get(
    store: MarmotaHandle,
    table: MarmotaTable,
    keys: MarmotaRow,
    count: usize,
    rows: Option<&mut MaybeUninit<*const MarmotaValue>>,
    width: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        let rows = required(rows, "rows")?;
        if count > KEYS_MAX {
            let message = format!("{count} keys: read at most {KEYS_MAX} rows at once");
            return Err(Failure::argument(message));
        }
        let keys = keys.get(count, "keys")?;
        let (first, fields) = Target::find(store)?.with(|store| {
            let table = table_of(store, table)?;
            keys.iter().try_for_each(|key| read::check_key(table, *key))?;
            let fields = table.fields().len();
            let ((), first) = lend(fields, |rows| read_all(store, table, &keys, rows))?;
            Ok((first, fields))
        })?;
        rows.write(first.map_or(std::ptr::null(), |(row, _)| row));
        if let Some(width) = width {
            width.write(fields);
        }
        Ok(())
    })
}

/// A read that waits for a server.
struct WaitingRead {
    /// The place of its key.
    place: usize,
    pending: Pending,
    outcome: Outcome,
}

fn read_all(
    store: &Store,
    table: &Table,
    keys: &[ValueRef<'_>],
    rows: &mut LentRows,
) -> Result<(), Error> {
    // The place of the key of each row.
    let mut places = Vec::with_capacity(keys.len());
    let mut waiting = Vec::new();
    let mut read = || {
        for (place, &key) in keys.iter().enumerate() {
            let mut operation = Operation::Get { table, key, fields: table.all() };
            let mut outcome = Outcome::default();
            let mut sink = |row: &[ValueRef<'_>]| {
                rows.push(row);
                places.push(place);
                ControlFlow::Continue(())
            };
            match store.submit(None, &mut operation, &mut sink, &mut outcome)? {
                Progress::Done => {}
                Progress::Pending(pending) => waiting.push(WaitingRead { place, pending, outcome }),
            }
        }
        let poll = |context: &mut Context<'_>| {
            let mut left = 0;
            while let Some(WaitingRead { place, pending, outcome }) = waiting.get_mut(left) {
                let place = *place;
                let mut operation = Operation::Get { table, key: keys[place], fields: table.all() };
                let mut sink = |row: &[ValueRef<'_>]| {
                    rows.push(row);
                    places.push(place);
                    ControlFlow::Continue(())
                };
                match store.poll(pending, &mut operation, &mut sink, outcome, context) {
                    Poll::Pending => left += 1,
                    Poll::Ready(done) => {
                        waiting.remove(left);
                        done?;
                    }
                }
            }
            if left == 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
        };
        block_on(poll_fn(poll))
    };
    let done = read();
    waiting.into_iter().for_each(|one| store.cancel(one.pending));
    rows.arrange(&places, keys.len());
    done
}
