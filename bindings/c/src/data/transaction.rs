//! Transactions.

use std::mem::MaybeUninit;
use std::sync::Arc;

use marmota::store::{Store, Transaction};

use crate::foreign::{entry, required};
use crate::handles::{self, MarmotaHandle, Object, Owned};
use crate::status::Failure;

/// A transaction, which belongs to its thread.
pub(crate) struct TransactionObject(pub(crate) Owned<Transaction>);

impl Object for TransactionObject {
    const KIND: u8 = 2;
    const NAME: &'static str = "transaction";
}

/// Begins a transaction. Its handle takes the place of the store's in functions on rows, batches and
/// SQL.
///
/// Ownership: end it with `marmota_transaction_commit`, `_rollback` or `_free`.
/// Threads: the transaction belongs to the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_transaction_begin(
    store: MarmotaHandle,
    transaction: Option<&mut MaybeUninit<MarmotaHandle>>,
) -> i32 {
    entry(|| {
        let transaction = required(transaction, "transaction")?;
        let begun = handles::find::<Store>(store)?.begin_run()?;
        transaction.write(handles::add(TransactionObject(Owned::new(begun)))?);
        Ok(())
    })
}

/// Commits a transaction and frees its handle, also if the commit fails: then nothing was written.
///
/// Threads: the transaction's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_transaction_commit(transaction: MarmotaHandle) -> i32 {
    entry(|| Ok(end(transaction)?.0.lock()?.commit().run()?))
}

/// Rolls back a transaction and frees its handle.
///
/// Threads: the transaction's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_transaction_rollback(transaction: MarmotaHandle) -> i32 {
    entry(|| Ok(end(transaction)?.0.lock()?.rollback().run()?))
}

/// Frees a transaction, which is rolled back.
///
/// Threads: any thread, when no call uses the transaction.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_transaction_free(transaction: MarmotaHandle) -> i32 {
    entry(|| handles::remove::<TransactionObject>(transaction).map(drop))
}

/// Removes the handle, if this is its thread and no call uses it.
fn end(transaction: MarmotaHandle) -> Result<Arc<TransactionObject>, Failure> {
    drop(handles::find::<TransactionObject>(transaction)?.0.lock()?);
    handles::remove(transaction)
}
