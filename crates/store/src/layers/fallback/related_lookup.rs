//! The values of a field of related rows: for a set of references, the values to which a path leads.
//! They are read by lists, for each step of the path and 400 keys at a time.

use marmota_model::{
    Collation, FieldSet, FilterExpr, RelatedField, Result, RowQuery, Table, Value, ValueRef,
};

use crate::rows::best_rows::bytes_of;

/// The maximum number of keys in the filter of one list.
pub(super) const KEYS_MAX: usize = 400;

/// The references of a query, and the values to which their path leads.
#[derive(Debug)]
pub(super) struct RelatedLookup {
    path: RelatedField,
    /// The references, and what they lead to after the steps that were read.
    references: Pairs,
    step: Step,
}

/// A step whose rows are read.
#[derive(Debug)]
struct Step {
    number: usize,
    /// The table of the step.
    table: String,
    /// The position of its key, and of the field that is read.
    fields: (usize, usize),
    /// The collation of that field.
    collation: Collation,
    /// The keys, and the values of their rows. Those before `read` are read, up to `end` is the
    /// list.
    rows: Pairs,
    read: usize,
    end: usize,
}

/// Values with other values, in order.
#[derive(Debug)]
struct Pairs {
    collation: Collation,
    pairs: Vec<(Value, Value)>,
}

impl Pairs {
    /// Returns the different values, without NULL, each with NULL.
    fn new(values: impl Iterator<Item = Value>, collation: Collation) -> Self {
        let mut values: Vec<Value> = values.filter(|value| *value != Value::Null).collect();
        values.sort_unstable_by(|a, b| collation.order(a.as_ref(), b.as_ref()));
        values.dedup_by(|a, b| collation.order(a.as_ref(), b.as_ref()).is_eq());
        let pairs = values.into_iter().map(|value| (value, Value::Null)).collect();
        Self { collation, pairs }
    }

    fn find(&self, value: ValueRef<'_>) -> Option<usize> {
        let by = |(other, _): &(Value, Value)| self.collation.order(other.as_ref(), value);
        self.pairs.binary_search_by(by).ok()
    }

    /// Returns the value of another one; NULL if it has none.
    fn of(&self, value: ValueRef<'_>) -> Value {
        let at = if value == ValueRef::Null { None } else { self.find(value) };
        at.map_or(Value::Null, |at| self.pairs[at].1.clone())
    }
}

impl RelatedLookup {
    /// Begins to look references up. `table` is that of the query; `None` without references.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] if the path does not fit.
    pub(super) fn new(
        table: &Table,
        path: &RelatedField,
        references: impl Iterator<Item = Value>,
    ) -> Result<Option<Self>> {
        let first = Step::new(table, path, 0, references)?;
        if first.rows.pairs.is_empty() {
            return Ok(None);
        }
        let Pairs { collation, pairs } = &first.rows;
        let references = pairs.iter().map(|(key, _)| (key.clone(), key.clone())).collect();
        let references = Pairs { collation: *collation, pairs: references };
        Ok(Some(Self { path: path.clone(), references, step: first }))
    }

    /// Returns the name of the table that the list reads.
    pub(super) fn table(&self) -> &str {
        &self.step.table
    }

    /// Returns the list to read.
    pub(super) fn list(&self) -> RowQuery {
        let Step { rows, fields: (key, field), read, end, .. } = &self.step;
        let keys = rows.pairs[*read..*end].iter().map(|(key, _)| key.clone());
        let mut filter = FilterExpr::In { field: *key, values: keys.collect() };
        if let Some(rows) = self.path.steps[self.step.number].rows.clone() {
            filter = filter.and(rows);
        }
        let fields = Some(FieldSet::EMPTY.with(*key).with(*field));
        RowQuery { filter: Some(filter), fields, ..RowQuery::new() }
    }

    /// Takes a row of the list, and returns the approximate size of its value in bytes.
    pub(super) fn add(&mut self, row: &[ValueRef<'_>]) -> usize {
        let Step { rows, fields: (key, field), .. } = &mut self.step;
        let Some(at) = rows.find(row[*key]) else { return 0 };
        rows.pairs[at].1 = row[*field].to_value();
        bytes_of(&rows.pairs[at].1)
    }

    /// Continues after a list; returns false if all values are known.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] if the path does not fit.
    pub(super) fn advance(&mut self, table: &Table) -> Result<bool> {
        let Step { rows, read, end, .. } = &mut self.step;
        if *end < rows.pairs.len() {
            (*read, *end) = (*end, rows.pairs.len().min(*end + KEYS_MAX));
            return Ok(true);
        }
        for (_, value) in &mut self.references.pairs {
            *value = rows.of(value.as_ref());
        }
        let next = self.step.number + 1;
        if next == self.path.steps.len() {
            return Ok(false);
        }
        let values = self.references.pairs.iter().map(|(_, value)| value.clone());
        self.step = Step::new(table, &self.path, next, values)?;
        // Without keys the step, and those after it, lead to NULL.
        Ok(!self.step.rows.pairs.is_empty() || self.advance(table)?)
    }

    /// Returns the value to which a reference leads.
    pub(super) fn value(&self, reference: ValueRef<'_>) -> Value {
        self.references.of(reference)
    }

    /// Returns the collation of the values, once all are known.
    pub(super) const fn collation(&self) -> Collation {
        self.step.collation
    }
}

impl Step {
    fn new(
        table: &Table,
        path: &RelatedField,
        number: usize,
        keys: impl Iterator<Item = Value>,
    ) -> Result<Self> {
        let step = &path.steps[number].step;
        let target = table.related(&step.table)?;
        let field = path.steps.get(number + 1).map_or(path.field, |next| next.step.local);
        let rows = Pairs::new(keys, target.fields()[step.target].kind.collation());
        Ok(Self {
            number,
            table: target.name().to_owned(),
            fields: (step.target, field),
            collation: target.fields()[field].kind.collation(),
            read: 0,
            end: rows.pairs.len().min(KEYS_MAX),
            rows,
        })
    }
}
