//! No call blocks an event loop: on every engine, over every transport. And that the promise is
//! broken by an engine that blocks, over each of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::sleep;
use std::time::Duration;

use marmota_memory::Memory;
use marmota_model::{Result, RowSink, Table};
use marmota_mongo::Mongo;
use marmota_postgres::Postgres;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::engine::{Capability, Engine, Session, Submitted, Ticket};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::plan::{Destructive, Plan};
use marmota_store::{Durability, Store, StoreBuilder};
use marmota_testkit::conformance::event_loop::no_call_blocks_the_thread;
use marmota_testkit::conformance::{AddModels, Subject};

use crate::hosted::{self, TRANSPORTS};
use crate::{mongo_url, postgres_url, relaxed};

/// Holds an engine to the promise over each transport.
fn over_every_transport<E: Engine + 'static>(
    open: impl Fn() -> E + Send + Sync + 'static,
    also: AddModels,
) {
    let open = Arc::new(open);
    for (name, reach) in TRANSPORTS {
        let open = Arc::clone(&open);
        let subject = hosted::with_accounts(name, reach, move || Box::new(open()), also);
        no_call_blocks_the_thread(&subject);
    }
}

fn alone(builder: StoreBuilder) -> StoreBuilder {
    builder
}

fn next_to_memory(builder: StoreBuilder) -> StoreBuilder {
    builder.database("live", Memory::new(), |live| live)
}

/// A new file of a folder, each time.
fn new_file(folder: &Path, options: SqliteOptions) -> Sqlite {
    let file = tempfile::tempdir_in(folder).unwrap().keep().join("database");
    Sqlite::open(Location::File(file), options).unwrap()
}

#[test]
fn rows_in_memory_read_by_sql_block_no_thread() {
    let folder = tempfile::tempdir().unwrap();
    let open = move || Store::builder(new_file(folder.path(), relaxed()));
    no_call_blocks_the_thread(&Subject::new("memory by SQL", open).with_rows_in_memory());
}

#[test]
fn memory_blocks_no_server() {
    over_every_transport(Memory::new, alone);
}

#[test]
fn sqlite_in_a_file_blocks_no_server() {
    let folder = tempfile::tempdir().unwrap();
    over_every_transport(move || new_file(folder.path(), SqliteOptions::default()), alone);
}

#[test]
fn sqlite_in_memory_blocks_no_server() {
    over_every_transport(|| Sqlite::from_url("sqlite::memory:").unwrap(), alone);
}

#[test]
fn postgres_blocks_no_server() {
    over_every_transport(|| Postgres::from_url(&postgres_url()).unwrap(), alone);
}

#[test]
fn mongo_blocks_no_server() {
    over_every_transport(|| Mongo::from_url(&mongo_url()).unwrap(), alone);
}

#[test]
fn several_databases_block_no_server() {
    let folder = tempfile::tempdir().unwrap();
    over_every_transport(move || new_file(folder.path(), relaxed()), next_to_memory);
}

/// An engine that blocks its thread in each update.
struct Blocking(Memory);

struct BlockingSession(Box<dyn Session>);

impl Engine for Blocking {
    fn capability(&self) -> &Capability {
        self.0.capability()
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        self.0.plan(tables, version)
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        self.0.migrate(tables, version, destructive)
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        self.0.open_table(table)
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(BlockingSession(self.0.session()?)))
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

impl Session for BlockingSession {
    fn submit(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        if matches!(operation, Operation::Update { .. }) {
            sleep(Duration::from_millis(100));
        }
        self.0.submit(durability, operation, sink, outcome)
    }

    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        self.0.poll(ticket, operation, sink, outcome, context)
    }

    fn cancel(&mut self, ticket: Ticket) {
        self.0.cancel(ticket);
    }
}

#[test]
fn an_engine_that_blocks_is_found_out_over_every_transport() {
    let blocking = || Blocking(Memory::new());
    let mut subjects = vec![Subject::new("directly", move || Store::builder(blocking()))];
    subjects.extend(TRANSPORTS.map(|(name, reach)| {
        hosted::with_accounts(name, reach, move || Box::new(blocking()), alone)
    }));
    for subject in subjects {
        let promise = || no_call_blocks_the_thread(&subject);
        let broken = catch_unwind(AssertUnwindSafe(promise));
        let message = broken.expect_err(subject.name()).downcast::<String>().unwrap();
        assert!(message.contains("at best"), "{message}");
    }
}
