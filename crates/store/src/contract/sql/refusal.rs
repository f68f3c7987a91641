//! Statements that an engine refuses for their use, before or after the database has seen them.

use std::fmt;

use marmota_model::text::excerpt;
use marmota_model::{Error, ErrorKind};

/// The reason why an engine refuses a statement of raw SQL that the database would accept.
///
/// It is the source of the error. Its message is for programs that call the methods of a store; what
/// passes statements on for others has the reason for a message of its own.
///
/// ```
/// use marmota_model::ErrorKind;
/// use marmota_store::sql::SqlRefusal;
///
/// let error = SqlRefusal::ChangesRows.at("DELETE FROM city");
/// assert_eq!(error.kind(), ErrorKind::Denied);
/// assert_eq!(SqlRefusal::of(&error), Some(&SqlRefusal::ChangesRows));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlRefusal {
    /// A statement of `sql` that changes rows.
    ChangesRows,
    /// A statement of `execute` that changes nothing.
    ChangesNothing,
    /// A write to the table of an audited model, which would leave no history entry.
    Audited {
        /// The table.
        table: String,
    },
    /// A statement that neither reads nor changes rows.
    OtherStatement {
        /// Its first word.
        word: String,
        /// The first words that `sql` accepts.
        reads: &'static [&'static str],
        /// The first words that `execute` accepts.
        writes: &'static [&'static str],
    },
}

impl SqlRefusal {
    /// Returns the error for a statement.
    #[cold]
    #[must_use]
    pub fn at(self, text: &str) -> Error {
        let kind = match self {
            Self::ChangesNothing => ErrorKind::Invalid,
            _ => ErrorKind::Denied,
        };
        Error::new(kind, format!("{self} (in: {})", excerpt(text))).with_source(self)
    }

    /// Returns the reason of an error; `None` for other errors.
    #[must_use]
    pub fn of(error: &Error) -> Option<&Self> {
        std::error::Error::source(error)?.downcast_ref()
    }
}

impl fmt::Display for SqlRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChangesRows => {
                f.write_str("the statement changes rows, but `sql` only reads: use `execute`")
            }
            Self::ChangesNothing => {
                f.write_str("the statement changes nothing: use `sql` to read its rows")
            }
            Self::Audited { table } => write!(
                f,
                "the statement writes to `{table}`, and raw SQL adds no entries to the history: \
                 use the verbs (`insert`, `patch`, …), or call `.unaudited()` to write without \
                 entries"
            ),
            Self::OtherStatement { word, reads, writes } => write!(
                f,
                "`{}` is not allowed: `sql` accepts {}; `execute` accepts {}. Use migrations to \
                 change tables, and `store.transaction` for transactions",
                excerpt(word),
                reads.join(", "),
                writes.join(", ")
            ),
        }
    }
}

impl std::error::Error for SqlRefusal {}
