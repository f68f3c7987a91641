//! An insert that was just added to a batch: what more can be said of it.

use std::ops::{Deref, DerefMut};

use marmota_model::FieldSet;

use super::Batch;
use crate::operation::{OnConflict, Write};

/// An insert that was just added to a [`Batch`]; used as the batch, it goes on
/// with the next write.
pub struct Added<'b, 's> {
    batch: &'b mut Batch<'s>,
    /// The fields that the caller gave.
    given: FieldSet,
}

impl<'b, 's> Added<'b, 's> {
    pub(super) const fn new(batch: &'b mut Batch<'s>, given: FieldSet) -> Self {
        Self { batch, given }
    }

    /// Leaves a row that is there as it is: [`OnConflict::Ignore`].
    pub fn or_ignore(self) -> Self {
        self.over(OnConflict::Ignore)
    }

    /// Puts the row in the place of those in its way: [`OnConflict::Replace`].
    pub fn or_replace(self) -> Self {
        self.over(OnConflict::Replace)
    }

    /// Writes the row over the one that is there: [`OnConflict::Update`].
    pub fn or_update(self) -> Self {
        self.over(OnConflict::UPDATE)
    }

    fn over(self, way: OnConflict) -> Self {
        // A batch that has refused a write is not carried out.
        if self.batch.refused.is_none()
            && let Some(Write::Insert { table, on_conflict, .. }) = self.batch.writes.last_mut()
        {
            *on_conflict = way.with_given(table, self.given);
        }
        self
    }
}

impl<'s> Deref for Added<'_, 's> {
    type Target = Batch<'s>;

    fn deref(&self) -> &Batch<'s> {
        self.batch
    }
}

impl<'s> DerefMut for Added<'_, 's> {
    fn deref_mut(&mut self) -> &mut Batch<'s> {
        self.batch
    }
}
