//! The error type of Marmota: a kind, a message for the caller, the fields at fault, and a source
//! for the log.
//!
//! It is one word wide, so that `Result<T>` stays small on hot paths. Each engine maps its own
//! codes to an [`ErrorKind`] in one table; the REST layer maps kinds to HTTP statuses. Parsers on
//! hot paths use small `Copy` enums internally and convert them at their interface.

use std::fmt;

/// `Result` with Marmota's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The category of an error. New kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such row, table or route.
    NotFound,
    /// The write conflicts with stored data: a unique value, a row that is still referenced.
    Conflict,
    /// The row has changed since the caller read it.
    Stale,
    /// A field or an argument breaks a rule; see [`Error::violations`].
    Invalid,
    /// The caller has no right to do this.
    Denied,
    /// The operation requires an authenticated caller.
    Unauthenticated,
    /// Too many operations are waiting; try again later.
    Busy,
    /// It took longer than allowed.
    Timeout,
    /// The address refused the connection; nothing was done.
    Refused,
    /// The connection was lost, or the disk failed at the commit: it is unknown whether the
    /// operation was executed. Read before you retry.
    Lost,
    /// This engine or build does not support the operation.
    Unsupported,
    /// The disk is full, read-only or failing; nothing was written.
    Io,
    /// The peer violated the protocol.
    Protocol,
    /// The engine reported an error that has no other kind.
    Engine,
    /// The store or server is closed.
    Closed,
    /// A defect of Marmota; please report it.
    Bug,
}

impl ErrorKind {
    /// All kinds.
    const ALL: [Self; 16] = [
        Self::NotFound,
        Self::Conflict,
        Self::Stale,
        Self::Invalid,
        Self::Denied,
        Self::Unauthenticated,
        Self::Busy,
        Self::Timeout,
        Self::Refused,
        Self::Lost,
        Self::Unsupported,
        Self::Io,
        Self::Protocol,
        Self::Engine,
        Self::Closed,
        Self::Bug,
    ];

    /// Returns the kind with this [`ErrorKind::name`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the kind as a short lower-case word, which is the same in REST answers and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not-found",
            Self::Conflict => "conflict",
            Self::Stale => "stale",
            Self::Invalid => "invalid",
            Self::Denied => "denied",
            Self::Unauthenticated => "unauthenticated",
            Self::Busy => "busy",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Lost => "lost",
            Self::Unsupported => "unsupported",
            Self::Io => "io",
            Self::Protocol => "protocol",
            Self::Engine => "engine",
            Self::Closed => "closed",
            Self::Bug => "bug",
        }
    }
}

/// The maximum number of violations in an error. Parsers stop when they reach it.
pub const VIOLATIONS_MAX: usize = 100;

/// A field that breaks a rule: the same in Rust and in a REST answer.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Violation {
    /// The field, by its column name.
    pub field: String,
    /// The refused value as JSON text, cut to 100 characters.
    pub value: String,
    /// The broken rule in one word: `required`, `type`, `max`, `unique`, …
    pub rule: String,
    /// A sentence that states the fault and the correct form.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "field `{}` = {}: {} (rule {})", self.field, self.value, self.message, self.rule)
    }
}

/// An error of Marmota.
///
/// ```
/// use marmota_model::{Error, ErrorKind};
/// let error = Error::new(ErrorKind::NotFound, "no person with id 7");
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert_eq!(error.to_string(), "no person with id 7");
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    violations: Vec<Violation>,
    is_retryable: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Creates an error of `kind` with a message that may be shown to the caller.
    #[cold]
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            violations: Vec::new(),
            is_retryable: false,
            source: None,
        }))
    }

    /// Creates an [`ErrorKind::Invalid`] error with the broken rules, at most [`VIOLATIONS_MAX`].
    #[cold]
    #[must_use]
    pub fn invalid(mut violations: Vec<Violation>) -> Self {
        let message = match violations.as_slice() {
            [one] => one.to_string(),
            many if many.len() >= VIOLATIONS_MAX => {
                format!(
                    "{VIOLATIONS_MAX} or more fields are not valid; only the first ones are \
                         listed"
                )
            }
            many => format!("{} fields are not valid", many.len()),
        };
        violations.truncate(VIOLATIONS_MAX);
        Self(Box::new(Inner {
            kind: ErrorKind::Invalid,
            message,
            violations,
            is_retryable: false,
            source: None,
        }))
    }

    /// Adds the cause, for the log; it is not sent to callers over a network.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds the field, value and rule at fault.
    #[must_use]
    pub fn with_violation(mut self, violation: Violation) -> Self {
        self.0.violations.push(violation);
        self
    }

    /// Marks the error as retryable: the transaction conflicted with another one, and may succeed
    /// if it is repeated from its beginning.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.0.is_retryable = true;
        self
    }

    /// Returns a copy whose message starts with a place, such as the number of a row. The copy has
    /// no source.
    ///
    /// ```
    /// use marmota_model::{Error, ErrorKind};
    /// let error = Error::new(ErrorKind::Invalid, "the name is empty");
    /// assert_eq!(error.at("row 3").message(), "row 3: the name is empty");
    /// ```
    #[cold]
    #[must_use]
    pub fn at(&self, place: impl std::fmt::Display) -> Self {
        Self(Box::new(Inner {
            kind: self.0.kind,
            message: format!("{place}: {}", self.0.message),
            violations: self.0.violations.clone(),
            is_retryable: self.0.is_retryable,
            source: None,
        }))
    }

    /// Returns true if the transaction may succeed when it is repeated from its beginning.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.is_retryable
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message for the caller.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the fields at fault, if the error is about fields.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.0.violations
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if self.0.violations.len() > 1 {
            for violation in &self.0.violations {
                write!(f, "; {violation}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)?;
        if let Some(source) = &self.0.source {
            write!(f, " (caused by: {source})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, error.to_string()).with_source(error)
    }
}
