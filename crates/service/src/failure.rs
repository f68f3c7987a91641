//! Errors as JSON-RPC represents them: a code, a message, and data from which the client restores
//! Marmota's error.

use marmota_model::{Error, ErrorKind, Violation};
use marmota_web::public_message;
use serde::{Deserialize, Serialize};

/// The message is not JSON.
pub(crate) const PARSE: i32 = -32700;
/// The message is JSON, but not a valid call.
pub(crate) const REQUEST: i32 = -32600;
/// The service or method does not exist.
pub(crate) const METHOD: i32 = -32601;
/// The parameters are invalid.
pub(crate) const PARAMETERS: i32 = -32602;
/// An internal error of the service.
pub(crate) const INTERNAL: i32 = -32603;
/// Any other error of a method.
pub(crate) const OTHER: i32 = -32000;

/// An error as it is sent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Data>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Data {
    kind: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Violation>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    retryable: bool,
}

impl Failure {
    /// Returns a method's error without its internal details, which are logged.
    pub(crate) fn of(error: &Error, called: &str) -> Self {
        let kind = error.kind();
        let code = match kind {
            ErrorKind::Invalid if !error.violations().is_empty() => PARAMETERS,
            ErrorKind::Bug | ErrorKind::Engine | ErrorKind::Protocol => INTERNAL,
            _ => OTHER,
        };
        let public = public_message(error);
        let message = if public == error.message() {
            public.to_owned()
        } else {
            log::error!("{called} failed: {error:?}");
            format!("{called}: {public}")
        };
        Self::new(code, error, message)
    }

    /// Creates an error with a specific code.
    pub(crate) fn coded(code: i32, error: &Error) -> Self {
        Self::new(code, error, error.message().to_owned())
    }

    fn new(code: i32, error: &Error, message: String) -> Self {
        let data = Data {
            kind: error.kind().name().to_owned(),
            errors: error.violations().to_vec(),
            retryable: error.is_retryable(),
        };
        Self { code, message, data: Some(data) }
    }

    /// Restores the error.
    pub(crate) fn into_error(self) -> Error {
        let Some(data) = self.data else {
            let kind = match self.code {
                // Servers of Marmota send data, so this is another server's error.
                METHOD => ErrorKind::Unsupported,
                PARAMETERS => ErrorKind::Invalid,
                PARSE | REQUEST => ErrorKind::Protocol,
                _ => ErrorKind::Engine,
            };
            return Error::new(kind, self.message);
        };
        // A newer server may send kinds that this version does not know.
        let kind = ErrorKind::named(&data.kind).unwrap_or(ErrorKind::Engine);
        let error = Error::new(kind, self.message);
        let error = data.errors.into_iter().fold(error, Error::with_violation);
        if data.retryable { error.retryable() } else { error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_back_as_it_was() {
        let violation = Violation {
            field: "a".into(),
            value: "1".into(),
            rule: "range".into(),
            message: "is too small".into(),
        };
        let error = Error::invalid(vec![violation.clone()]).retryable();
        let json = serde_json::to_string(&Failure::of(&error, "c.add")).unwrap();
        let back = serde_json::from_str::<Failure>(&json).unwrap().into_error();
        assert_eq!((back.kind(), back.message()), (error.kind(), error.message()));
        assert_eq!(back.violations(), [violation]);
        assert!(back.is_retryable());
    }

    #[test]
    fn the_inside_is_for_the_log() {
        let error = Error::new(ErrorKind::Bug, "/secret/file");
        let failure = Failure::of(&error, "c.add");
        assert_eq!(failure.code, INTERNAL);
        assert!(failure.message.starts_with("c.add: "), "{}", failure.message);
        assert!(!failure.message.contains("secret"));
    }
}
