//! References to tables with composite keys: fields whose value is the text of such a key, made of
//! other fields of their row.

use crate::table::prepared::Table;
use crate::{FieldSet, Value, ValueRef};

impl Table {
    /// Returns true for a field whose text is made of other fields, so that an engine need not store
    /// it: a composite key, and a reference to one.
    #[inline]
    #[must_use]
    pub fn is_made(&self, position: usize) -> bool {
        self.made.fields.contains(position)
    }

    /// Returns the fields for which [`Table::is_made`] is true.
    #[inline]
    #[must_use]
    pub const fn made_fields(&self) -> FieldSet {
        self.made.fields
    }

    /// Returns the fields that the text at `position` is made of; empty for other fields.
    ///
    /// ```
    /// # use marmota_model::{Field, KeyKind, Kind, Role, Schema, Table};
    /// let seat = Kind::Reference { table: "seat".into(), key: KeyKind::Text };
    /// let table = Table::new(Schema::new("ticket", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("room", Kind::TEXT),
    ///     Field::new("number", Kind::I64),
    ///     Field::new("seat", seat).computed("key(room, number)"),
    /// ]))?;
    /// assert_eq!(table.parts(3), [1, 2]);
    /// assert!(table.parts(1).is_empty() && !table.is_made(1));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn parts(&self, position: usize) -> &[usize] {
        if !self.is_made(position) {
            return &[];
        }
        let mut all = self.made.all.iter();
        all.find(|(field, _)| *field == position).map_or(&[], |(_, parts)| parts)
    }

    /// Returns the columns of a field in an engine that does not store texts that are made of
    /// others: the fields of such a text, or the field itself.
    #[must_use]
    pub fn columns_of(&self, position: usize) -> Vec<usize> {
        match self.parts(position) {
            [] => vec![position],
            parts => parts.to_vec(),
        }
    }

    /// Makes the texts of the references to composite keys in a row, for an engine that does not
    /// store them, and passes each with its position; `None` is NULL.
    pub fn each_made_reference(
        &self,
        row: &[ValueRef<'_>],
        mut take: impl FnMut(usize, Option<String>),
    ) {
        for (position, parts) in self.made.all.iter().filter(|(at, _)| *at != self.key()) {
            take(*position, crate::table::composite_key::text_of(row, parts));
        }
    }

    /// Returns the fields that become NULL together with a reference, when the row that it refers to
    /// is deleted ([`OnDelete::SetNull`](crate::OnDelete::SetNull)): the reference, and the fields that it is computed of, with
    /// the other references that are computed of these.
    #[must_use]
    pub fn nulled_with(&self, reference: usize) -> FieldSet {
        let only = self.nulled_with_text(reference);
        if !self.is_made(reference) {
            return only;
        }
        let parts = self.parts(reference);
        let shared = self.made.all.iter().filter(|(_, of)| of.iter().any(|at| parts.contains(at)));
        shared.map(|(at, _)| at).chain(parts).fold(only, |all, &at| all.with(at))
    }

    /// Returns why a reference does not fit the key of the table that it refers to, with the way out.
    #[must_use]
    pub fn misfit_of_reference(&self, reference: usize, target: &Self) -> Option<String> {
        let parts = self.parts(reference);
        let keys = target.key_fields();
        let names = || {
            let names: Vec<&str> = keys.iter().map(|&at| &*target.fields()[at].name).collect();
            names.join(", ")
        };
        if self.text_of_reference(reference).is_some() && !keys.is_empty() {
            let why = "whose key consists of several fields, and `key_in` takes keys of one field";
            return Some(why.to_owned());
        }
        if parts.is_empty() && !keys.is_empty() {
            return Some(format!(
                "whose key consists of {}: compute the reference of the fields with these values, \
                 such as `computed = \"key({})\"`",
                names(),
                names()
            ));
        }
        let form = |table: &Self, at: usize| table.fields()[at].kind.form();
        let is_fit = parts.len() == keys.len()
            && parts.iter().zip(keys).all(|(&at, &key)| form(self, at) == form(target, key));
        match (parts.is_empty(), is_fit) {
            (false, _) if keys.is_empty() => Some(
                "whose key is one field: a reference to it is a field of its own, and not computed"
                    .to_owned(),
            ),
            (false, false) => Some(format!(
                "whose key consists of {}: compute the reference of as many fields, with the same \
                 kinds in the same order",
                names()
            )),
            _ => None,
        }
    }

    /// Returns the values of the fields of a text that is made of them, for conditions of engines
    /// that do not store it; empty for other fields. For a text that no row can have, all are NULL.
    #[must_use]
    pub fn part_values(&self, position: usize, text: ValueRef<'_>) -> Vec<Value> {
        let parts = self.parts(position);
        let values = match text {
            ValueRef::Text(text) if !parts.is_empty() => self.parsed_text(parts, text),
            _ => None,
        };
        values.unwrap_or_else(|| vec![Value::Null; parts.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, KeyKind, Kind, OnDelete, Role, Rule, Schema};

    fn ticket(change: impl FnOnce(&mut Vec<Field>)) -> crate::Result<Table> {
        let seat = Kind::Reference { table: "seat".into(), key: KeyKind::Text };
        let mut fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("room", Kind::TEXT).nullable(true),
            Field::new("number", Kind::I64).nullable(true),
            Field::new("seat", seat).nullable(true).computed("key(room, number)"),
        ];
        change(&mut fields);
        Table::new(Schema::new("ticket", fields))
    }

    #[test]
    fn a_reference_that_cannot_be_checked_is_refused() {
        let set_null = OnDelete::SetNull;
        assert!(ticket(|fields| fields[3].on_delete = set_null).is_ok());
        type Change = fn(&mut Vec<Field>);
        let cases: [(Change, &str); 8] = [
            (|all| all[3].computed = Some("room".into()), "only by `key(a, b)`"),
            (|all| all[3].computed = Some("key(room)".into()), "two or more fields"),
            (|all| all[3].computed = Some("key(room, room)".into()), "twice"),
            (|all| all[2].kind = Kind::Float, "two or more fields that are"),
            (|all| all[3].nullable = false, "if, and only if"),
            (|all| all[3].unique = true, "neither rules nor"),
            (|all| all[3].rules = vec![Rule::NotEmpty].into(), "neither rules nor"),
            (
                |all| {
                    all[2].nullable = false;
                    all[3].on_delete = OnDelete::SetNull;
                },
                "changes all fields",
            ),
        ];
        for (change, part) in cases {
            let error = ticket(change).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn null_reaches_all_references_of_a_field() {
        let table = ticket(|fields| {
            let mut other = fields[3].clone();
            other.name = "other".into();
            fields.push(other);
        });
        let table = table.unwrap();
        assert_eq!(table.nulled_with(3), (1..5).fold(FieldSet::EMPTY, FieldSet::with));
        assert_eq!(table.nulled_with(1), FieldSet::EMPTY.with(1));
        let number = ValueRef::Int(2);
        let row = [number, ValueRef::Null, number, ValueRef::Absent, ValueRef::Absent];
        let mut made = Vec::new();
        table.each_made_reference(&row, |at, text| made.push((at, text)));
        assert_eq!(made, [(3, None), (4, None)]);
    }
}
