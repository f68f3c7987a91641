//! The table to which the positions of fields in a filter or order refer.

use std::sync::Arc;

use crate::table::TableShape;
use crate::{Error, ErrorKind, Result, Table};

/// The table to which the positions of fields in a filter or order refer.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// That of the model in the type; or the filter has no positions.
    Model,
    /// One table.
    Table(Arc<TableShape>),
    /// Two tables: an error when the filter is used.
    Mixed(Arc<[Arc<TableShape>; 2]>),
}

impl PartialEq for Subject {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Model, Self::Model) => true,
            (Self::Table(one), Self::Table(two)) => one.hash == two.hash,
            (Self::Mixed(one), Self::Mixed(two)) => {
                one.iter().zip(two.iter()).all(|(one, two)| one.hash == two.hash)
            }
            _ => false,
        }
    }
}

impl Subject {
    pub(super) fn of(table: &Table) -> Self {
        Self::Table(Arc::clone(table.shape()))
    }

    pub(super) fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Model, other) => other,
            (one @ Self::Mixed(_), _) | (one, Self::Model) => one,
            (_, two @ Self::Mixed(_)) => two,
            (Self::Table(one), Self::Table(two)) if one.hash == two.hash => Self::Table(one),
            (Self::Table(one), Self::Table(two)) => Self::Mixed(Arc::new([one, two])),
        }
    }

    /// Refuses positions of another table. `field` is the first position.
    #[inline]
    pub(super) fn check(&self, hash: u64, table: &str, field: Option<usize>) -> Result<()> {
        match self {
            Self::Model => Ok(()),
            Self::Table(shape) if shape.hash == hash => Ok(()),
            other => Err(other.misplaced(table, field)),
        }
    }

    #[cold]
    fn misplaced(&self, table: &str, field: Option<usize>) -> Error {
        let message = match self {
            Self::Mixed(both) => format!(
                "a filter of `{table}` combines conditions on `{}` and `{}`; use conditions on one \
                 table",
                both[0].table, both[1].table
            ),
            Self::Table(shape) => {
                let on = field.map(|at| format!("field `{}` of ", shape.field(at)));
                let other = if *shape.table == *table { "another version of " } else { "" };
                format!(
                    "a filter or order on {}{other}`{}` was used on `{table}`; use the columns of \
                     `{table}`",
                    on.unwrap_or_default(),
                    shape.table
                )
            }
            Self::Model => format!("a filter or order of another model was used on `{table}`"),
        };
        Error::new(ErrorKind::Invalid, message)
    }
}
