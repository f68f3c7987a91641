//! The rights on one table, prepared for checks.

use std::collections::HashMap;
use std::sync::Arc;

use marmota_model::rule::violation;
use marmota_model::{FieldSet, FilterExpr, KeyKind, Kind, Result, Table, ValueRef, Violation};

use super::grant::Right;
use crate::rows::predicate::Condition;

/// The rows to which a right applies.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    Denied,
    All,
    Where(Arc<Condition>),
}

impl Access {
    /// Applies to the rows that one of the filters selects.
    pub(crate) fn of(table: &Table, mut filters: Vec<FilterExpr>) -> Self {
        let filter = match filters.len() {
            1 => filters.remove(0),
            _ => FilterExpr::Or(filters),
        };
        Self::Where(Arc::new(Condition::new(filter, table)))
    }

    /// Applies to the rows to which both apply.
    fn and(&self, table: &Table, other: &Self) -> Self {
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
    fn or(&self, table: &Table, other: &Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Denied, access) | (access, Self::Denied) => access.clone(),
            (Self::Where(one), Self::Where(two)) => {
                Self::of(table, vec![one.filter().clone(), two.filter().clone()])
            }
        }
    }

    /// Returns true if it applies to a row; absent fields are unknown.
    pub(crate) fn extends_to(&self, table: &Table, row: &[ValueRef<'_>]) -> Result<bool> {
        match self {
            Self::Denied => Ok(false),
            Self::All => Ok(true),
            Self::Where(condition) => Ok(condition.asked(table)?.selects(row)),
        }
    }

    /// Returns the fields that its filter uses.
    pub(crate) fn fields(&self, table: &Table) -> FieldSet {
        match self {
            Self::Denied | Self::All => FieldSet::EMPTY,
            Self::Where(condition) => condition.filter().fields(table),
        }
    }

    /// Returns the filter for it, combined with another one; `None` for all rows.
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

    pub(crate) const fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }
}

/// A field that refers to rows of which the caller may not refer to all.
#[derive(Clone, Debug)]
pub(crate) struct Referring {
    pub(crate) field: usize,
    pub(crate) target: Arc<Table>,
    pub(crate) access: Access,
}

/// The rights of a caller on a table.
#[derive(Debug)]
pub(crate) struct TableRights {
    pub(crate) table: Arc<Table>,
    pub(crate) read: Access,
    pub(crate) history: Access,
    pub(crate) insert: Access,
    pub(crate) update: Access,
    pub(crate) delete: Access,
    refer: Access,
    pub(crate) referring: Vec<Referring>,
    /// True if a new row can be checked before its insert.
    pub(crate) tells_before: bool,
}

impl TableRights {
    /// Collects the rights from grants, each with its filter.
    pub(super) fn new(table: &Arc<Table>, granted: &[(&[Right], Option<FilterExpr>)]) -> Self {
        let of = |right| {
            let mut filters = Vec::new();
            for (_, filter) in granted.iter().filter(|(rights, _)| rights.contains(&right)) {
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
            tells_before: !key_is_made,
            table: Arc::clone(table),
            insert,
            read,
        }
    }

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
            rights.tells_before &= by_key;
            let (target, access) = (Arc::clone(target), access.clone());
            rights.referring.push(Referring { field, target, access });
        }
    }
}

impl Referring {
    /// Returns the key to which a row refers with the field.
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
