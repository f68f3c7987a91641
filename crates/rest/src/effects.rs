//! Counts of a body's lines by their effect, as members of a response.

use marmota_store::operation::{OnConflict, UpsertEffect};

/// The number of rows by the effect of their insert.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effects {
    /// In the order of [`EFFECTS`].
    rows: [u64; EFFECTS.len()],
    /// True if all rows are new.
    only_new: bool,
}

const EFFECTS: [UpsertEffect; 4] =
    [UpsertEffect::Inserted, UpsertEffect::Replaced, UpsertEffect::Updated, UpsertEffect::Ignored];

impl Effects {
    pub(crate) fn new(on_conflict: OnConflict) -> Self {
        Self { rows: [0; EFFECTS.len()], only_new: on_conflict == OnConflict::Refuse }
    }

    pub(crate) fn add(&mut self, effect: UpsertEffect, rows: u64) {
        let place = EFFECTS.iter().position(|known| *known == effect);
        self.rows[place.unwrap_or_default()] += rows;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows == [0; EFFECTS.len()]
    }

    /// Appends the members: `"inserted":7` and, if rows may exist already, the others.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let shown = if self.only_new { 1 } else { EFFECTS.len() };
        for (index, effect) in EFFECTS[..shown].iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let member = format!("{comma}\"{}\":{}", effect.name(), self.rows[index]);
            out.extend_from_slice(member.as_bytes());
        }
    }
}
