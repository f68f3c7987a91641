//! The steps that undo what was written: by a write of many rows before one of them failed, or in a
//! transaction since a savepoint.

use mongodb::bson::{Bson, RawDocumentBuf};

/// The steps of a write of many rows, which are undone if a row fails.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    steps: Vec<UndoStep>,
}

/// The reverse of one change.
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

    pub(crate) fn into_steps(self) -> Vec<UndoStep> {
        self.steps
    }
}
