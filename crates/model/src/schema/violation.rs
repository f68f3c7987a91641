//! The violation of a rule by a value of a field.

use crate::value::excerpt::excerpt_of;
use crate::{Field, ValueRef, Violation};

/// Returns the violation of `rule` by `value` in `field`.
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
