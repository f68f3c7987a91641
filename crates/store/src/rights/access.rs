//! The rights on one table, prepared for checks.
//!
//! [`Access`] is a set of rows: none, all, or those that a filter selects. The rights of several
//! grants are combined once, when a caller's [`super::Rights`] are made, so that a check costs one
//! evaluation of a filter at most.

use std::collections::HashMap;
use std::sync::Arc;

use marmota_model::rule::violation;
use marmota_model::{
    FieldSet, FilterExpr, KeyKind, Kind, Result, Table, ValueRef, ViewFields, Violation,
};

use super::fields::FieldAccess;
use super::grant::Right;
use crate::rows::predicate::Condition;

/// The rows to which a right applies.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// No row.
    Denied,
    /// Every row; nothing is to be checked.
    All,
    /// The rows that the condition selects.
    Where(Arc<Condition>),
}

impl Access {
    /// Applies to the rows that one of the filters selects.
    ///
    /// An empty list selects no row.
    pub(crate) fn of(table: &Table, mut filters: Vec<FilterExpr>) -> Self {
        let filter = match filters.len() {
            1 => filters.remove(0),
            _ => FilterExpr::Or(filters),
        };
        Self::Where(Arc::new(Condition::new(filter, table)))
    }

    /// Applies to the rows to which both apply.
    ///
    /// Equal filters are not repeated: grants usually have the same rule for several rights.
    pub(crate) fn and(&self, table: &Table, other: &Self) -> Self {
        match (self, other) {
            (Self::Denied, _) | (_, Self::Denied) => Self::Denied,
            (Self::All, access) | (access, Self::All) => access.clone(),
            (Self::Where(one), Self::Where(two)) if one.filter() == two.filter() => self.clone(),
            (Self::Where(one), Self::Where(two)) => {
                let both = FilterExpr::And(vec![one.filter().clone(), two.filter().clone()]);
                Self::of(table, vec![both])
            }
        }
    }

    /// Applies to the rows to which one of them applies.
    pub(super) fn or(&self, table: &Table, other: &Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Denied, access) | (access, Self::Denied) => access.clone(),
            (Self::Where(one), Self::Where(two)) => {
                Self::of(table, vec![one.filter().clone(), two.filter().clone()])
            }
        }
    }

    /// Returns true if it applies to a row; absent fields are unknown.
    ///
    /// A condition on an unknown field does not apply (SQL's three-valued logic).
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] for a condition on a field that the table does not
    /// have.
    pub(crate) fn extends_to(&self, table: &Table, row: &[ValueRef<'_>]) -> Result<bool> {
        match self {
            Self::Denied => Ok(false),
            Self::All => Ok(true),
            Self::Where(condition) => Ok(condition.asked(table)?.selects(row)),
        }
    }

    /// Returns the fields that its filter uses.
    ///
    /// A check of a row needs exactly these.
    pub(crate) fn fields(&self, table: &Table) -> FieldSet {
        match self {
            Self::Denied | Self::All => FieldSet::EMPTY,
            Self::Where(condition) => condition.filter().fields(table),
        }
    }

    /// Returns the filter for it, combined with another one; `None` for all rows.
    ///
    /// An empty `Or` selects no row, and is how a denied access is expressed as a filter.
    pub(crate) fn narrow(&self, filter: Option<FilterExpr>) -> Option<FilterExpr> {
        match (self, filter) {
            (Self::All, filter) => filter,
            (Self::Denied, _) => Some(FilterExpr::Or(Vec::new())),
            (Self::Where(condition), None) => Some(condition.filter().clone()),
            (Self::Where(condition), Some(filter)) => {
                Some(FilterExpr::And(vec![condition.filter().clone(), filter]))
            }
        }
    }

    /// Returns true if nothing is to be checked.
    pub(crate) const fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }
}

/// The rights of a grant, with its fields and the filter of its rows.
pub(super) type Granted<'g> = (&'g [Right], FieldSet, Option<FilterExpr>);

/// A field that refers to rows of which the caller may not refer to all.
///
/// Fields that may refer to all rows have no entry, so that their writes are not checked.
#[derive(Clone, Debug)]
pub(crate) struct Referring {
    /// The index of the field.
    pub(crate) field: usize,
    /// The table that it refers to.
    pub(crate) target: Arc<Table>,
    /// The rows to which the caller may refer: by the right `refer` or `read`.
    pub(crate) access: Access,
}

/// The rights of a caller on a table.
///
/// `update`, `delete` and `history` are already narrowed to rows that may be read; `insert` is not,
/// since a caller may write rows that they cannot read.
#[derive(Debug)]
pub(crate) struct TableRights {
    pub(crate) table: Arc<Table>,
    /// The rows to get, list and count.
    pub(crate) read: Access,
    /// The rows whose entries may be read.
    pub(crate) history: Access,
    /// The new rows that may be written.
    pub(crate) insert: Access,
    /// The rows that may be changed, before and after the write.
    pub(crate) update: Access,
    /// The rows that may be removed.
    pub(crate) delete: Access,
    /// The rows to which other rows may refer.
    refer: Access,
    /// The fields whose values have to be checked.
    pub(crate) referring: Vec<Referring>,
    /// True if a new row can be checked before its insert.
    ///
    /// False if the rule uses an automatic key or related rows, if a reference is restricted by more
    /// than the target's key, or if it may depend on default expressions: then the checks need the
    /// database.
    pub(crate) tells_before: bool,
    /// The fields that may be read; `None` for all.
    pub(crate) read_fields: Option<FieldAccess>,
    /// The fields that new rows may have values for; `None` for all.
    pub(crate) insert_fields: Option<FieldAccess>,
    /// The fields that may be changed; `None` for all.
    pub(crate) update_fields: Option<FieldAccess>,
    /// The fields that entries of the history have for the caller.
    pub(crate) history_fields: FieldSet,
    /// The table as interfaces with names show it to the caller, if it is limited.
    pub(crate) view: Option<Arc<Table>>,
    /// The rights that the caller has again after a new authentication.
    pub(super) after_step_up: Vec<Right>,
}

impl TableRights {
    /// Collects the rights from grants, each with its filter.
    pub(super) fn new(table: &Arc<Table>, granted: &[Granted<'_>]) -> Self {
        let of = |right| {
            let mut filters = Vec::new();
            for (.., filter) in granted.iter().filter(|(rights, ..)| rights.contains(&right)) {
                match filter {
                    None => return Access::All,
                    Some(filter) => filters.push(filter.clone()),
                }
            }
            match filters.is_empty() {
                true => Access::Denied,
                false => Access::of(table, filters),
            }
        };
        let fields_of = |right| {
            let of = granted.iter().filter(|(rights, ..)| rights.contains(&right));
            let of: Vec<_> = of.map(|(_, fields, filter)| (*fields, filter.clone())).collect();
            FieldAccess::new(table, &of)
        };
        let every = |fields: &Option<FieldAccess>| {
            fields.as_ref().map_or(table.all(), |fields| fields.every)
        };
        let read_fields = fields_of(Right::Read);
        let history_fields = every(&read_fields).intersection(every(&fields_of(Right::History)));
        let read = of(Right::Read);
        let seen = |right| of(right).and(table, &read);
        let insert = of(Right::Insert);
        let key_is_made =
            table.key_kind() == KeyKind::Auto && insert.fields(table).contains(table.key());
        Self {
            history: seen(Right::History),
            update: seen(Right::Update),
            delete: seen(Right::Delete),
            refer: of(Right::Refer).or(table, &read),
            referring: Vec::new(),
            tells_before: !key_is_made
                && !insert.has_relations()
                && (insert.is_all() || !table.has_determined_values()),
            table: Arc::clone(table),
            insert,
            read,
            read_fields,
            insert_fields: fields_of(Right::Insert),
            update_fields: fields_of(Right::Update),
            history_fields,
            view: None,
            after_step_up: Vec::new(),
        }
    }

    /// Returns true if the caller may not use all fields.
    pub(super) const fn is_limited(&self) -> bool {
        self.read_fields.is_some() || self.insert_fields.is_some() || self.update_fields.is_some()
    }

    /// Returns the fields that the caller may name.
    pub(super) fn view_fields(&self) -> ViewFields {
        let any = |rows: &Access, fields: &Option<FieldAccess>| match (rows, fields) {
            (Access::Denied, _) => FieldSet::EMPTY,
            (_, None) => self.table.all(),
            (_, Some(fields)) => fields.any,
        };
        let updated = any(&self.update, &self.update_fields);
        let written = any(&self.insert, &self.insert_fields).union(updated);
        let readable = match any(&self.read, &self.read_fields) {
            // The names are those of the rows that the caller may write.
            none if none.is_empty() => written,
            readable => readable,
        };
        ViewFields { readable, written: written.union(readable), updated }
    }

    /// Returns the rows to which a right applies. [`Right::Call`] applies to none.
    pub(crate) const fn access(&self, right: Right) -> &Access {
        match right {
            Right::Read => &self.read,
            Right::History => &self.history,
            Right::Insert => &self.insert,
            Right::Update => &self.update,
            Right::Delete => &self.delete,
            Right::Refer => &self.refer,
            Right::Call => &Access::Denied,
        }
    }
}

/// Sets, for each table, which of its fields may not refer to all rows.
///
/// It runs after all tables are collected, because a reference needs the rights on its target.
pub(super) fn settle_references(tables: &mut [TableRights]) {
    let targets: HashMap<String, (Arc<Table>, Access)> = tables
        .iter()
        .map(|rights| {
            (rights.table.name().to_owned(), (Arc::clone(&rights.table), rights.refer.clone()))
        })
        .collect();
    for rights in tables {
        for (field, of) in rights.table.fields().iter().enumerate() {
            let Kind::Reference { table: to, .. } = &of.kind else { continue };
            let Some((target, access)) = targets.get(&**to) else { continue };
            if access.is_all() {
                continue;
            }
            let key = FieldSet::EMPTY.with(target.key());
            let by_key = access.fields(target).union(key) == key;
            let is_filled = rights.table.has_default_expression(field);
            rights.tells_before &= by_key && !access.has_relations() && !is_filled;
            let (target, access) = (Arc::clone(target), access.clone());
            rights.referring.push(Referring { field, target, access });
        }
    }
}

impl Referring {
    /// Returns the key to which a row refers with the field.
    ///
    /// `None` if the field is NULL or absent, which refers to nothing.
    pub(super) fn key_in<'v>(&self, row: &[ValueRef<'v>]) -> Option<ValueRef<'v>> {
        row.get(self.field).copied().filter(|key| !key.is_null() && !key.is_absent())
    }

    /// The violation is the same for a missing row and for one that the caller may not refer to.
    pub(crate) fn violation(&self, table: &Table, key: ValueRef<'_>) -> Violation {
        let target = self.target.name();
        let message = format!(
            "must be the key of a row of `{target}` that this caller may read or refer to: send \
             another key, or, if the row exists, give the caller a grant on `{target}` with the \
             right `refer`"
        );
        violation(&table.fields()[self.field], key, "reference", message)
    }
}
