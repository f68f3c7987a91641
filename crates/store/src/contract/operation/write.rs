//! One write of a batch, as data.

use std::sync::Arc;

use marmota_model::{FilterExpr, Table, Value};

use super::cascade::Cascade;
use super::conflict::OnConflict;
use crate::contract::audit::Audit;
use crate::contract::row_hook::WriteHooks;
use crate::rights::Rights;

/// One write of a batch, which owns its values.
///
/// Callers make the first five variants. The store wraps a write in the others, from the inside out
/// `Cascading`, `Compared`, `Audited`, `Guarded`, `Hooked`: a write with a wrapper takes several operations
/// ([`Write::is_of_steps`]), which [`BatchMachine`](crate::operation::BatchMachine) executes.
///
/// ```
/// use std::sync::Arc;
/// use marmota_model::{Field, Kind, Role, Schema, Table, Value};
/// use marmota_store::operation::Write;
///
/// let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
/// let table = Arc::new(Table::new(city)?);
/// let write = Write::insert(Arc::clone(&table), vec![Value::Absent]);
/// assert_eq!(write.table().name(), "city");
/// assert!(!write.is_of_steps());
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Write {
    /// See [`Operation::Insert`](super::Operation::Insert).
    Insert {
        /// The table.
        table: Arc<Table>,
        /// The row.
        row: Vec<Value>,
        /// The action if a row exists.
        on_conflict: OnConflict,
    },
    /// See [`Operation::Update`](super::Operation::Update).
    Update {
        /// The table.
        table: Arc<Table>,
        /// The key.
        key: Value,
        /// The fields to write.
        row: Vec<Value>,
        /// The expected version.
        version: Option<i64>,
    },
    /// See [`Operation::Increment`](super::Operation::Increment).
    Increment {
        /// The table.
        table: Arc<Table>,
        /// The key.
        key: Value,
        /// The field.
        field: usize,
        /// The amount.
        by: Value,
        /// The time of the write.
        stamp: Value,
    },
    /// See [`Operation::Delete`](super::Operation::Delete).
    Delete {
        /// The table.
        table: Arc<Table>,
        /// The key.
        key: Value,
        /// The expected version.
        version: Option<i64>,
    },
    /// See [`Operation::DeleteWhere`](super::Operation::DeleteWhere).
    DeleteWhere {
        /// The table.
        table: Arc<Table>,
        /// The filter; `None` for all rows.
        filter: Option<FilterExpr>,
    },
    /// A delete of rows to which others refer with an action; made by the store.
    Cascading {
        /// The write.
        write: Box<Write>,
        /// What it does in other tables.
        cascade: Cascade,
    },
    /// A write to an audited table, with its history entry; made by the store.
    Audited {
        /// The write.
        write: Box<Write>,
        /// The actor, and the table of the entries.
        audit: Audit,
    },
    /// A write that gives values to immutable fields or generated columns; made by the store.
    Compared {
        /// The write.
        write: Box<Write>,
    },
    /// A write that is checked against the rights of its caller; made by the store.
    Guarded {
        /// The write.
        write: Box<Write>,
        /// The rights of the caller.
        rights: Arc<Rights>,
    },
    /// A write to a table with hooks that are called before it; made by the store.
    Hooked {
        /// The write.
        write: Box<Write>,
        /// The hooks.
        hooks: WriteHooks,
    },
}

impl Write {
    /// An insert that fails if the row exists.
    #[must_use]
    pub const fn insert(table: Arc<Table>, row: Vec<Value>) -> Self {
        Self::Insert { table, row, on_conflict: OnConflict::Refuse }
    }

    /// Returns the table that it writes to.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        match self {
            Self::Insert { table, .. }
            | Self::Update { table, .. }
            | Self::Increment { table, .. }
            | Self::Delete { table, .. }
            | Self::DeleteWhere { table, .. } => table,
            Self::Cascading { write, .. }
            | Self::Audited { write, .. }
            | Self::Compared { write }
            | Self::Guarded { write, .. }
            | Self::Hooked { write, .. } => write.table(),
        }
    }

    /// Returns the write itself, without the steps that the store adds.
    pub(crate) fn bare(&self) -> &Self {
        match self {
            Self::Cascading { write, .. }
            | Self::Audited { write, .. }
            | Self::Compared { write }
            | Self::Guarded { write, .. }
            | Self::Hooked { write, .. } => write.bare(),
            write => write,
        }
    }

    /// Returns the same for changes.
    pub(crate) fn bare_mut(&mut self) -> &mut Self {
        match self {
            Self::Cascading { write, .. }
            | Self::Audited { write, .. }
            | Self::Compared { write }
            | Self::Guarded { write, .. }
            | Self::Hooked { write, .. } => write.bare_mut(),
            write => write,
        }
    }

    /// Returns the same write, which fails if the row exists.
    pub(crate) fn refusing(&self) -> Self {
        let mut refusing = self.clone();
        if let Self::Insert { on_conflict, .. } = refusing.bare_mut() {
            *on_conflict = OnConflict::Refuse;
        }
        refusing
    }

    /// Returns the key in an insert's row, unless the engine is to generate one.
    pub(crate) fn key(&self) -> Option<Value> {
        match self.bare() {
            Self::Insert { table, row, .. } => row.get(table.key()).cloned(),
            _ => None,
        }
        .filter(|key| *key != Value::Absent)
    }

    /// Returns every table that it writes to: its own, those of rows that it deletes or changes
    /// because they refer to deleted ones and, if one of these is audited, the history's.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        let reached = self.cascade().into_iter().flat_map(Cascade::tables);
        std::iter::once(self.table()).chain(self.audit().map(Audit::table)).chain(reached)
    }

    /// Calls `visit` with each related table whose rows the write reads, by name: those of its
    /// filter, and those of the rules that it is checked against. A table may come several times.
    ///
    /// # Errors
    /// Those of `visit`.
    pub fn each_related<E>(
        &self,
        visit: &mut impl FnMut(&str) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        if let Self::DeleteWhere { filter: Some(filter), .. } = self.bare() {
            filter.each_related(visit)?;
        }
        self.rights().map_or(Ok(()), |rights| rights.each_related(self.table(), visit))
    }

    /// Returns true for a write that takes more than one operation.
    #[must_use]
    pub const fn is_of_steps(&self) -> bool {
        matches!(
            self,
            Self::Cascading { .. }
                | Self::Audited { .. }
                | Self::Compared { .. }
                | Self::Guarded { .. }
                | Self::Hooked { .. }
        )
    }

    /// Returns true for a write that is entered in the history.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use marmota_model::{Field, Kind, Role, Schema, Table, Value};
    /// # use marmota_store::operation::Write;
    /// # let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// # let table = Arc::new(Table::new(city)?);
    /// assert!(!Write::insert(table, vec![Value::Absent]).is_audited());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn is_audited(&self) -> bool {
        self.audit().is_some() || self.cascade().is_some_and(Cascade::is_audited)
    }

    /// Returns the hooks that are called before it.
    pub(crate) const fn hooks(&self) -> Option<&WriteHooks> {
        match self {
            Self::Hooked { hooks, .. } => Some(hooks),
            _ => None,
        }
    }

    /// Returns the rights of its caller, if they are checked.
    pub(crate) fn rights(&self) -> Option<&Arc<Rights>> {
        match self {
            Self::Guarded { rights, .. } => Some(rights),
            Self::Audited { write, .. } | Self::Compared { write } | Self::Hooked { write, .. } => {
                write.rights()
            }
            _ => None,
        }
    }

    /// Returns the data for its history entry, if its table is audited.
    pub(crate) fn audit(&self) -> Option<&Audit> {
        match self {
            Self::Audited { audit, .. } => Some(audit),
            Self::Guarded { write, .. } | Self::Compared { write } | Self::Hooked { write, .. } => {
                write.audit()
            }
            _ => None,
        }
    }

    /// Returns what a delete does to the rows that refer to the deleted ones.
    pub(crate) fn cascade(&self) -> Option<&Cascade> {
        match self {
            Self::Cascading { cascade, .. } => Some(cascade),
            Self::Audited { write, .. }
            | Self::Compared { write }
            | Self::Guarded { write, .. }
            | Self::Hooked { write, .. } => write.cascade(),
            _ => None,
        }
    }

    /// Returns the write with an entry in the history, if its table is audited.
    pub(crate) fn with_audit(self, audit: Option<&Audit>) -> Self {
        match audit {
            Some(audit) if self.table().schema().audit => {
                Self::Audited { write: Box::new(self), audit: audit.clone() }
            }
            _ => self,
        }
    }

    /// Returns the write with the hooks of its table, if there are any.
    pub(crate) fn with_hooks(self, hooks: Option<WriteHooks>) -> Self {
        match hooks {
            Some(hooks) => Self::Hooked { write: Box::new(self), hooks },
            None => self,
        }
    }
}
