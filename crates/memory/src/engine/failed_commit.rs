//! Tests of what a session keeps after a commit that failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use marmota_model::{
    Error, ErrorKind, Field, Kind, NoRows, Result, Role, RowSource, Schema, Table, ValueRef,
};
use marmota_store::engine::{Engine as _, Session as _};
use marmota_store::log_copy::{CommitSink, LoggedCommit, LoggedDatabase};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::plan::Destructive;

use super::Memory;
use crate::session::MemorySession;

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

/// Notes with keys that the engine makes.
struct Notes(usize);

impl<'a> RowSource<'a> for Notes {
    fn remaining(&self) -> usize {
        self.0
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        row.copy_from_slice(&[ValueRef::Absent, ValueRef::Text("a note")]);
        let is_there = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        Ok(is_there)
    }
}

#[test]
fn a_write_whose_commit_fails_keeps_no_memory_for_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.mem");
    let engine = Memory::from_url(&format!("memory:{}?durability=none", path.display())).unwrap();
    let sink = Arc::new(Refusing::default());
    engine.copy_log(Arc::<Refusing>::clone(&sink)).unwrap();
    let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("text", Kind::TEXT)];
    let table = Arc::new(Table::new(Schema::new("note", fields)).unwrap());
    engine.migrate(&[Arc::clone(&table)], 1, &Destructive::default()).unwrap();
    let mut session = MemorySession::new(Arc::clone(&engine.shared));
    sink.0.store(true, Ordering::Relaxed);
    let mut notes = Notes(5_000);
    let mut insert = Operation::insert_many(&table, &mut notes);
    let failed = session.submit(None, &mut insert, &mut NoRows, &mut Outcome::default());
    assert_eq!(failed.err().map(|error| error.kind()), Some(ErrorKind::Busy));
    let capacity = session.log.capacity();
    assert!(capacity <= 1_024, "memory for {capacity} rows");
    assert_eq!(engine.shared.catalog.load().slots[0].rows.read().keys.len(), 0);
}
