//! Why no connection was established.

use marmota_model::{Error, ErrorKind};

/// The reason why no connection was established.
#[derive(Clone, Debug)]
pub(crate) struct NoConnection {
    pub(super) kind: ErrorKind,
    pub(super) message: String,
    /// True if another attempt is useless.
    pub(crate) is_final: bool,
    /// True if a pooler refused the settings of a connection.
    pub(super) is_of_a_pooler: bool,
}

impl NoConnection {
    pub(crate) fn error(&self) -> Error {
        Error::new(self.kind, self.message.clone())
    }

    pub(super) const fn not_final(message: String) -> Self {
        Self { kind: ErrorKind::Refused, message, is_final: false, is_of_a_pooler: false }
    }

    /// Adds the reasons of the servers that were tried before.
    pub(super) fn after(self, before: Option<Self>) -> Self {
        let Some(before) = before else { return self };
        Self {
            kind: if before.is_final { self.kind } else { before.kind },
            message: format!("{}; {}", before.message, self.message),
            is_final: self.is_final && before.is_final,
            is_of_a_pooler: self.is_of_a_pooler || before.is_of_a_pooler,
        }
    }
}
