//! The expressions of a table's fields, in the order in which they are evaluated.

use super::prepared::Table;
use crate::expression::{Expression, ExpressionContext};
use crate::schema::violation;
use crate::{
    Error, ErrorKind, Field, FieldSet, Result, Role, Schema, Scratch, Value, ValueRef, Violation,
};

/// The expressions of a table, each with the position of its field. One that uses the field of
/// another comes after it.
#[derive(Debug, Default)]
pub(super) struct Expressions {
    defaults: Vec<(usize, Expression)>,
    /// The fields of `defaults`.
    default_fields: FieldSet,
}

impl Expressions {
    /// Parses the expressions of a schema.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the field.
    pub(super) fn of(schema: &Schema) -> Result<Self> {
        let mut defaults = Vec::new();
        for (position, field) in schema.fields.iter().enumerate() {
            let Some(text) = &field.default_expression else { continue };
            if field.role != Role::Plain {
                let why = "a field with a role has no default expression: the caller gives a text \
                           key, and the store sets the others";
                return Err(refuse(schema, field, why));
            }
            let parsed = Expression::parse(schema, field, text);
            let expression = parsed.map_err(|error| refuse(schema, field, error.message()))?;
            defaults.push((position, expression));
        }
        let defaults = in_order(schema, defaults)?;
        let default_fields = fields_of(&defaults);
        Ok(Self { defaults, default_fields })
    }
}

impl Table {
    /// Returns true if the store evaluates an expression for new rows that have no value for the
    /// field at `position`.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Schema, Table};
    /// let table = Table::new(Schema::new("visit", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("day", Kind::Date).default_expression("@today"),
    /// ]))?;
    /// assert!(table.has_default_expression(1));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn has_default_expression(&self, position: usize) -> bool {
        self.expressions.default_fields.contains(position)
    }

    /// Returns the text of the default expression of the field at `position`, if it has one. In a
    /// view it is empty if it uses a field that the caller may not read.
    #[must_use]
    pub fn default_expression(&self, position: usize) -> Option<&str> {
        let (_, expression) = self.expressions.defaults.iter().find(|(at, _)| *at == position)?;
        let is_readable = expression.fields.iter().all(|field| self.is_readable(field));
        let text = self.fields()[position].default_expression.as_deref()?;
        Some(if is_readable { text } else { "" })
    }

    /// Returns true if a field has a default expression. Then a row that was inserted may have
    /// values that its caller does not know.
    #[must_use]
    pub fn has_default_expressions(&self) -> bool {
        !self.expressions.defaults.is_empty()
    }

    /// Evaluates the default expressions of the fields for which a new row has no value, and returns
    /// these fields. The new values are sanitized and checked by the rules of their fields. Texts
    /// are stored in `scratch`.
    ///
    /// ```
    /// use marmota_model::{ExpressionContext, Field, Kind, Role, Schema, Scratch, Table, Timestamp};
    /// use marmota_model::ValueRef;
    /// let table = Table::new(Schema::new("note", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("title", Kind::TEXT),
    ///     Field::new("slug", Kind::TEXT).default_expression("slug(title)"),
    /// ]))?;
    /// let mut row = [ValueRef::Absent, ValueRef::Text("To do, today!"), ValueRef::Absent];
    /// let (context, scratch) =
    ///     (ExpressionContext { now: Timestamp::now(), caller: None }, Scratch::new());
    /// table.fill_defaults(&mut row, &context, &scratch)?;
    /// assert_eq!(row[2], ValueRef::Text("to-do-today"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with each field whose expression has no value, or one that breaks a
    /// rule.
    pub fn fill_defaults<'a>(
        &self,
        row: &mut [ValueRef<'a>],
        context: &ExpressionContext<'_>,
        scratch: &'a Scratch,
    ) -> Result<FieldSet> {
        let mut filled = FieldSet::EMPTY;
        let mut violations = Vec::new();
        for (position, expression) in &self.expressions.defaults {
            if !row[*position].is_absent() {
                continue;
            }
            let field = &self.fields()[*position];
            match expression.evaluate(field, &|at| row[at], context) {
                Ok(Value::Null) if !field.nullable => {
                    violations.push(no_value(field, "is null here; give a value"));
                }
                Ok(value) => {
                    row[*position] = in_scratch(&value, scratch);
                    self.sanitize_field(*position, row, scratch);
                    filled = filled.with(*position);
                }
                Err(why) => violations.push(no_value(field, &format!("{why}; give a value"))),
            }
        }
        self.check_fields(row, filled, &mut violations);
        if violations.is_empty() { Ok(filled) } else { Err(Error::invalid(violations)) }
    }

    /// Checks the rules of some fields of a row.
    fn check_fields(
        &self,
        row: &[ValueRef<'_>],
        fields: FieldSet,
        violations: &mut Vec<Violation>,
    ) {
        if fields.is_empty() {
            return;
        }
        let mut checked = vec![ValueRef::Absent; row.len()];
        fields.iter().for_each(|field| checked[field] = row[field]);
        self.check(&checked, violations);
    }
}

/// Returns a value of an expression whose text is in `scratch`.
fn in_scratch<'a>(value: &Value, scratch: &'a Scratch) -> ValueRef<'a> {
    match value {
        Value::Absent => ValueRef::Absent,
        Value::Null => ValueRef::Null,
        Value::Bool(value) => ValueRef::Bool(*value),
        Value::Int(value) => ValueRef::Int(*value),
        Value::Float(value) => ValueRef::Float(*value),
        Value::Currency(value) => ValueRef::Currency(*value),
        Value::Text(text) => ValueRef::Text(scratch.text(text)),
        Value::Blob(bytes) => ValueRef::Blob(scratch.bytes(bytes)),
        Value::Json(json) => ValueRef::Json(scratch.text(json)),
        Value::Date(value) => ValueRef::Date(*value),
        Value::Time(value) => ValueRef::Time(*value),
        Value::Timestamp(value) => ValueRef::Timestamp(*value),
        Value::Uuid(value) => ValueRef::Uuid(*value),
    }
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

/// The violation for a default expression without a value.
fn no_value(field: &Field, why: &str) -> Violation {
    let message = format!("must be given: its default expression {why}");
    violation(field, ValueRef::Null, "required", message)
}

fn refuse(schema: &Schema, field: &Field, why: &str) -> Error {
    let message = format!("field `{}` of model `{}`: {why}", field.name, schema.name);
    Error::new(ErrorKind::Invalid, message)
}
