//! The one error of Marmota: a kind, a message for the caller, the fields at
//! fault, and a source for the log.
//!
//! It is one word wide, so that `Result<T>` stays small on hot paths. Engines
//! map their own codes to an [`ErrorKind`] in one table each; the REST layer
//! maps a kind to an HTTP status once. Parsers on hot paths keep small `Copy`
//! enums of their own and convert at their edge.

use std::fmt;

/// `Result` with Marmota's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in one word. New kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such row, table or route.
    NotFound,
    /// The write collides with what is stored: a unique value, a row still referred to.
    Conflict,
    /// The row has changed since the caller read it.
    Stale,
    /// A field or an argument breaks a rule; see [`Error::violations`].
    Invalid,
    /// The caller may not do this.
    Denied,
    /// Who calls has to be known for this, and is not.
    Unauthenticated,
    /// Too much is waiting; try again later.
    Busy,
    /// It took longer than allowed.
    Timeout,
    /// Nobody takes connections at the address; nothing was done.
    Refused,
    /// The other side went away, or the disk failed at the commit: whether the
    /// operation took place is unknown. Read before you retry.
    Lost,
    /// This engine or build cannot do it.
    Unsupported,
    /// The disk is full, read-only or failing; nothing was written.
    Io,
    /// The other side broke its protocol.
    Protocol,
    /// The engine reported an error of its own.
    Engine,
    /// The store or server is closed.
    Closed,
    /// A defect of Marmota; please report it.
    Bug,
}

impl ErrorKind {
    /// Every kind.
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

    /// The kind with this [`ErrorKind::name`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind as a short lower-case word, the same in REST answers and logs.
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

/// Broken rules that an error names at most. Who reads more stops there.
pub const VIOLATIONS_MAX: usize = 100;

/// One field that broke one rule: the same in Rust and in a REST answer.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Violation {
    /// The field, by its column name.
    pub field: String,
    /// The value refused, as JSON text, cut to 100 characters.
    pub value: String,
    /// The rule broken, in one word: `required`, `type`, `max`, `unique`, …
    pub rule: String,
    /// What is wrong and what would be right, in a sentence.
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
    /// An error of `kind` with a message that may be shown to the caller.
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

    /// An [`ErrorKind::Invalid`] error that lists the broken rules, [`VIOLATIONS_MAX`] at most.
    #[cold]
    #[must_use]
    pub fn invalid(mut violations: Vec<Violation>) -> Self {
        let message = match violations.as_slice() {
            [one] => one.to_string(),
            many if many.len() >= VIOLATIONS_MAX => {
                format!("{VIOLATIONS_MAX} fields or more are not valid; the first ones are named")
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

    /// Adds the cause, for the log; callers over a network do not see it.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Names the field, value and rule at fault.
    #[must_use]
    pub fn with_violation(mut self, violation: Violation) -> Self {
        self.0.violations.push(violation);
        self
    }

    /// Says that the same may succeed when it is run again from its beginning:
    /// another transaction was in the way.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.0.is_retryable = true;
        self
    }

    /// True if the same may succeed when it is run again from its beginning.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.is_retryable
    }

    /// What went wrong, in one word.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message for the caller.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The fields at fault, if the error is about fields.
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
