//! What happens to a row when the row that it refers to is deleted.

use std::fmt;
use std::str::FromStr;

use crate::{Error, ErrorKind};

/// What happens to a row when the row that it refers to is deleted ([`Field::on_delete`]).
///
/// It applies to every path: verbs, deletes by filter, batches, REST, remote stores, and raw SQL.
///
/// ```
/// use marmota_model::OnDelete;
/// assert_eq!("set_null".parse::<OnDelete>()?, OnDelete::SetNull);
/// assert_eq!(OnDelete::default().name(), "restrict");
/// assert!("nothing".parse::<OnDelete>().is_err());
/// # Ok::<(), marmota_model::Error>(())
/// ```
///
/// [`Field::on_delete`]: crate::Field::on_delete
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnDelete {
    /// The delete is refused as a conflict.
    #[default]
    Restrict,
    /// The row is deleted as well, and the rows that refer to it as their fields state.
    Cascade,
    /// The reference becomes NULL. The row's version is incremented, and its time of the last write
    /// is set.
    SetNull,
}

impl OnDelete {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Restrict, Self::Cascade, Self::SetNull];

    /// Returns its name, as `#[model(on_delete = "…")]` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Restrict => "restrict",
            Self::Cascade => "cascade",
            Self::SetNull => "set_null",
        }
    }
}

impl fmt::Display for OnDelete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for OnDelete {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|one| one.name() == name).ok_or_else(|| {
            let name = crate::text::excerpt(name);
            let message = format!(
                "`{name}` is not an action of a delete; use `restrict`, `cascade` or `set_null`"
            );
            Error::new(ErrorKind::Invalid, message)
        })
    }
}
