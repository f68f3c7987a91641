//! The expressions of a table's fields, in the order in which they are evaluated.

use crate::expression::Expression;
use crate::{Error, ErrorKind, Field, FieldSet, Result, Role, Schema};

/// The expressions of a table, each with the position of its field. One that uses the field of
/// another comes after it.
#[derive(Debug, Default)]
pub(super) struct Expressions {
    pub(super) defaults: Vec<(usize, Expression)>,
    /// The fields of `defaults`.
    pub(super) default_fields: FieldSet,
    pub(super) computed: Vec<(usize, Expression)>,
    /// The fields of `computed`.
    pub(super) computed_fields: FieldSet,
    /// For each of `computed`, the fields that determine it and are not computed.
    pub(super) used: Vec<FieldSet>,
}

impl Expressions {
    /// Parses the expressions of a schema.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the field.
    pub(super) fn of(schema: &Schema) -> Result<Self> {
        let (mut defaults, mut computed) = (Vec::new(), Vec::new());
        for (position, field) in schema.fields.iter().enumerate() {
            let (text, all) = match (&field.computed, &field.default_expression) {
                (Some(text), _) => (text, &mut computed),
                (None, Some(text)) => (text, &mut defaults),
                (None, None) => continue,
            };
            check_field(field).map_err(|why| refuse(schema, field, why))?;
            let parsed = Expression::parse(schema, field, text);
            let expression = parsed.map_err(|error| refuse(schema, field, error.message()))?;
            all.push((position, expression));
        }
        let (defaults, computed) = (in_order(schema, defaults)?, in_order(schema, computed)?);
        let (default_fields, computed_fields) = (fields_of(&defaults), fields_of(&computed));
        let mut used: Vec<FieldSet> = Vec::with_capacity(computed.len());
        for (_, expression) in &computed {
            // Those that it uses come before it.
            let through = computed.iter().zip(&used);
            let through = through.filter(|((at, _), _)| expression.fields.contains(*at));
            let all = through.fold(expression.fields, |all, (_, used)| all.union(*used));
            used.push(computed_fields.iter().fold(all, FieldSet::without));
        }
        for (position, expression) in &defaults {
            if !expression.fields.intersection(computed_fields).is_empty() {
                let why = "its default expression uses a computed field, which has no value yet";
                return Err(refuse(schema, &schema.fields[*position], why));
            }
        }
        for (position, expression) in &computed {
            let set_later =
                |field: usize| matches!(schema.fields[field].role, Role::UpdatedAt | Role::Version);
            let why = match expression.is_of_row {
                false => {
                    "a computed field depends on its row alone: not on the time, the caller or \
                          random values"
                }
                true if expression.fields.iter().any(set_later) => {
                    "a computed field cannot use the updated-at field and the version"
                }
                true => continue,
            };
            return Err(refuse(schema, &schema.fields[*position], why));
        }
        Ok(Self { defaults, default_fields, computed, computed_fields, used })
    }
}

/// Checks that a field can have its expression.
fn check_field(field: &Field) -> std::result::Result<(), &'static str> {
    let is_computed = field.computed.is_some();
    match field.role {
        Role::Plain if is_computed => {}
        Role::Plain => return Ok(()),
        _ => {
            return Err("a field with a role has no expression: the caller gives a text key, and \
                        the store sets the others");
        }
    }
    if field.default.is_some() || field.default_expression.is_some() {
        return Err("a computed field has no default, which would never be used");
    }
    if field.immutable || !field.sanitizers.is_empty() {
        return Err("a computed field is neither immutable nor sanitized: change the expression");
    }
    Ok(())
}

/// Orders expressions so that each comes after those whose fields it uses.
fn in_order(
    schema: &Schema,
    mut expressions: Vec<(usize, Expression)>,
) -> Result<Vec<(usize, Expression)>> {
    let mut ordered = Vec::with_capacity(expressions.len());
    while !expressions.is_empty() {
        let waiting = fields_of(&expressions);
        let is_ready = |(_, one): &(usize, Expression)| one.fields.intersection(waiting).is_empty();
        match expressions.iter().position(is_ready) {
            Some(ready) => ordered.push(expressions.remove(ready)),
            None => {
                let names = expressions.iter().map(|(at, _)| &*schema.fields[*at].name);
                let names: Vec<&str> = names.collect();
                let why =
                    format!("its expression uses its own value, through {}", names.join(", "));
                return Err(refuse(schema, &schema.fields[expressions[0].0], &why));
            }
        }
    }
    Ok(ordered)
}

fn fields_of(expressions: &[(usize, Expression)]) -> FieldSet {
    expressions.iter().fold(FieldSet::EMPTY, |fields, (position, _)| fields.with(*position))
}

fn refuse(schema: &Schema, field: &Field, why: &str) -> Error {
    let message = format!("field `{}` of model `{}`: {why}", field.name, schema.name);
    Error::new(ErrorKind::Invalid, message)
}
