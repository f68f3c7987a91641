//! [`Refusal`]: errors in a form that tests compare.

use marmota_model::{Error, ErrorKind, Result};

/// The parts of an error that programs use: the kind, and the field and rule of each violation.
/// Engines must agree in them; the messages may differ.
pub(crate) type Refusal = (ErrorKind, Vec<(String, String)>);

/// Returns the parts of an error that programs use.
pub(crate) fn refusal(error: &Error) -> Refusal {
    let mut violations: Vec<(String, String)> =
        error.violations().iter().map(|one| (one.field.clone(), one.rule.clone())).collect();
    violations.sort();
    (error.kind(), violations)
}

/// Returns the error of a call that must fail with `kind`.
#[track_caller]
pub(crate) fn refused<T>(result: Result<T>, kind: ErrorKind) -> Error {
    match result {
        Ok(_) => panic!("it succeeded instead of failing with kind {}", kind.name()),
        Err(error) => {
            assert_eq!(error.kind(), kind, "the wrong kind of error: {error:?}");
            error
        }
    }
}

/// Returns the error of a call that must fail with `kind` and a violation of `rule` by `field`.
#[track_caller]
pub(crate) fn blamed<T>(result: Result<T>, kind: ErrorKind, field: &str, rule: &str) -> Error {
    let error = refused(result, kind);
    let found = error.violations().iter().any(|one| one.field == field && one.rule == rule);
    assert!(found, "no violation of rule {rule} by field {field}: {:?}", error.violations());
    error
}

/// Checks that the message contains each of these parts.
#[track_caller]
pub(crate) fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}
