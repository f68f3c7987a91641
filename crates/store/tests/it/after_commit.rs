//! What a transaction does once it is committed, and only then.

use std::sync::{Arc, Mutex};

use marmota_memory::Memory;
use marmota_model::{Error, ErrorKind, Field, Kind, Record, Role, Schema};
use marmota_store::{Store, Transaction};

/// The hooks that ran, in their order.
#[derive(Clone, Default)]
struct Ran(Arc<Mutex<Vec<&'static str>>>);

impl Ran {
    fn add_to(&self, tx: &Transaction, name: &'static str) {
        let ran = Arc::clone(&self.0);
        tx.after_commit(move || ran.lock().unwrap().push(name));
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn open() -> Store {
    let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    Store::builder(Memory::new()).schema(city).open().unwrap()
}

#[test]
fn hooks_run_in_order_once_the_commit_has_succeeded() {
    let (store, ran) = (open(), Ran::default());
    let city = store.table("city").unwrap();
    store
        .transaction(|tx| {
            tx.insert_record(&Record::new(Arc::clone(&city))).run()?;
            // A hook may read what was committed.
            let (store, city, seen) = (store.clone(), Arc::clone(&city), ran.clone());
            tx.after_commit(move || {
                if store.list_records(&city).run().unwrap().len() == 1 {
                    seen.0.lock().unwrap().push("first");
                }
            });
            ran.add_to(tx, "second");
            assert!(ran.take().is_empty());
            Ok(())
        })
        .unwrap();
    assert_eq!(ran.take(), ["first", "second"]);
}

#[test]
fn hooks_of_what_was_undone_do_not_run() {
    let (store, ran) = (open(), Ran::default());
    let failed: Result<(), Error> = store.transaction(|tx| {
        ran.add_to(tx, "failed");
        Err(Error::new(ErrorKind::Invalid, "no"))
    });
    failed.unwrap_err();
    let tx = store.begin_run().unwrap();
    ran.add_to(&tx, "rolled back");
    tx.rollback().run().unwrap();
    let tx = store.begin_run().unwrap();
    ran.add_to(&tx, "dropped");
    drop(tx);
    assert!(ran.take().is_empty());

    let mut tx = store.begin_run().unwrap();
    ran.add_to(&tx, "before");
    let savepoint = tx.savepoint_run().unwrap();
    ran.add_to(&tx, "undone");
    tx.rollback_to(&savepoint).run().unwrap();
    ran.add_to(&tx, "after");
    tx.release(savepoint).run().unwrap();
    tx.commit().run().unwrap();
    assert_eq!(ran.take(), ["before", "after"]);
}

#[test]
fn only_hooks_of_the_run_that_was_committed_run() {
    let (store, ran) = (open(), Ran::default());
    let mut runs = 0;
    store
        .transaction(|tx| {
            runs += 1;
            ran.add_to(tx, if runs == 1 { "lost" } else { "committed" });
            match runs {
                1 => Err(Error::new(ErrorKind::Conflict, "lost to another one").retryable()),
                _ => Ok(()),
            }
        })
        .unwrap();
    assert_eq!(ran.take(), ["committed"]);
}
