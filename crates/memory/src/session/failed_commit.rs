//! Tests of what a session keeps after a commit that failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use marmota_model::{Error, ErrorKind, Field, Kind, NoRows, Result, Role, Schema, Table, ValueRef};
use marmota_store::engine::{Engine as _, Session as _, Submitted};
use marmota_store::log_copy::{CommitSink, LoggedCommit, LoggedDatabase};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::plan::Destructive;

use super::MemorySession;
use crate::engine::Memory;

/// A sink that refuses writes from a moment on.
#[derive(Debug, Default)]
struct Refusing(AtomicBool);

impl CommitSink for Refusing {
    fn attach(&self, _: Arc<dyn LoggedDatabase>) -> Result<()> {
        Ok(())
    }

    fn check(&self) -> Result<()> {
        match self.0.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Error::new(ErrorKind::Busy, "refused")),
        }
    }

    fn committed(&self, _: LoggedCommit) {}

    fn wait(&self) -> Result<()> {
        Ok(())
    }

    fn waits(&self) -> bool {
        false
    }

    fn before_checkpoint(&self) -> bool {
        true
    }

    fn before_close(&self) -> bool {
        true
    }

    fn closed(&self) {}
}

#[test]
fn a_delete_whose_commit_fails_keeps_no_memory_for_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.mem");
    let engine = Memory::from_url(&format!("memory:{}?durability=none", path.display())).unwrap();
    let sink = Arc::new(Refusing::default());
    engine.copy_log(Arc::<Refusing>::clone(&sink)).unwrap();
    let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("text", Kind::TEXT)];
    let table = Arc::new(Table::new(Schema::new("note", fields)).unwrap());
    let tables = [Arc::clone(&table)];
    engine.migrate(&tables, 1, &Destructive::default()).unwrap();
    let mut session = MemorySession::new(Arc::clone(&engine.shared));
    let mut run = |operation: &mut Operation<'_>| {
        let submitted = session.submit(None, operation, &mut NoRows, &mut Outcome::default());
        submitted.map(|submitted| assert!(matches!(submitted, Submitted::Done)))
    };
    for _ in 0..5_000 {
        run(&mut Operation::insert(&table, &[ValueRef::Absent, ValueRef::Text("a note")])).unwrap();
    }
    sink.0.store(true, Ordering::Relaxed);
    let failed = run(&mut Operation::DeleteWhere { table: &table, filter: None });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Busy);
    let capacity = session.log.capacity();
    assert!(capacity <= 1_024, "memory for {capacity} rows");
    let rows = engine.shared.catalog.load().slots[0].rows.read().keys.len();
    assert_eq!(rows, 5_000);
}
