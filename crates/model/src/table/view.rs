//! A caller's view of a table: the same fields at the same positions, some of which have no name.

use std::sync::Arc;

use super::prepared::Table;
use super::relation::Links;
use crate::FieldSet;

/// The fields of a table that a caller may use, for [`Table::view`].
///
/// ```
/// use marmota_model::{FieldSet, ViewFields};
/// let all = FieldSet::first(3);
/// let fields = ViewFields { readable: all.without(2), written: all, updated: all };
/// assert!(!fields.readable.contains(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewFields {
    /// The fields that may be read: those that filters, orders and answers can name.
    pub readable: FieldSet,
    /// The fields that a row to be written can name: those that may be read or written.
    pub written: FieldSet,
    /// The fields that an update may write. A write of a whole row keeps the others.
    pub updated: FieldSet,
}

impl ViewFields {
    /// Returns all fields of a table.
    #[must_use]
    pub const fn all(table: &Table) -> Self {
        let all = table.all();
        Self { readable: all, written: all, updated: all }
    }
}

/// The part of a [`Table`] that makes it a view.
#[derive(Debug)]
pub(super) struct View {
    original: Arc<Table>,
    fields: ViewFields,
}

impl Table {
    /// Returns a view of a table, in which fields that are not readable have no name.
    ///
    /// A filter, an order or a name of a field that is parsed with the view fails for such a field
    /// exactly as for one that does not exist. Positions are those of the original, so what was
    /// parsed applies to it. The view has no links to other tables
    /// ([`LinkedTables::of_views`](crate::LinkedTables::of_views)).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use marmota_model::{Field, FieldSet, Kind, Role, Schema, Table, ViewFields};
    /// let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("pay", Kind::I64)];
    /// let table = Arc::new(Table::new(Schema::new("person", fields))?);
    /// let id = FieldSet::EMPTY.with(0);
    /// let view = Table::view(&table, ViewFields { readable: id, written: id, updated: id });
    /// assert_eq!(view.find("pay"), None);
    /// assert!(view.unknown_field("pay", "1").message.ends_with("it has id"));
    /// assert_eq!(view.original().find("pay"), Some(1));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn view(original: &Arc<Self>, fields: ViewFields) -> Self {
        let of = &**original;
        let mut positions = of.positions.clone();
        positions.retain(|_, position| fields.readable.contains(*position));
        Self {
            schema: of.schema.clone(),
            positions,
            json_members: of.json_members.clone(),
            rules: of.rules.clone(),
            typed_rules: of.typed_rules.clone(),
            defaults: of.defaults.clone(),
            expressions: Arc::clone(&of.expressions),
            made: of.made.clone(),
            row_texts: of.row_texts.clone(),
            key_kind: of.key_kind,
            all: of.all,
            read_by_default: of.read_by_default.intersection(fields.readable),
            immutable: of.immutable,
            sanitized: of.sanitized.clone(),
            created_at: of.created_at,
            updated_at: of.updated_at,
            version: of.version,
            shape: Arc::clone(&of.shape),
            links: Links::default(),
            index_filters: None,
            view: Some(Box::new(View { original: Arc::clone(original), fields })),
        }
    }

    /// Returns the table of which this is a view, or the table itself.
    #[must_use]
    #[inline]
    pub fn original(&self) -> &Self {
        self.view.as_ref().map_or(self, |view| &view.original)
    }

    /// [`Table::original`], shared.
    #[must_use]
    pub fn original_of(table: &Arc<Self>) -> Arc<Self> {
        Arc::clone(table.view.as_ref().map_or(table, |view| &view.original))
    }

    pub(super) const fn is_view(&self) -> bool {
        self.view.is_some()
    }

    /// Returns true unless this is a view in which the field may not be read.
    #[must_use]
    pub fn is_readable(&self, position: usize) -> bool {
        self.view.as_ref().is_none_or(|view| view.fields.readable.contains(position))
    }

    /// Returns true unless this is a view in which an update may not write the field.
    #[must_use]
    pub fn is_updated(&self, position: usize) -> bool {
        self.view.as_ref().is_none_or(|view| view.fields.updated.contains(position))
    }

    /// Returns the position of a field of a row to be written: like [`Table::find`], but a view
    /// also has the fields that may only be written.
    #[must_use]
    pub fn find_written(&self, name: &str) -> Option<usize> {
        match &self.view {
            None => self.find(name),
            Some(view) => {
                view.original.find(name).filter(|&field| view.fields.written.contains(field))
            }
        }
    }
}
