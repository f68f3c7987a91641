//! [`Refusal`]: errors in a form that tests compare.

use marmota_model::{Error, ErrorKind, Result};

/// The parts of an error that a program reads: its kind, and the field and rule of each violation.
/// Two engines must agree in them; the texts may differ.
pub(crate) type Refusal = (ErrorKind, Vec<(String, String)>);

/// The error's part that programs act on.
pub(crate) fn refusal(error: &Error) -> Refusal {
    let mut violations: Vec<(String, String)> =
        error.violations().iter().map(|one| (one.field.clone(), one.rule.clone())).collect();
    violations.sort();
    (error.kind(), violations)
}

/// The error of a call that must fail with `kind`.
#[track_caller]
pub(crate) fn refused<T>(result: Result<T>, kind: ErrorKind) -> Error {
    match result {
        Ok(_) => panic!("it succeeded, where an error of kind {} was due", kind.name()),
        Err(error) => {
            assert_eq!(error.kind(), kind, "the wrong kind of error: {error:?}");
            error
        }
    }
}

/// The error of a call that must fail with `kind`, blaming `field` for `rule`.
#[track_caller]
pub(crate) fn blamed<T>(result: Result<T>, kind: ErrorKind, field: &str, rule: &str) -> Error {
    let error = refused(result, kind);
    let found = error.violations().iter().any(|one| one.field == field && one.rule == rule);
    assert!(found, "no violation of rule {rule} by field {field}: {:?}", error.violations());
    error
}

/// Checks that the message has each of these parts in it.
#[track_caller]
pub(crate) fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}
