//! The fields that a right extends to.
//!
//! A grant extends to all fields of its rows, or to some of them. A value may be used by a caller
//! if one of the grants extends to its row and to its field. If the grants differ in their fields,
//! the fields therefore depend on the row:
//!
//! - Values in answers are checked row by row ([`RowMask`]).
//! - A filter, an order or an aggregate must not depend on other values. It only sees rows in which
//!   all of its fields may be used ([`FieldAccess::narrowing`]).
//!
//! A rule with relations cannot be evaluated on a row alone. A row that only such rules select is
//! answered with the fields that all of them permit. Fields of the filter and the order are in
//! every answer, since the filter has made sure that they may be read.

use std::borrow::Cow;

use marmota_model::{Error, FieldSet, FilterExpr, Result, Table, Value, ValueRef};

use super::access::{Access, TableRights};
use crate::rows::predicate::Ready;

/// Rows, and the fields of them that a right extends to.
#[derive(Debug)]
struct FieldClass {
    fields: FieldSet,
    rows: Access,
}

/// The fields that a right extends to, if there are others.
#[derive(Debug)]
pub(crate) struct FieldAccess {
    /// The fields that may be used in some rows.
    pub(crate) any: FieldSet,
    /// The fields that may be used in all rows to which the right extends.
    pub(crate) every: FieldSet,
    classes: Vec<FieldClass>,
}

impl FieldAccess {
    /// Combines grants of one right, each with its fields and the filter of its rows. `None` if
    /// they extend to all fields of their rows.
    pub(super) fn new(table: &Table, granted: &[(FieldSet, Option<FilterExpr>)]) -> Option<Self> {
        if granted.iter().all(|(fields, _)| *fields == table.all()) {
            return None;
        }
        let in_all_rows = granted
            .iter()
            .filter(|(_, filter)| filter.is_none())
            .fold(FieldSet::EMPTY, |all, (fields, _)| all.union(*fields));
        let mut classes: Vec<(FieldSet, Option<Vec<FilterExpr>>)> = vec![(in_all_rows, None)];
        classes.retain(|(fields, _)| !fields.is_empty());
        for (fields, filter) in granted {
            let Some(filter) = filter else { continue };
            if fields.intersection(in_all_rows) == *fields {
                continue;
            }
            match classes.iter_mut().find(|class| class.0 == *fields) {
                Some((_, Some(filters))) => filters.push(filter.clone()),
                _ => classes.push((*fields, Some(vec![filter.clone()]))),
            }
        }
        let classes = classes.into_iter().map(|(fields, filters)| FieldClass {
            fields,
            rows: filters.map_or(Access::All, |filters| Access::of(table, filters)),
        });
        let classes: Vec<FieldClass> = classes.collect();
        let any = classes.iter().fold(FieldSet::EMPTY, |any, class| any.union(class.fields));
        let every = classes.iter().fold(table.all(), |all, class| all.intersection(class.fields));
        let every = every.union(in_all_rows);
        (every != table.all()).then_some(Self { any, every, classes })
    }

    /// Returns true if a rule of it depends on rows of related tables.
    pub(super) fn has_relations(&self) -> bool {
        self.rows().any(Access::has_relations)
    }

    /// Returns the rows of its classes.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Access> {
        self.classes.iter().map(|class| &class.rows)
    }

    /// Returns the rows in which all of these fields may be used, as a condition in addition to
    /// that of the right; `None` for all rows of the right.
    pub(crate) fn narrowing(&self, table: &Table, used: FieldSet) -> Option<Access> {
        let mut done: Vec<Vec<usize>> = Vec::new();
        let mut narrowing: Option<Access> = None;
        for field in used.iter().filter(|&field| !self.every.contains(field)) {
            let classes = self.classes.iter().enumerate();
            let with = classes.filter(|(_, class)| class.fields.contains(field));
            let with: Vec<usize> = with.map(|(at, _)| at).collect();
            if done.contains(&with) {
                continue;
            }
            let rows = with
                .iter()
                .fold(Access::Denied, |rows, &at| rows.or(table, &self.classes[at].rows));
            narrowing = Some(narrowing.map_or(rows.clone(), |other| other.and(table, &rows)));
            done.push(with);
        }
        narrowing
    }

    /// Prepares the check of the fields of rows; `None` if they are the same in all rows. Fields
    /// that are `used` may be used in all rows that are checked.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a rule on a field that the table does not have.
    pub(crate) fn mask(&self, table: &Table, used: FieldSet) -> Result<Option<RowMask<'_>>> {
        if self.any == self.every {
            return Ok(None);
        }
        let mut mask = RowMask {
            every: self.every.union(used.intersection(self.any)),
            classes: Vec::new(),
            otherwise: table.all(),
            needed: FieldSet::EMPTY,
        };
        let mut is_related = false;
        for class in &self.classes {
            match &class.rows {
                Access::Where(condition) if condition.filter().has_relations() => {
                    is_related = true;
                    mask.otherwise = mask.otherwise.intersection(class.fields);
                }
                Access::Where(condition) => {
                    mask.needed = mask.needed.union(condition.filter().fields(table));
                    mask.classes.push((class.fields, condition.asked(table)?));
                }
                Access::All | Access::Denied => {}
            }
        }
        // A row that no class selects by itself is selected by a rule with relations, unless all
        // rows are selected anyway.
        let is_open = self.classes.iter().any(|class| class.rows.is_all());
        if !is_related || is_open {
            mask.otherwise = FieldSet::EMPTY;
        }
        Ok(Some(mask))
    }
}

/// The fields of rows that a caller may read, if they differ from row to row.
pub(crate) struct RowMask<'r> {
    /// The fields of all rows.
    every: FieldSet,
    classes: Vec<(FieldSet, Ready<'r>)>,
    /// The fields of a row that no class selects: a rule with relations has.
    otherwise: FieldSet,
    /// The fields by which rows are checked.
    pub(crate) needed: FieldSet,
}

impl RowMask<'_> {
    /// Returns the fields of a row that the caller may read.
    pub(crate) fn fields(&self, row: &[ValueRef<'_>]) -> FieldSet {
        let mut classes = self.classes.iter().filter(|(_, ready)| ready.selects(row)).peekable();
        match classes.peek() {
            None => self.every.union(self.otherwise),
            Some(_) => classes.fold(self.every, |all, (fields, _)| all.union(*fields)),
        }
    }
}

impl TableRights {
    /// Returns the fields of these that the caller may read in some rows.
    pub(crate) fn readable(&self, fields: FieldSet) -> FieldSet {
        self.read_fields.as_ref().map_or(fields, |read| fields.intersection(read.any))
    }

    /// Prepares the check of the fields of rows; see [`FieldAccess::mask`].
    ///
    /// # Errors
    /// Those of [`FieldAccess::mask`].
    pub(crate) fn mask(&self, used: FieldSet) -> Result<Option<RowMask<'_>>> {
        match &self.read_fields {
            None => Ok(None),
            Some(read) => read.mask(&self.table, used),
        }
    }

    /// Returns the rows in which the caller may read all of these fields, on which the result of an
    /// operation depends.
    ///
    /// # Errors
    /// That of an unknown field, if there is no such row.
    pub(crate) fn reading(&self, used: FieldSet) -> Result<Cow<'_, Access>> {
        let Some(read) = &self.read_fields else { return Ok(Cow::Borrowed(&self.read)) };
        if let Some(field) = used.iter().find(|&field| !read.any.contains(field)) {
            return Err(self.unknown(field));
        }
        Ok(self.narrowed(&self.read, read, used))
    }

    /// Returns the new rows that the caller may insert with values for these fields.
    pub(crate) fn inserting(&self, given: FieldSet) -> Cow<'_, Access> {
        match &self.insert_fields {
            None => Cow::Borrowed(&self.insert),
            Some(insert) => self.narrowed(&self.insert, insert, given),
        }
    }

    /// Returns the rows in which the caller may change these fields.
    pub(crate) fn updating(&self, given: FieldSet) -> Cow<'_, Access> {
        match &self.update_fields {
            None => Cow::Borrowed(&self.update),
            Some(update) => self.narrowed(&self.update, update, given),
        }
    }

    fn narrowed<'r>(
        &self,
        rows: &'r Access,
        fields: &FieldAccess,
        used: FieldSet,
    ) -> Cow<'r, Access> {
        match fields.narrowing(&self.table, used) {
            None => Cow::Borrowed(rows),
            Some(narrowing) => Cow::Owned(rows.and(&self.table, &narrowing)),
        }
    }

    /// Returns the fields for which a new row has values of the caller: all but those that are set
    /// by the store, or have the value that the store would set.
    pub(crate) fn given<'v>(&self, value: impl Fn(usize) -> ValueRef<'v>) -> FieldSet {
        let table = &self.table;
        let given = |&field: &usize| match (value(field), table.default(field)) {
            (ValueRef::Absent, _) => false,
            (value, Some(default)) => value != default,
            (value, None) => !value.is_null(),
        };
        table.all().iter().filter(given).fold(FieldSet::EMPTY, FieldSet::with)
    }

    /// Returns the error of a field that does not exist for the caller.
    #[cold]
    pub(crate) fn unknown(&self, field: usize) -> Error {
        let name = &self.table.fields()[field].name;
        let table = self.view.as_ref().unwrap_or(&self.table);
        Error::invalid(vec![table.unknown_field(name, "null")])
    }
}

/// Returns the fields without those that the store sets.
pub(crate) fn of_caller(table: &Table, fields: FieldSet) -> FieldSet {
    let owned = [Some(table.key()), table.created_at(), table.updated_at(), table.version()];
    owned.into_iter().flatten().fold(fields, FieldSet::without)
}

impl TableRights {
    /// Returns true if the caller may read or write the field in some rows.
    pub(crate) fn is_known(&self, field: usize) -> bool {
        let rights = [
            (&self.read, &self.read_fields),
            (&self.insert, &self.insert_fields),
            (&self.update, &self.update_fields),
        ];
        rights.into_iter().any(|(rows, fields)| {
            !matches!(rows, Access::Denied)
                && fields.as_ref().is_none_or(|fields| fields.any.contains(field))
        })
    }

    /// [`TableRights::given`] for a row that is owned, without the fields that the store sets.
    pub(crate) fn given_of(&self, row: &[Value]) -> FieldSet {
        let value = |field: usize| row.get(field).map_or(ValueRef::Absent, Value::as_ref);
        of_caller(&self.table, self.given(value))
    }

    /// Returns the fields that an update gives values to.
    pub(crate) fn updated_of(&self, row: &[Value]) -> FieldSet {
        of_caller(&self.table, present(row))
    }
}

/// Returns the fields of a row with a value.
pub(crate) fn present(row: &[Value]) -> FieldSet {
    let present = row.iter().enumerate().filter(|(_, value)| **value != Value::Absent);
    present.map(|(field, _)| field).fold(FieldSet::EMPTY, FieldSet::with)
}
