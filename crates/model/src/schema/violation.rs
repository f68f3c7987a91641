//! The violation of a rule by a value of a field.

use crate::value::excerpt::excerpt_of;
use crate::{Field, ValueRef, Violation};

/// Returns the violation of `rule` by `value` in `field`.
///
/// ```
/// use marmota_model::rule::violation;
/// use marmota_model::{Error, Field, Kind, ValueRef};
/// let field = Field::new("age", Kind::I64);
/// let error = Error::invalid(vec![violation(&field, ValueRef::Int(-1), "range", "must be positive")]);
/// assert_eq!(error.to_string(), "field `age` = -1: must be positive (rule range)");
/// ```
#[must_use]
pub fn violation(
    field: &Field,
    value: ValueRef<'_>,
    rule: &str,
    message: impl Into<String>,
) -> Violation {
    Violation {
        field: field.name.to_string(),
        value: excerpt_of(value),
        rule: rule.to_owned(),
        message: message.into(),
    }
}
