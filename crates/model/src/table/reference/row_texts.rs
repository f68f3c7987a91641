//! The fields of a schema whose texts name rows of several tables.

use crate::table::expressions::Expressions;
use crate::{Collation, OnDelete, Role, Schema};

/// The text fields that refer to rows of several tables, each with the references that are computed of
/// it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowTexts(Vec<(usize, Vec<usize>)>);

impl RowTexts {
    /// Finds them, and checks the references. Returns the position of a field at fault, and the
    /// reason.
    pub(crate) fn of(
        schema: &Schema,
        expressions: &Expressions,
    ) -> Result<Self, (usize, &'static str)> {
        let mut all = Self::default();
        for (reference, expression) in &expressions.computed {
            let Some(text) = expression.text_of_key_in() else { continue };
            check(schema, text, *reference).map_err(|why| (*reference, why))?;
            let same_table =
                |other: &usize| schema.fields[*other].kind == schema.fields[*reference].kind;
            match all.0.iter_mut().find(|(of, _)| *of == text) {
                None => all.0.push((text, vec![*reference])),
                Some((_, references)) if references.iter().any(same_table) => {
                    return Err((
                        *reference,
                        "another reference of the same text refers to this table",
                    ));
                }
                Some((_, references)) => references.push(*reference),
            }
        }
        Ok(all)
    }

    /// Returns the references that are computed of a text field, if there are any.
    pub(crate) fn of_text(&self, text: usize) -> &[usize] {
        self.0.iter().find(|(of, _)| *of == text).map_or(&[], |(_, references)| references)
    }

    pub(crate) fn text_of(&self, reference: usize) -> Option<usize> {
        self.0.iter().find(|(_, references)| references.contains(&reference)).map(|(of, _)| *of)
    }
}

/// Checks a reference that is computed of a text.
fn check(schema: &Schema, text: usize, reference: usize) -> Result<(), &'static str> {
    let (text, reference) = (&schema.fields[text], &schema.fields[reference]);
    let is_plain = text.role == Role::Plain && text.computed.is_none();
    if !is_plain || text.kind.collation() != Collation::Binary {
        return Err(
            "`key_in` takes a text field that is compared byte by byte, has no role, and is \
                    not computed",
        );
    }
    if !reference.nullable {
        return Err("a reference of `key_in` is NULL if the text names another table: make it \
                    optional");
    }
    if !reference.rules.is_empty() {
        return Err("a computed reference has no rules: the text has them");
    }
    if reference.on_delete == OnDelete::SetNull && (!text.nullable || text.immutable) {
        return Err(
            "`on_delete = \"set_null\"` also changes the text of `key_in`, which has to be \
                    one that may be NULL and may change: use `cascade` or `restrict`",
        );
    }
    Ok(())
}
