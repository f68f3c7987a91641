//! Default expressions and computed fields of rows: evaluated, sanitized and checked by the rules.

use super::prepared::Table;
use crate::expression::{Expression, ExpressionContext};
use crate::schema::violation;
use crate::{Error, Field, FieldSet, Result, Scratch, Timestamp, Value, ValueRef, Violation};

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
        let text = self.fields()[position].default_expression.as_deref()?;
        self.shown(&self.expressions.defaults, position, text)
    }

    /// Returns true if a field has a default expression or is computed. Then a row that was written
    /// may have values that its caller does not know.
    #[must_use]
    pub fn has_expressions(&self) -> bool {
        !self.expressions.defaults.is_empty() || !self.expressions.computed.is_empty()
    }

    /// Returns the computed fields ([`Field::computed`]).
    ///
    /// ```
    /// use marmota_model::{Field, FieldSet, Kind, Role, Schema, Table};
    /// let table = Table::new(Schema::new("person", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("name", Kind::TEXT),
    ///     Field::new("sort_name", Kind::TEXT).computed("lower(name)"),
    /// ]))?;
    /// assert_eq!(table.computed_fields(), FieldSet::EMPTY.with(2));
    /// assert_eq!(table.computed(2), Some("lower(name)"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn computed_fields(&self) -> FieldSet {
        self.expressions.computed_fields
    }

    /// Returns the computed fields that a write of these fields changes or gives values for, and
    /// the other fields that determine them.
    #[must_use]
    pub fn affected_by(&self, written: FieldSet) -> (FieldSet, FieldSet) {
        let all = self.expressions.computed.iter().zip(&self.expressions.used);
        let affected = all.filter(|((position, _), used)| {
            written.contains(*position) || !used.intersection(written).is_empty()
        });
        affected.fold((FieldSet::EMPTY, FieldSet::EMPTY), |(fields, all), ((position, _), used)| {
            (fields.with(*position), all.union(*used))
        })
    }

    /// Returns the text of the expression of the field at `position`, if it is computed. In a view
    /// it is empty if it uses a field that the caller may not read.
    #[must_use]
    pub fn computed(&self, position: usize) -> Option<&str> {
        let text = self.fields()[position].computed.as_deref()?;
        self.shown(&self.expressions.computed, position, text)
    }

    /// Computes some of the computed fields of a row, and returns those whose values differ from the
    /// row's. The row has all values that they use. Texts are stored in `scratch`. The rules of
    /// the fields are not checked.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) with each field that has no value, and with each of `given` whose
    /// value in the row is another one.
    pub fn compute<'a>(
        &self,
        row: &mut [ValueRef<'a>],
        fields: FieldSet,
        given: FieldSet,
        scratch: &'a Scratch,
    ) -> Result<FieldSet> {
        let context = ExpressionContext { now: Timestamp::default(), caller: None };
        let mut changed = FieldSet::EMPTY;
        let mut violations = Vec::new();
        let all = self.expressions.computed.iter();
        for (position, expression) in all.filter(|(position, _)| fields.contains(*position)) {
            let (position, field) = (*position, &self.fields()[*position]);
            let value = match expression.evaluate(field, &|at| row[at], &context) {
                Ok(Value::Null) if !field.nullable => Err("is null".to_owned()),
                value => value,
            };
            let value = match value {
                Ok(value) => value,
                Err(why) => {
                    let message = format!("its computed value {why}; change the values it uses");
                    violations.push(violation(field, ValueRef::Null, "computed", message));
                    continue;
                }
            };
            if row[position] == value.as_ref() {
                continue;
            }
            if given.contains(position) {
                // The value is not in the message: the caller may not be allowed to read it.
                let message = "is computed by the store, to another value; leave it out";
                violations.push(violation(field, row[position], "computed", message));
            }
            row[position] = in_scratch(&value, scratch);
            changed = changed.with(position);
        }
        if violations.is_empty() { Ok(changed) } else { Err(Error::invalid(violations)) }
    }

    /// Returns true if the store determines the value of the field at `position` in a new row that
    /// has none: by a default expression, because it is computed, or because it is a composite key.
    #[must_use]
    pub fn is_determined(&self, position: usize) -> bool {
        self.expressions.default_fields.contains(position)
            || self.expressions.computed_fields.contains(position)
            || (position == self.key() && self.has_composite_key())
    }

    /// Returns the text of an expression, or an empty one if this is a view that hides a field of
    /// it.
    fn shown<'t>(
        &self,
        expressions: &[(usize, Expression)],
        position: usize,
        text: &'t str,
    ) -> Option<&'t str> {
        let (_, expression) = expressions.iter().find(|(at, _)| *at == position)?;
        let is_readable = expression.fields.iter().all(|field| self.is_readable(field));
        Some(if is_readable { text } else { "" })
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
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) with each field whose expression has no value, or one that breaks a
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

    /// Checks the rules of some fields of a row, and adds their faults to `violations`.
    pub fn check_fields(
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

/// The violation for a default expression without a value.
fn no_value(field: &Field, why: &str) -> Violation {
    let message = format!("must be given: its default expression {why}");
    violation(field, ValueRef::Null, "required", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Role, Schema};

    fn field(name: &'static str) -> Field {
        Field::new(name, Kind::I64)
    }

    fn table(fields: Vec<Field>) -> Result<Table> {
        let id = Field::new("id", Kind::I64).role(Role::Key);
        Table::new(Schema::new("a", [vec![id], fields].concat()))
    }

    #[test]
    fn expressions_are_evaluated_in_the_order_of_their_use() {
        let fields = vec![
            field("c").computed("b + 1"),
            field("b").computed("a + 1"),
            field("a"),
            field("y").default_expression("x * 2"),
            field("x").default_expression("a * 10"),
        ];
        let table = table(fields).unwrap();
        let (mut row, scratch) = ([ValueRef::Absent; 6], Scratch::new());
        row[3] = ValueRef::Int(1);
        let context = ExpressionContext { now: Timestamp::default(), caller: None };
        let filled = table.fill_defaults(&mut row, &context, &scratch).unwrap();
        let computed =
            table.compute(&mut row, table.computed_fields(), FieldSet::EMPTY, &scratch).unwrap();
        assert_eq!(row[1..], [3, 2, 1, 20, 10].map(ValueRef::Int));
        assert_eq!((filled.len(), computed.len()), (2, 2));
        let (a, both) = (FieldSet::EMPTY.with(3), FieldSet::EMPTY.with(1).with(2));
        assert_eq!(table.affected_by(a), (both, a));
        assert_eq!(table.affected_by(FieldSet::EMPTY.with(1)), (both.without(2), a));
        assert_eq!(table.affected_by(FieldSet::EMPTY.with(4)), (FieldSet::EMPTY, FieldSet::EMPTY));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_field() {
        let text = |name| Field::new(name, Kind::TEXT);
        for (fields, part) in [
            (vec![field("b").computed("c"), field("c").computed("b")], "through b, c"),
            (vec![field("b").default_expression("b")], "field `b` of model `a`: its expression"),
            (vec![field("b").computed("1"), field("c").default_expression("b")], "no value yet"),
            (vec![text("b").computed("token(3)")], "on its row alone"),
            (vec![text("b").computed("@user.name")], "on its row alone"),
            (vec![field("v").role(Role::Version), field("b").computed("v")], "the version"),
            (vec![field("b").computed("1").immutable(true)], "neither immutable"),
            (vec![field("b").computed("1").default_expression("1")], "no default"),
            (vec![field("v").role(Role::Version).computed("1")], "with a role"),
            (vec![field("b").computed("id")], "not known before the insert"),
            (vec![text("b").computed("1")], "is integer, and the field is text"),
        ] {
            let error = table(fields).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn a_view_does_not_show_an_expression_over_hidden_fields() {
        let fields = vec![field("a"), field("b").computed("a"), field("c").default_expression("a")];
        let table = std::sync::Arc::new(table(fields).unwrap());
        assert_eq!((table.computed(2), table.default_expression(3)), (Some("a"), Some("a")));
        let shown = table.all().without(1);
        let fields = crate::ViewFields { readable: shown, written: shown, updated: shown };
        let view = Table::view(&table, fields);
        assert_eq!((view.computed(2), view.default_expression(3)), (Some(""), Some("")));
    }
}
