//! Handles to a store and to its transactions.

use std::ops::ControlFlow;

use marmota_memory::Memory;
use marmota_model::{
    Error, ErrorKind, Field, Kind, Record, Result, Role, RowQuery, Schema, ValueRef,
};
use marmota_store::operation::Operation;
use marmota_store::{History, Store};

fn open() -> Store {
    let mut city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    city.audit = true;
    Store::builder(Memory::new()).schema(city).open().unwrap()
}

/// A function of a program that works on a store and in a transaction.
fn insert(store: &Store) -> Result<()> {
    store.insert_record(&Record::new(store.table("city")?)).run().map(drop)
}

fn count(store: &Store) -> usize {
    store.list_records(&store.table("city").unwrap()).run().unwrap().len()
}

fn kind<T>(result: Result<T>) -> ErrorKind {
    result.map(drop).unwrap_err().kind()
}

#[test]
fn a_function_on_a_store_works_in_a_transaction() {
    let store = open();
    insert(&store).unwrap();
    let tx = store.begin_run().unwrap();
    insert(&tx).unwrap();
    assert_eq!(count(&tx), 2);
    tx.rollback().run().unwrap();
    assert_eq!(count(&store), 1);
    let failed: Result<()> = store.transaction(|tx| {
        insert(tx)?;
        Err(Error::new(ErrorKind::Invalid, "no"))
    });
    failed.unwrap_err();
    assert_eq!(count(&store), 1);
}

#[test]
fn handles_of_a_transaction_run_in_it_and_end_with_it() {
    let store = open();
    let tx = store.begin_run().unwrap();
    let (clone, ann) = (Store::clone(&tx), tx.with_actor("ann"));
    insert(&clone).unwrap();
    insert(&ann).unwrap();
    assert_eq!(count(&tx), 2);
    tx.commit().run().unwrap();
    assert_eq!(kind(insert(&clone)), ErrorKind::Invalid);
    assert_eq!(count(&store), 2);
    let actors = store.list::<History>().run().unwrap().into_iter().map(|entry| entry.actor);
    assert_eq!(actors.collect::<Vec<_>>(), [None, Some("ann".to_owned())]);

    let tx = store.begin_run().unwrap();
    let clone = Store::clone(&tx);
    insert(&clone).unwrap();
    drop(tx);
    assert_eq!(kind(insert(&clone)), ErrorKind::Invalid);
    assert_eq!(count(&store), 2, "a dropped transaction is rolled back, although a handle is left");
    // It has released its locks too.
    insert(&store).unwrap();
    drop(clone);
    store.close().unwrap();
}

#[test]
fn a_transaction_that_is_dropped_within_its_row_callback_ends_with_its_last_handle() {
    let store = open();
    let tx = store.begin_run().unwrap();
    insert(&tx).unwrap();
    let (handle, mut tx) = (Store::clone(&tx), Some(tx));
    let (city, query) = (store.table("city").unwrap(), RowQuery::new());
    let mut list = Operation::List { table: &city, query: &query };
    let mut sink = |_: &[ValueRef<'_>]| {
        tx = None;
        ControlFlow::Continue(())
    };
    handle.run(&mut list, &mut sink).unwrap();
    assert_eq!(kind(insert(&handle)), ErrorKind::Invalid);
    drop(handle);
    assert_eq!(count(&store), 0);
    insert(&store).unwrap();
}

#[test]
fn transactions_and_background_batches_do_not_begin_in_a_transaction() {
    let store = open();
    let mut tx = store.begin_run().unwrap();
    assert_eq!(kind(tx.begin_run()), ErrorKind::Invalid);
    assert_eq!(kind(tx.transaction(|_| Ok(()))), ErrorKind::Invalid);
    assert_eq!(kind(tx.background_batch().start()), ErrorKind::Invalid);
    let savepoint = tx.savepoint_run().unwrap();
    insert(&tx).unwrap();
    tx.rollback_to(&savepoint).run().unwrap();
    tx.commit().run().unwrap();
    assert_eq!(count(&store), 0);
}
