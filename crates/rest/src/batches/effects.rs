//! Counts of a body's lines by their effect, as members of a response.
//!
//! ```text
//! {"inserted":2}                                             without on_conflict
//! {"inserted":1,"replaced":0,"updated":3,"ignored":0}        with it
//! {"type":"urn:marmota:error:invalid",…,"line":2,"inserted":1,…}   an error after the first line
//! ```

use marmota_store::operation::{OnConflict, UpsertEffect};
use marmota_web::ApiError;

/// The number of rows by the effect of their insert.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effects {
    /// In the order of [`EFFECTS`].
    rows: [u64; EFFECTS.len()],
    /// True if all rows are new.
    only_new: bool,
}

/// The effects in the order of their counts in a response.
const EFFECTS: [UpsertEffect; 4] =
    [UpsertEffect::Inserted, UpsertEffect::Replaced, UpsertEffect::Updated, UpsertEffect::Ignored];

impl Effects {
    /// Creates counts of zero. With [`OnConflict::Refuse`], only `inserted` is reported, because
    /// every row that does not fail is new.
    pub(crate) fn new(on_conflict: OnConflict) -> Self {
        Self { rows: [0; EFFECTS.len()], only_new: on_conflict == OnConflict::Refuse }
    }

    /// Adds a number of rows with this effect.
    pub(crate) fn add(&mut self, effect: UpsertEffect, rows: u64) {
        let place = EFFECTS.iter().position(|known| *known == effect);
        self.rows[place.unwrap_or_default()] += rows;
    }

    /// Returns true if no row was counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == [0; EFFECTS.len()]
    }

    /// Returns the names of the effects with their numbers: `inserted` and, if rows may exist
    /// already, the others.
    fn members(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let shown = if self.only_new { 1 } else { EFFECTS.len() };
        EFFECTS[..shown].iter().zip(self.rows).map(|(effect, rows)| (effect.name(), rows))
    }

    /// Adds the numbers of the rows before an error to its document.
    pub(crate) fn add_to(&self, error: ApiError) -> ApiError {
        self.members().fold(error, |error, (name, rows)| error.with_member(name, rows))
    }

    /// Appends the members: `"inserted":7` and, if rows may exist already, the others.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for (index, (name, rows)) in self.members().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            out.extend_from_slice(format!("{comma}\"{name}\":{rows}").as_bytes());
        }
    }
}
