//! References that are computed of other fields: to composite keys, and to rows of several tables.

mod any_reference;
mod composite_reference;
pub(super) mod made_texts;
pub(super) mod row_texts;
