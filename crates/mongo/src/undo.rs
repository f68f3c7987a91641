//! Undoes what a write of many rows did before one of them failed, if no transaction does that.

use marmota_model::Result;
use mongodb::bson::{Bson, RawDocumentBuf};

use crate::database::Database;
use crate::shape::Shape;
use crate::write::Writer;

/// The steps of a write of many rows, which are undone if a row fails.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    steps: Vec<UndoStep>,
}

#[derive(Debug)]
pub(crate) enum UndoStep {
    /// A document was inserted under this key.
    Inserted(Bson),
    /// This document was changed or deleted.
    Replaced(RawDocumentBuf),
}

impl Undo {
    pub(crate) fn inserted(&mut self, key: Bson) {
        self.steps.push(UndoStep::Inserted(key));
    }

    pub(crate) fn replaced(&mut self, document: RawDocumentBuf) {
        self.steps.push(UndoStep::Replaced(document));
    }

    /// Undoes all steps in reverse order. Does nothing if the whole transaction is rolled back.
    pub(crate) async fn undo(self, writer: &Writer, shape: &Shape) -> Result<()> {
        match writer.is_undone_whole() {
            true => Ok(()),
            false => undo(writer.database(), shape.name(), self.steps).await,
        }
    }
}

/// Undoes changes of a collection in reverse order.
pub(crate) async fn undo(
    database: &Database,
    collection: &str,
    mut steps: Vec<UndoStep>,
) -> Result<()> {
    while let Some(step) = steps.pop() {
        match step {
            UndoStep::Inserted(key) => {
                let mut keys = vec![key];
                while let Some(UndoStep::Inserted(_)) = steps.last() {
                    if let Some(UndoStep::Inserted(key)) = steps.pop() {
                        keys.push(key);
                    }
                }
                database.delete_keys(collection, &keys).await?;
            }
            UndoStep::Replaced(document) => database.put_back(collection, &document).await?,
        }
    }
    Ok(())
}
