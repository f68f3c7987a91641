//! References to rows of several tables: a text field with values such as `issue/17`, and one computed
//! reference for each table, whose expression is `key_in(text)`.

use crate::schema::row_name;
use crate::table::prepared::Table;
use crate::{Field, FieldSet, OnDelete, Value, ValueRef};

impl Table {
    /// Returns the text field of which a reference is computed by `key_in`; `None` for other fields.
    ///
    /// ```
    /// # use marmota_model::{Field, KeyKind, Kind, Role, Schema, Table};
    /// let to = |table: &'static str| Kind::Reference { table: table.into(), key: KeyKind::Auto };
    /// let table = Table::new(Schema::new("comment", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("subject", Kind::TEXT),
    ///     Field::new("issue", to("issue")).nullable(true).computed("key_in(subject)"),
    ///     Field::new("project", to("project")).nullable(true).computed("key_in(subject)"),
    /// ]))?;
    /// assert_eq!(table.text_of_reference(3), Some(1));
    /// assert_eq!(table.text_of_reference(1), None);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn text_of_reference(&self, reference: usize) -> Option<usize> {
        self.row_texts.text_of(reference)
    }

    /// Returns the references that are computed of a text field by `key_in`.
    pub fn references_of_text(&self, text: usize) -> impl Iterator<Item = &Field> {
        self.row_texts.of_text(text).iter().map(|&reference| &self.fields()[reference])
    }

    /// Returns the fields that are written so that a reference refers to a row: those of which it is
    /// computed, or the field itself.
    #[must_use]
    pub fn reference_fields(&self, reference: usize) -> Vec<usize> {
        match self.text_of_reference(reference) {
            Some(text) => vec![text],
            None => self.columns_of(reference),
        }
    }

    /// Returns the values of [`Table::reference_fields`] for a reference to the row with a key. For a
    /// key that no row can have, all are NULL.
    ///
    /// ```
    /// # use marmota_model::{Field, KeyKind, Kind, Role, Schema, Table, Value, ValueRef};
    /// # let to = |table: &'static str| Kind::Reference { table: table.into(), key: KeyKind::Auto };
    /// # let table = Table::new(Schema::new("comment", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("subject", Kind::TEXT),
    /// #     Field::new("issue", to("issue")).nullable(true).computed("key_in(subject)"),
    /// #     Field::new("author", to("person"))]))?;
    /// assert_eq!(table.reference_values(2, ValueRef::Int(17)), [Value::Text("issue/17".into())]);
    /// assert_eq!(table.reference_values(3, ValueRef::Int(17)), [Value::Int(17)]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn reference_values(&self, reference: usize, key: ValueRef<'_>) -> Vec<Value> {
        if self.text_of_reference(reference).is_some() {
            return vec![Value::Text(row_name::of(&self.fields()[reference], key))];
        }
        match self.is_made(reference) {
            true => self.part_values(reference, key),
            false => vec![key.to_value()],
        }
    }

    /// Returns the action of a reference that the database executes itself. The store executes the
    /// actions of all; a database cannot set the text of `key_in` to NULL, and refuses the delete of a
    /// row that a text still names.
    #[must_use]
    pub fn action_of_database(&self, reference: usize) -> OnDelete {
        match self.fields()[reference].on_delete {
            OnDelete::SetNull if self.text_of_reference(reference).is_some() => OnDelete::Restrict,
            action => action,
        }
    }

    /// Returns the fields that become NULL together with a reference of `key_in`.
    pub(crate) fn nulled_with_text(&self, reference: usize) -> FieldSet {
        let only = FieldSet::EMPTY.with(reference);
        self.text_of_reference(reference).map_or(only, |text| only.with(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyKind, Kind, Role, Schema};

    fn comment(change: impl FnOnce(&mut Vec<Field>)) -> crate::Result<Table> {
        let to = |table: &'static str, key| Kind::Reference { table: table.into(), key };
        let mut fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("subject", Kind::TEXT).nullable(true),
            Field::new("issue", to("issue", KeyKind::Auto)).nullable(true),
            Field::new("page", to("page", KeyKind::Text)).nullable(true),
            Field::new("device", to("device", KeyKind::Uuid)).nullable(true),
        ];
        for field in &mut fields[2..] {
            field.computed = Some("key_in(subject)".into());
        }
        change(&mut fields);
        Table::new(Schema::new("comment", fields))
    }

    #[test]
    fn a_text_names_a_row_of_one_of_the_tables() {
        let table = comment(|_| {}).unwrap();
        let uuid = "018f2f3e-7c1e-7cc8-b8a1-7a7b4f0d2a55";
        let check = |text: &str| {
            let mut row = vec![ValueRef::Absent; 5];
            row[1] = ValueRef::Text(text);
            table.validate(&row)
        };
        for text in ["issue/1", "page/a/b", "page/a,b%2C", &format!("device/{uuid}")] {
            check(text).unwrap();
        }
        let upper = format!("device/{}", uuid.to_uppercase());
        for (text, part) in [
            ("", "as `issue/KEY` or `page/KEY` or `device/KEY`"),
            ("issue", "must name a row"),
            ("person/1", "must name a row"),
            ("Issue/1", "must name a row"),
            ("/issue/1", "must name a row"),
            ("issue/", "no row of `issue`"),
            ("issue/017", "no row of `issue`"),
            ("issue/+1", "no row of `issue`"),
            ("issue/1/2", "no row of `issue`"),
            ("issue/99999999999999999999", "no row of `issue`"),
            ("page/", "no row of `page`"),
            (&*upper, "no row of `device`"),
        ] {
            let error = check(text).unwrap_err();
            let broken = &error.violations()[0];
            assert_eq!((&*broken.field, &*broken.rule), ("subject", "reference"), "{text}");
            assert!(broken.message.contains(part), "{text}: {}", broken.message);
        }
    }

    #[test]
    fn a_reference_that_cannot_be_computed_is_refused() {
        type Change = fn(&mut Vec<Field>);
        let cases: [(Change, &str); 9] = [
            (|all| all[2].nullable = false, "make it optional"),
            (|all| all[2].computed = Some("key_in(id)".into()), "the key, which"),
            (|all| all[2].computed = Some("key_in()".into()), "takes a text field"),
            (|all| all[2].computed = Some("key_in('a')".into()), "takes a text field"),
            (|all| all[1].computed = Some("'issue/1'".into()), "not computed"),
            (|all| all[3].kind = all[2].kind.clone(), "another reference of the same text"),
            (|all| all[3].kind = Kind::TEXT, "which only references have"),
            (
                |all| {
                    all[1].nullable = false;
                    all[2].on_delete = OnDelete::SetNull;
                },
                "also changes the text",
            ),
            (|all| all[2].rules = vec![crate::Rule::NotEmpty].into(), "has no rules"),
        ];
        for (change, part) in cases {
            let error = comment(change).unwrap_err();
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn the_text_becomes_null_with_its_reference() {
        let table = comment(|fields| fields[2].on_delete = OnDelete::SetNull).unwrap();
        assert_eq!(table.nulled_with(2), FieldSet::EMPTY.with(1).with(2));
        assert_eq!(table.action_of_database(2), OnDelete::Restrict);
        assert_eq!(table.action_of_database(3), OnDelete::Restrict);
    }
}
