//! Composite keys: the text that names a row, made of the values of the key's fields.

use super::prepared::Table;
use super::reference::made_texts::has_form_of_part;
use crate::schema::text;
use crate::value::key_text::decoded;
use crate::{Field, KeyKind, Kind, Role, Schema, Value, ValueRef, key_text};

impl Table {
    /// Returns the fields that the key consists of ([`Schema::composite_key`]); empty if the key is a
    /// field like others.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Schema, Table};
    /// let fields = vec![Field::new("room", Kind::TEXT), Field::new("number", Kind::I64)];
    /// let table = Table::new(Schema::new("seat", fields).composite_key("key", vec![0, 1]))?;
    /// assert_eq!((table.key(), table.key_fields()), (2, &[0, 1][..]));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn key_fields(&self) -> &[usize] {
        &self.schema.key_fields
    }

    /// Returns true if the key consists of several fields: its text is a value of each row, but an
    /// engine need not store it.
    #[inline]
    #[must_use]
    pub fn has_composite_key(&self) -> bool {
        !self.schema.key_fields.is_empty()
    }

    /// Returns true if the store makes the keys of new rows: UUIDs, and the texts of composite keys.
    #[must_use]
    pub fn makes_keys(&self) -> bool {
        self.key_kind() == KeyKind::Uuid || self.has_composite_key()
    }

    /// Returns the fields by which rows are ordered if nothing else orders them: the key, or the
    /// fields that it consists of.
    #[must_use]
    pub fn key_order(&self) -> &[usize] {
        self.schema.key_order()
    }

    /// Returns the text of a row's composite key; `None` if the key is one field, or the
    /// row lacks a value of it.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Schema, Table, ValueRef};
    /// let fields = vec![Field::new("room", Kind::TEXT), Field::new("number", Kind::I64)];
    /// let table = Table::new(Schema::new("seat", fields).composite_key("key", vec![0, 1]))?;
    /// let row = [ValueRef::Text("B"), ValueRef::Int(7), ValueRef::Absent];
    /// assert_eq!(table.key_text_of(&row).as_deref(), Some("B,7"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn key_text_of(&self, row: &[ValueRef<'_>]) -> Option<String> {
        text_of(row, self.key_fields())
    }

    /// Returns the values of the fields of a composite key, for conditions of engines that
    /// do not store its text; empty if the key is one field. For a text that no row of the table can
    /// have, all values are NULL, which equals no value.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Schema, Table, Value, ValueRef};
    /// let fields = vec![Field::new("room", Kind::TEXT), Field::new("number", Kind::I64)];
    /// let table = Table::new(Schema::new("seat", fields).composite_key("key", vec![0, 1]))?;
    /// assert_eq!(table.key_values(ValueRef::Text("B,7")), ["B".into(), Value::Int(7)]);
    /// assert_eq!(table.key_values(ValueRef::Text("B,07")), [Value::Null, Value::Null]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn key_values(&self, key: ValueRef<'_>) -> Vec<Value> {
        match self.has_composite_key() {
            true => self.part_values(self.key(), key),
            false => Vec::new(),
        }
    }

    /// Returns the place after a row in the order of the keys, for
    /// [`RowQuery::after`](crate::RowQuery::after).
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Schema, Table, Value};
    /// let fields = vec![Field::new("room", Kind::TEXT), Field::new("number", Kind::I64)];
    /// let table = Table::new(Schema::new("seat", fields).composite_key("key", vec![0, 1]))?;
    /// assert_eq!(table.place_of_key("B,7".into()), ["B".into(), Value::Int(7)]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn place_of_key(&self, key: Value) -> Vec<Value> {
        match self.has_composite_key() {
            true => self.key_values(key.as_ref()),
            false => vec![key],
        }
    }

    /// Returns the values of the fields that a text is made of; `None` for a text that no row can
    /// have.
    pub(super) fn parsed_text(&self, fields: &[usize], key: &str) -> Option<Vec<Value>> {
        let mut parts = key.split(',');
        let values: Option<Vec<Value>> = fields
            .iter()
            .map(|&field| {
                let kind = &self.fields()[field].kind;
                let part = decoded(parts.next()?)?;
                // PostgreSQL has no texts with a NUL.
                let value = text::parse(kind, &part).ok().filter(|_| !part.contains('\0'))?;
                let is_in_range = match (kind, value) {
                    (Kind::Int { min, max }, ValueRef::Int(value)) => {
                        (*min..=*max).contains(&value)
                    }
                    _ => true,
                };
                is_in_range.then(|| value.to_value())
            })
            .collect();
        let values = values.filter(|_| parts.next().is_none())?;
        // A row has one name: `01,2` is not another one of `1,2`.
        let refs: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
        (key_text(&refs) == key).then_some(values)
    }
}

/// Returns the text made of some fields of a row; `None` without fields, or if one has no value.
pub(super) fn text_of(row: &[ValueRef<'_>], fields: &[usize]) -> Option<String> {
    let values: Vec<ValueRef<'_>> = fields.iter().map(|&field| row[field]).collect();
    let has_all = !values.iter().any(|value| value.is_null() || value.is_absent());
    (has_all && !values.is_empty()).then(|| key_text(&values))
}

/// Checks the fields of a composite key. Returns the field at fault, and the reason.
pub(super) fn check(schema: &Schema) -> Result<(), (Option<&Field>, &'static str)> {
    let fields = &schema.key_fields;
    if fields.is_empty() {
        return Ok(());
    }
    let known = |field: &usize| *field < schema.fields.len() && *field != schema.key;
    let once = |(at, field): (usize, &usize)| !fields[..at].contains(field);
    if fields.len() < 2 || !fields.iter().all(known) || !fields.iter().enumerate().all(once) {
        return Err((None, "a composite key has two or more fields of the model, each once"));
    }
    for field in fields.iter().map(|&field| &schema.fields[field]) {
        if !has_form_of_part(&field.kind) {
            return Err((
                Some(field),
                "a field of a composite key is an integer, a text that is compared byte by byte, a \
                 UUID, a date, an enum that is stored as text, or a reference",
            ));
        }
        if field.nullable || field.role != Role::Plain {
            return Err((Some(field), "a field of a composite key is required and has no role"));
        }
        if field.default_expression.is_some() || field.is_computed() {
            return Err((
                Some(field),
                "a field of a composite key has no expression: the caller gives its value",
            ));
        }
    }
    let key = &schema.fields[schema.key];
    if key.kind != Kind::TEXT || key.search || key.unique || !key.rules.is_empty() {
        return Err((
            Some(key),
            "a composite key is a plain text without a length, a collation, rules, `unique` or \
             `search`",
        ));
    }
    if schema.fields.iter().any(|field| field.search) {
        return Err((
            None,
            "a table with a composite key cannot be searched: use a key of one field, and an index \
             that is unique over the others",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(kinds: &[Kind]) -> Table {
        let field =
            |(at, kind): (usize, &Kind)| Field::named(format!("f{at}").into(), kind.clone());
        let fields = kinds.iter().enumerate().map(field).collect();
        let key = (0..kinds.len()).collect::<Vec<_>>();
        Table::new(Schema::new("t", fields).composite_key("key", key)).unwrap()
    }

    #[test]
    fn a_text_has_the_values_it_was_made_of() {
        let table = table(&[Kind::TEXT, Kind::I64, Kind::Date, Kind::Uuid]);
        let uuid = uuid::Uuid::now_v7();
        for text in ["", "a", ",", "%", "%2C", "é,%25,,", "\u{1F600}", " "] {
            let date = "2026-02-28".parse().unwrap();
            let row = [
                ValueRef::Text(text),
                ValueRef::Int(-5),
                ValueRef::Date(date),
                ValueRef::Uuid(uuid),
                ValueRef::Absent,
            ];
            let key = table.key_text_of(&row).unwrap();
            let values: Vec<Value> = row[..4].iter().map(ValueRef::to_value).collect();
            assert_eq!(table.key_values(ValueRef::Text(&key)), values, "{key}");
        }
    }

    #[test]
    fn a_row_has_one_text_only() {
        let table = table(&[Kind::Int { min: 0, max: 255 }, Kind::TEXT]);
        for key in [
            "", "1", "1,a,b", "01,a", "+1,a", "1.0,a", "256,a", "-1,a", "x,a", "1,%", "1,%2",
            "1,%2c", "1,%41", "1,\0", "1,%é",
        ] {
            let found = table.key_values(ValueRef::Text(key));
            assert_eq!(found, [Value::Null, Value::Null], "{key}");
        }
        assert_eq!(table.key_values(ValueRef::Int(1)), [Value::Null, Value::Null]);
        assert_eq!(table.key_values(ValueRef::Text("1,")), [Value::Int(1), "".into()]);
    }

    #[test]
    fn what_cannot_be_a_key_is_refused() {
        let (a, b) = (Field::new("a", Kind::I64), Field::new("b", Kind::I64));
        for (fields, key, part) in [
            (vec![a.clone()], vec![0], "two or more"),
            (vec![a.clone(), b.clone()], vec![0, 0], "each once"),
            (vec![a.clone(), b.clone()], vec![0, 2], "two or more"),
            (vec![a.clone(), Field::new("b", Kind::Float)], vec![0, 1], "field `b`"),
            (vec![a.clone(), b.clone().nullable(true)], vec![0, 1], "required"),
            (vec![a.clone(), b.clone().computed("a")], vec![0, 1], "no expression"),
            (vec![a, b, Field::new("c", Kind::TEXT).search(true)], vec![0, 1], "searched"),
        ] {
            let error = Table::new(Schema::new("t", fields).composite_key("key", key)).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
