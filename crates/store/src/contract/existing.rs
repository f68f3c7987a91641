//! The structure of a database as its engine finds it, including tables without a model.

use marmota_model::{Kind, OnDelete};

/// A table or view of a database.
///
/// ```
/// use marmota_store::existing::ExistingTable;
/// let view = ExistingTable { name: "totals".to_owned(), ..ExistingTable::default() };
/// assert!(!view.is_table && view.columns.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExistingTable {
    /// Its name.
    pub name: String,
    /// False for a view, a virtual table or another object that is read like a table.
    pub is_table: bool,
    /// Its columns, in order.
    pub columns: Vec<ExistingColumn>,
    /// The columns of its primary key, in the order of the key.
    pub key: Vec<String>,
    /// Its indexes, without that of its key.
    pub indexes: Vec<ExistingIndex>,
    /// Its foreign keys.
    pub references: Vec<ExistingReference>,
    /// The conditions of its CHECK constraints, as SQL.
    pub checks: Vec<String>,
    /// The statement that creates it, if the database keeps that instead of `checks`.
    pub definition: Option<String>,
}

/// A column of an existing table.
///
/// ```
/// use marmota_model::Kind;
/// use marmota_store::existing::ExistingColumn;
/// let column = ExistingColumn::new("born", "date", Ok(Kind::Date));
/// assert!(!column.is_key && column.kind.is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct ExistingColumn {
    /// Its name.
    pub name: String,
    /// Its type, as SQL.
    pub declared: String,
    /// The kind of field that reads and writes its values without loss; otherwise the reason why no
    /// kind does, and what to do.
    pub kind: Result<Kind, String>,
    /// A regular expression that the whole of its texts must match, so that the database stores them
    /// unchanged.
    pub pattern: Option<&'static str>,
    /// What a reader has to know about its values.
    pub remark: Option<String>,
    /// True if it may be NULL.
    pub nullable: bool,
    /// True if an insert must set it.
    pub is_required: bool,
    /// True if it is the key, or a part of it.
    pub is_key: bool,
    /// True if the database computes its values, so that no write has them.
    pub is_generated: bool,
    /// Its default, as SQL.
    pub default: Option<String>,
}

impl ExistingColumn {
    /// Creates a column that may be NULL.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        declared: impl Into<String>,
        kind: Result<Kind, String>,
    ) -> Self {
        Self {
            name: name.into(),
            declared: declared.into(),
            kind,
            pattern: None,
            remark: None,
            nullable: true,
            is_required: false,
            is_key: false,
            is_generated: false,
            default: None,
        }
    }
}

/// An index of an existing table.
///
/// ```
/// use marmota_store::existing::ExistingIndex;
/// let index =
///     ExistingIndex { name: "by_name".to_owned(), unique: false, columns: None, filter: None };
/// assert!(index.columns.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct ExistingIndex {
    /// Its name.
    pub name: String,
    /// True if no two rows have the same values in it.
    pub unique: bool,
    /// Its columns; `None` if it has expressions, or a condition that no filter states.
    pub columns: Option<Vec<String>>,
    /// The condition of a partial index as the text of a filter.
    pub filter: Option<String>,
}

/// A foreign key of an existing table.
///
/// ```
/// use marmota_model::OnDelete;
/// use marmota_store::existing::ExistingReference;
/// let reference = ExistingReference {
///     columns: vec!["album".to_owned()],
///     table: "album".to_owned(),
///     to: vec!["id".to_owned()],
///     on_delete: OnDelete::Cascade,
/// };
/// assert_eq!(reference.columns.len(), reference.to.len());
/// ```
#[derive(Clone, Debug)]
pub struct ExistingReference {
    /// The columns that refer.
    pub columns: Vec<String>,
    /// The table that they refer to.
    pub table: String,
    /// The columns that they refer to; empty for the key of the table.
    pub to: Vec<String>,
    /// What a delete of the row that they refer to does.
    pub on_delete: OnDelete,
}
