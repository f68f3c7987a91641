//! Undoing what a write of many rows has done before one of them failed.

use marmota_model::Result;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use crate::shape::Shape;
use crate::write::Writer;

/// What a write of many rows has done, to be undone if one fails.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    steps: Vec<UndoStep>,
}

#[derive(Debug)]
enum UndoStep {
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

    /// Undoes all, the last first.
    pub(crate) async fn undo(mut self, writer: &Writer, shape: &Shape) -> Result<()> {
        let database = writer.database();
        while let Some(step) = self.steps.pop() {
            match step {
                UndoStep::Inserted(key) => {
                    let mut keys = vec![key];
                    while let Some(UndoStep::Inserted(_)) = self.steps.last() {
                        if let Some(UndoStep::Inserted(key)) = self.steps.pop() {
                            keys.push(key);
                        }
                    }
                    database.delete_keys(shape.name(), &keys).await?;
                }
                UndoStep::Replaced(document) => {
                    let id = document.get("_id").ok().flatten().map(Bson::try_from);
                    let (Some(Ok(id)), Ok(document)) = (id, Document::try_from(&document)) else {
                        continue;
                    };
                    let put = doc! { "q": { "_id": id }, "u": document, "upsert": true };
                    database.update(shape, vec![put]).await?.checked()?;
                }
            }
        }
        Ok(())
    }
}
