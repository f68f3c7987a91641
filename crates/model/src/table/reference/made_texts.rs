//! The fields of a schema whose texts are made of other fields.

use crate::table::expressions::Expressions;
use crate::{Collation, FieldSet, Kind, OnDelete, Role, Schema, ValueForm};

/// The fields whose texts are made of other fields, each with those: the composite key, and the
/// references to composite keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct MadeTexts {
    pub(crate) fields: FieldSet,
    pub(crate) all: Vec<(usize, Vec<usize>)>,
}

impl MadeTexts {
    /// Finds them, and checks the references. Returns the position of a field at fault, and the
    /// reason.
    pub(crate) fn of(
        schema: &Schema,
        expressions: &Expressions,
    ) -> Result<Self, (usize, &'static str)> {
        let mut made = Self::default();
        if !schema.key_fields.is_empty() {
            made.add(schema.key, schema.key_fields.to_vec());
        }
        for (position, expression) in &expressions.computed {
            // A description of tables has no expressions, since the caller may not see their fields.
            let is_reference = matches!(schema.fields[*position].kind, Kind::Reference { .. });
            let is_in_text = expression.text_of_key_in().is_some();
            if !is_reference || is_in_text || expression.is_null() {
                continue;
            }
            let parts = expression.parts_of_key();
            check(schema, *position, &parts).map_err(|why| (*position, why))?;
            made.add(*position, parts);
        }
        Ok(made)
    }

    fn add(&mut self, position: usize, parts: Vec<usize>) {
        self.fields = self.fields.with(position);
        self.all.push((position, parts));
    }
}

/// Checks a reference that is computed of `parts`.
fn check(schema: &Schema, position: usize, parts: &[usize]) -> Result<(), &'static str> {
    let field = &schema.fields[position];
    if parts.is_empty() {
        return Err(
            "a reference is computed only by `key(a, b)`, of the fields with the values of \
                    a composite key, or by `key_in(text)`",
        );
    }
    let once = |(at, part): (usize, &usize)| !parts[..at].contains(part);
    if !parts.iter().enumerate().all(once) {
        return Err("its expression uses a field twice");
    }
    let is_made = |part: &usize| *part == schema.key && !schema.key_fields.is_empty();
    let has_form = |part: &usize| {
        let field = &schema.fields[*part];
        has_form_of_part(&field.kind) && field.computed.is_none() && !is_made(part)
    };
    if !parts.iter().all(has_form) {
        return Err("a reference to a composite key is computed of integers, texts that are \
                    compared byte by byte, UUIDs, dates, enums that are stored as texts, and \
                    references, which are not computed themselves");
    }
    let mut fields = parts.iter().map(|&part| &schema.fields[part]);
    if field.nullable != fields.any(|part| part.nullable) {
        return Err("a computed reference may be NULL if, and only if, one of its fields may be");
    }
    if field.unique || !field.rules.is_empty() {
        return Err(
            "a computed reference has neither rules nor `unique`: its fields have them, or \
                    a unique index over them",
        );
    }
    let changes = |&part: &usize| {
        let field = &schema.fields[part];
        let is_of_key = part == schema.key || schema.key_fields.contains(&part);
        field.nullable && !field.immutable && field.role == Role::Plain && !is_of_key
    };
    if field.on_delete == OnDelete::SetNull && !parts.iter().all(changes) {
        return Err(
            "`on_delete = \"set_null\"` changes all fields of a computed reference, so each \
                    has to be one that may be NULL and may change: use `cascade` or `restrict`",
        );
    }
    Ok(())
}

/// Returns true for the kinds of fields that a composite key may consist of.
pub(crate) fn has_form_of_part(kind: &Kind) -> bool {
    let form = kind.form();
    let has_form =
        matches!(form, ValueForm::Int | ValueForm::Text | ValueForm::Uuid | ValueForm::Date);
    let is_number_of_name = matches!(kind, Kind::Enum { .. }) && form == ValueForm::Int;
    has_form && kind.collation() == Collation::Binary && !is_number_of_name
}
