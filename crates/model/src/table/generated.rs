//! Generated columns: fields whose values the database computes.

use crate::{Field, FieldSet, Kind, Role, Schema};

/// The maximum length of an expression in bytes.
const EXPRESSION_BYTES_MAX: usize = 2_000;

/// Checks the generated columns of a schema and returns their fields. An error is the field at fault,
/// with the reason.
pub(super) fn fields_of(schema: &Schema) -> Result<FieldSet, (&Field, &'static str)> {
    let mut fields = FieldSet::EMPTY;
    for (position, field) in schema.fields.iter().enumerate() {
        let Some(expression) = field.generated.as_deref() else { continue };
        check_field(field)
            .and_then(|()| check_expression(expression))
            .map_err(|why| (field, why))?;
        fields = fields.with(position);
    }
    Ok(fields)
}

/// Checks that the column of a field can be generated.
fn check_field(field: &Field) -> Result<(), &'static str> {
    if field.role != Role::Plain {
        return Err("a field with a role is not generated: the caller gives a text key, and the \
                    store sets the others");
    }
    if field.default.is_some() || field.default_expression.is_some() || field.computed.is_some() {
        return Err("a generated column has neither a default nor a value that the store computes");
    }
    if field.immutable || !field.sanitizers.is_empty() || !field.rules.is_empty() {
        return Err(
            "a generated column is neither immutable nor sanitized, and has no rules: the \
                    store does not write it",
        );
    }
    if field.search {
        return Err("a generated column cannot be searched: use a computed field");
    }
    match field.kind {
        Kind::Reference { .. } => Err("a reference cannot be generated"),
        Kind::Vector { .. } => Err("a vector cannot be generated"),
        _ => Ok(()),
    }
}

/// Checks that an expression is one: it cannot end the definition of its column.
fn check_expression(expression: &str) -> Result<(), &'static str> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err("the SQL expression of a generated column has at most 2,000 bytes");
    }
    let (mut depth, mut quote, mut last) = (0_u32, None, ' ');
    for c in expression.chars() {
        match (quote, c) {
            // MariaDB reads it as an escape inside of quotes, other databases do not.
            (_, '\\') => return Err(OTHER_PARTS),
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => return Err(UNBALANCED),
            (None, ')') => depth -= 1,
            (None, ';' | '\0' | '#' | '$') => return Err(OTHER_PARTS),
            (None, '-') if last == '-' => return Err(OTHER_PARTS),
            (None, '*') if last == '/' => return Err(OTHER_PARTS),
            (None, _) => {}
        }
        last = c;
    }
    match depth == 0 && quote.is_none() {
        true => Ok(()),
        false => Err(UNBALANCED),
    }
}

const UNBALANCED: &str =
    "the SQL expression of a generated column has a parenthesis or a quote without its counterpart";
const OTHER_PARTS: &str = "the SQL expression of a generated column has no `\\`, and outside of quotes no comments, `;`, \
     `#` and `$`";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Table;

    fn table(fields: Vec<Field>) -> crate::Result<Table> {
        let id = Field::new("id", Kind::I64).role(Role::Key);
        Table::new(Schema::new("a", [vec![id], fields].concat()))
    }

    #[test]
    fn what_cannot_be_generated_is_refused_with_its_field() {
        let field = |kind| Field::new("b", kind).generated("1");
        let reference = Kind::Reference { table: "a".into(), key: crate::KeyKind::Auto };
        for (field, part) in [
            (field(Kind::I64).role(Role::Version), "with a role"),
            (field(Kind::I64).computed("1"), "neither a default"),
            (field(Kind::I64).immutable(true), "neither immutable"),
            (field(Kind::TEXT).rules(vec![crate::Rule::NotEmpty]), "no rules"),
            (field(Kind::TEXT).search(true), "cannot be searched"),
            (field(reference), "a reference"),
        ] {
            let error = table(vec![field]).unwrap_err().to_string();
            assert!(error.contains("field `b` of model `a`") && error.contains(part), "{error}");
        }
        let used = vec![field(Kind::I64), Field::new("c", Kind::I64).computed("b")];
        assert!(table(used).unwrap_err().to_string().contains("before the write"));
    }

    #[test]
    fn an_expression_cannot_end_the_definition_of_its_column() {
        let check = |sql: &'static str| table(vec![Field::new("b", Kind::I64).generated(sql)]);
        for good in ["", "a * (b + 1)", "a || ';)--' || \"x(\"", "a - -1", "'it''s'", "a / b * c"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in [
            "1) STORED, c INT",
            "(a",
            "a -- b",
            "a /* b */",
            "a; b",
            "'a",
            "$$a$$",
            "a # b",
            r"'\'",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
