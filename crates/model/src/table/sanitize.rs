//! Applies the sanitizers of a table to a row.

use std::borrow::Cow;

use super::prepared::Table;
use crate::{Scratch, ValueRef};

impl Table {
    /// Applies the sanitizers of the fields to the texts of a row. Changed texts are stored in
    /// `scratch`.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Sanitizer, Schema, Scratch, Table, ValueRef};
    /// let table = Table::new(Schema::new("person", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("name", Kind::TEXT).sanitizers(vec![Sanitizer::Trim, Sanitizer::Upper]),
    /// ]))?;
    /// let scratch = Scratch::new();
    /// let mut row = [ValueRef::Absent, ValueRef::Text(" Ada ")];
    /// table.sanitize(&mut row, &scratch);
    /// assert_eq!(row[1], ValueRef::Text("ADA"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[inline]
    pub fn sanitize<'a>(&self, row: &mut [ValueRef<'a>], scratch: &'a Scratch) {
        for &position in &self.sanitized {
            self.sanitize_field(position, row, scratch);
        }
    }

    /// Applies the sanitizers of one field.
    #[inline]
    pub(super) fn sanitize_field<'a>(
        &self,
        position: usize,
        row: &mut [ValueRef<'a>],
        scratch: &'a Scratch,
    ) {
        let ValueRef::Text(text) = row[position] else { return };
        let field = &self.fields()[position];
        let text =
            field.sanitizers.iter().fold(text, |text, sanitizer| match sanitizer.apply(text) {
                Cow::Borrowed(text) => text,
                Cow::Owned(changed) => scratch.text(&changed),
            });
        row[position] = ValueRef::Text(text);
    }
}
