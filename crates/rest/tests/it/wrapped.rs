//! An engine as it is, but for what stands before its sessions.

use std::sync::Arc;

use marmota_model::{Result, Table};
use marmota_store::engine::{Capability, Engine, Session};
use marmota_store::plan::{Destructive, Plan};

type Wrap = dyn Fn(Box<dyn Session>) -> Box<dyn Session> + Send + Sync;

pub(crate) struct Wrapped<E> {
    engine: E,
    wrap: Box<Wrap>,
}

impl<E> Wrapped<E> {
    pub(crate) fn new(
        engine: E,
        wrap: impl Fn(Box<dyn Session>) -> Box<dyn Session> + Send + Sync + 'static,
    ) -> Self {
        Self { engine, wrap: Box::new(wrap) }
    }
}

impl<E: Engine> Engine for Wrapped<E> {
    fn capability(&self) -> &Capability {
        self.engine.capability()
    }

    fn plan(&self, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
        self.engine.plan(tables, version)
    }

    fn migrate(
        &self,
        tables: &[Arc<Table>],
        version: u32,
        destructive: &Destructive,
    ) -> Result<Plan> {
        self.engine.migrate(tables, version, destructive)
    }

    fn open_table(&self, table: &Arc<Table>) -> Result<bool> {
        self.engine.open_table(table)
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        Ok((self.wrap)(self.engine.session()?))
    }

    fn close(&self) -> Result<()> {
        self.engine.close()
    }
}
