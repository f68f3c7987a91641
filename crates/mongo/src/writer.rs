//! Executing writes: the state of a write, its turn, and the rows that it reads.

pub(crate) mod insert_each;
mod keys;
mod lookup;
pub(crate) mod work;
mod write;
mod write_many;

use std::sync::Arc;

use marmota_model::{Result, Value, ValueRef};
use marmota_store::Durability;
use marmota_store::wait::TurnGuard;
use mongodb::bson::RawDocumentBuf;

use crate::database::transaction::Transaction;
use crate::database::undo_steps::Undo;
use crate::database::{Database, Find};
use crate::shape::{Lender, Shape};
use crate::shared::Shared;

/// The state of a write.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: u64,
    /// The database with the write's own durability or its transaction, if it has one.
    database: Option<Database>,
    /// True if the whole transaction is rolled back after any failure.
    is_fully_undone: bool,
}

pub(crate) fn borrowed(row: &[Value]) -> Vec<ValueRef<'_>> {
    row.iter().map(Value::as_ref).collect()
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, number: u64, durability: Option<Durability>) -> Self {
        let database = durability.map(|durability| shared.database.asking_for(durability));
        Self { shared, number, database, is_fully_undone: false }
    }

    /// Returns a writer in a transaction. `is_whole` is true if the transaction has only this
    /// write.
    pub(crate) fn inside(
        shared: Arc<Shared>,
        number: u64,
        transaction: &Arc<Transaction>,
        is_whole: bool,
    ) -> Self {
        let database = Some(shared.database.inside(transaction));
        Self { shared, number, database, is_fully_undone: is_whole }
    }

    /// Returns true in a transaction: then everything that the server would refuse is looked up
    /// first.
    pub(crate) fn reads_before_write(&self) -> bool {
        self.database().transaction().is_some()
    }

    /// Returns the database in which automatic keys are counted: outside of the transaction, so
    /// that other inserts do not conflict with it.
    fn key_database(&self) -> &Database {
        if self.reads_before_write() { &self.shared.database } else { self.database() }
    }

    pub(crate) fn database(&self) -> &Database {
        self.database.as_ref().unwrap_or(&self.shared.database)
    }

    /// Waits until the write may start; one of several steps runs alone. In a transaction it does
    /// not wait.
    pub(crate) async fn turn(&self, in_steps: bool) -> Option<TurnGuard> {
        if self.reads_before_write() {
            return None;
        }
        self.shared.turns.wait(self.number, in_steps || self.shared.database.is_ferret).await
    }

    /// Returns one value of a row, or `None` if the row does not exist.
    async fn value(&self, shape: &Shape, key: ValueRef<'_>, at: usize) -> Result<Option<Value>> {
        Ok(self.row(shape, key).await?.map(|mut row| row.swap_remove(at)))
    }

    /// Returns the values of a row.
    pub(crate) async fn row(&self, shape: &Shape, key: ValueRef<'_>) -> Result<Option<Vec<Value>>> {
        let find = Find {
            collection: shape.name().to_owned(),
            filter: shape.by_key(key),
            limit: Some(1),
            ..Find::default()
        };
        match self.database().fetch(&find).await?.first() {
            Some(document) => self.values(shape, document).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn values(&self, shape: &Shape, document: &RawDocumentBuf) -> Result<Vec<Value>> {
        let shape = self.shared.shape(&shape.table)?;
        let mut lender = Lender::new(&shape, shape.table.all());
        lender.lend(document, |row| row.iter().map(ValueRef::to_value).collect())
    }

    async fn has(&self, shape: &Shape, key: ValueRef<'_>) -> Result<bool> {
        self.database().has(shape.name(), shape.by_key(key)).await
    }

    /// Undoes all steps in reverse order. Does nothing if the whole transaction is rolled back.
    async fn undo(&self, undo: Undo, shape: &Shape) -> Result<()> {
        match self.is_fully_undone {
            true => Ok(()),
            false => self.database().undo(shape.name(), undo.into_steps()).await,
        }
    }
}
