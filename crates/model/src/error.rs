//! The error type of Marmota: a kind, a message for the caller, the fields at fault, and a source
//! for the log.
//!
//! It is one word wide, so that `Result<T>` stays small on hot paths. Each engine maps its own
//! codes to an [`ErrorKind`] in one table; the REST layer maps kinds to HTTP statuses. Parsers on
//! hot paths use small `Copy` enums internally and convert them at their interface.

use std::fmt;

/// `Result` with Marmota's [`Error`].
///
/// ```
/// fn half(number: i64) -> marmota_model::Result<i64> {
///     Ok(number / 2)
/// }
/// assert_eq!(half(4)?, 2);
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The category of an error. New kinds may be added.
///
/// REST maps each kind to a status of HTTP.
///
/// | kind | status | what the caller can do |
/// |---|---|---|
/// | `NotFound` | 404 | |
/// | `Conflict` | 409 | write other values, or remove what conflicts |
/// | `Stale` | 412 | read the row again, then write |
/// | `Invalid` | 422 with violations, else 400 | correct the fields |
/// | `Unauthenticated`, `Denied` | 401, 403 | sign in; use other rights |
/// | `Busy`, `Refused`, `Io`, `Closed` | 503 | repeat later: nothing was done |
/// | `Timeout` | 504 | repeat with more time |
/// | `Lost` | 502 | read, then decide: it may have been done |
/// | `Unsupported` | 501 | use another engine or feature |
/// | `Protocol`, `Engine`, `Bug` | 500 | see the log |
///
/// ```
/// use marmota_model::{Error, ErrorKind};
/// fn is_worth_a_retry(error: &Error) -> bool {
///     error.is_retryable() || matches!(error.kind(), ErrorKind::Busy | ErrorKind::Refused)
/// }
/// assert!(is_worth_a_retry(&Error::new(ErrorKind::Busy, "100 operations are waiting")));
/// ```
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
    ///
    /// ```
    /// use marmota_model::ErrorKind;
    /// assert_eq!(ErrorKind::named("not-found"), Some(ErrorKind::NotFound));
    /// assert_eq!(ErrorKind::named("?"), None);
    /// ```
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the kind as a short lower-case word, which is the same in REST answers and logs.
    ///
    /// ```
    /// assert_eq!(marmota_model::ErrorKind::NotFound.name(), "not-found");
    /// ```
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
///
/// ```
/// use marmota_model::{Field, Kind, Role, Schema, Table, ValueRef};
/// let age = Kind::Int { min: 0, max: 150 };
/// let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("age", age)];
/// let table = Table::new(Schema::new("person", fields))?;
/// let error = table.validate(&[ValueRef::Int(1), ValueRef::Int(-4)]).unwrap_err();
/// let fault = &error.violations()[0];
/// assert_eq!((&*fault.field, &*fault.value, &*fault.rule), ("age", "-4", "range"));
/// assert_eq!(fault.message, "must be between 0 and 150");
/// # Ok::<(), marmota_model::Error>(())
/// ```
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
        // Of a field that does not exist, the name is at fault, and not its value.
        if self.rule == "unknown" {
            return write!(f, "field `{}`: {}", self.field, self.message);
        }
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
    /// Secrets, and details of the server, belong into the source ([`Error::with_source`]).
    ///
    /// ```
    /// use marmota_model::{Error, ErrorKind};
    /// let error = Error::new(ErrorKind::Denied, "only its owner may delete a note");
    /// assert!(error.violations().is_empty());
    /// ```
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
    ///
    /// ```
    /// use marmota_model::{Error, ErrorKind, Violation};
    /// let violation = |field: &str| Violation {
    ///     field: field.to_owned(),
    ///     value: "null".to_owned(),
    ///     rule: "required".to_owned(),
    ///     message: "must not be null".to_owned(),
    /// };
    /// let error = Error::invalid(vec![violation("name"), violation("city")]);
    /// assert_eq!(error.kind(), ErrorKind::Invalid);
    /// assert_eq!(error.message(), "2 fields are not valid");
    /// ```
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
    ///
    /// ```
    /// use std::error::Error as _;
    /// use marmota_model::{Error, ErrorKind};
    /// let cause = std::io::Error::other("disk quota exceeded");
    /// let error = Error::new(ErrorKind::Io, "the row was not written").with_source(cause);
    /// assert_eq!(error.to_string(), "the row was not written");
    /// assert!(error.source().is_some());
    /// ```
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds the field, value and rule at fault.
    /// The kind and the message stay.
    ///
    /// ```
    /// use marmota_model::rule::violation;
    /// use marmota_model::{Error, ErrorKind, Field, Kind, ValueRef};
    /// let taken = violation(
    ///     &Field::new("email", Kind::TEXT), ValueRef::Text("a@b.org"), "unique", "is taken");
    /// let error = Error::new(ErrorKind::Conflict, "the address is in use").with_violation(taken);
    /// assert_eq!(error.violations()[0].rule, "unique");
    /// ```
    #[must_use]
    pub fn with_violation(mut self, violation: Violation) -> Self {
        self.0.violations.push(violation);
        self
    }

    /// Marks the error as retryable: the transaction conflicted with another one, and may succeed
    /// if it is repeated from its beginning.
    ///
    /// ```
    /// use marmota_model::{Error, ErrorKind};
    /// let error = Error::new(ErrorKind::Conflict, "a concurrent transaction came first").retryable();
    /// assert!(error.is_retryable());
    /// ```
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
