//! Groups of rows in memory: rows are added one by one, and the groups are lent at the end.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::sync::Arc;

use hashbrown::HashMap;
use marmota_model::binary::put_value;
use marmota_model::{
    AggregateFunction, Collation, Currency, Error, ErrorKind, GroupQuery, Result, RowSink, SortKey,
    Table, Value, ValueRef,
};

use crate::rows::predicate::Condition;

/// The maximum size of the groups of a query, in bytes.
const GROUPS_BYTES_MAX: usize = 64 << 20;
/// The approximate size of a group without its texts, and of each of its values.
const GROUP_BYTES: usize = 96;
const VALUE_BYTES: usize = 48;
/// The number of groups in a part of the work after the last row: some tens of microseconds.
pub(crate) const PART: usize = 64;

/// Groups of rows, to which rows are added.
#[derive(Debug)]
pub(crate) struct RowGroups {
    /// The fields to group by; true if the text is folded to lower case.
    by: Vec<(usize, bool)>,
    aggregates: Vec<Plan>,
    /// The group of each combination of values, in their binary form.
    numbers: HashMap<Vec<u8>, usize>,
    groups: Vec<Group>,
    bytes: usize,
    /// A reusable buffer for the binary form.
    key: Vec<u8>,
    error: Option<Error>,
}

/// How the values of an aggregate are added.
#[derive(Clone, Copy, Debug)]
struct Plan {
    function: AggregateFunction,
    field: Option<usize>,
    /// The field with the number of values in the sum that `field` is; `None` if it is a value.
    counts: Option<usize>,
    collation: Collation,
}

/// An aggregate of rows that are groups themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merged {
    /// How the values of the groups are put together.
    pub(crate) function: AggregateFunction,
    /// The field with the values.
    pub(crate) values: usize,
    /// The field with the number of values in each, for a mean of sums.
    pub(crate) counts: Option<usize>,
}

#[derive(Debug)]
struct Group {
    by: Vec<Value>,
    sums: Vec<Sum>,
}

/// The values of an aggregate so far.
#[derive(Clone, Debug)]
enum Sum {
    Count(u64),
    /// Integers, or amounts in ten-thousandths.
    Whole {
        sum: i128,
        count: u64,
        is_currency: bool,
    },
    /// Floats, with the part of the sum that is lost by rounding (Neumaier).
    Float {
        sum: f64,
        lost: f64,
        count: u64,
    },
    /// No value yet, of a sum or mean.
    None,
    End(Option<Value>),
}

impl Sum {
    /// Adds a value, or the sum of `values` values.
    fn add(&mut self, plan: Plan, value: ValueRef<'_>, values: u64) {
        if matches!(value, ValueRef::Null | ValueRef::Absent) {
            return;
        }
        match self {
            Self::Count(count) => *count += 1,
            Self::None => {
                *self = match value {
                    ValueRef::Float(sum) => Self::Float { sum, lost: 0.0, count: values },
                    ValueRef::Currency(sum) => {
                        Self::Whole { sum: sum.scaled().into(), count: values, is_currency: true }
                    }
                    value => {
                        let sum = value.as_int().unwrap_or_default().into();
                        Self::Whole { sum, count: values, is_currency: false }
                    }
                }
            }
            Self::Whole { sum, count, .. } => {
                // 2^63 rows of 64-bit numbers fit in 128 bits.
                *sum += match value {
                    ValueRef::Currency(value) => i128::from(value.scaled()),
                    value => i128::from(value.as_int().unwrap_or_default()),
                };
                *count += values;
            }
            Self::Float { sum, lost, count } => {
                let ValueRef::Float(value) = value else { return };
                let total = *sum + value;
                *lost += if sum.abs() >= value.abs() {
                    (*sum - total) + value
                } else {
                    (value - total) + *sum
                };
                (*sum, *count) = (total, *count + values);
            }
            Self::End(end) => {
                let replaces = match end {
                    None => true,
                    Some(end) => {
                        let order = plan.collation.order(value, end.as_ref());
                        match plan.function {
                            AggregateFunction::Min => order.is_lt(),
                            _ => order.is_gt(),
                        }
                    }
                };
                if replaces {
                    *end = Some(folded(value, plan.collation == Collation::NoCase));
                }
            }
        }
    }

    /// Returns the value; `None` for a sum beyond the range of its type.
    fn value(&self, function: AggregateFunction) -> Option<Value> {
        let is_mean = function == AggregateFunction::Avg;
        Some(match self {
            Self::Count(count) => Value::Int(i64::try_from(*count).ok()?),
            Self::None | Self::End(None) => Value::Null,
            Self::End(Some(value)) => value.clone(),
            Self::Whole { sum, count, is_currency } if is_mean => {
                let mean = *sum as f64 / *count as f64;
                let scale = if *is_currency { Currency::SCALE as f64 } else { 1.0 };
                Value::Float(mean / scale)
            }
            Self::Whole { sum, is_currency: true, .. } => {
                Value::Currency(Currency::from_scaled(i64::try_from(*sum).ok()?))
            }
            Self::Whole { sum, .. } => Value::Int(i64::try_from(*sum).ok()?),
            Self::Float { sum, lost, count } => {
                let sum = if lost.is_finite() { sum + lost } else { *sum };
                let value = if is_mean { sum / *count as f64 } else { sum };
                if !value.is_finite() {
                    return None;
                }
                Value::Float(value)
            }
        })
    }
}

/// Returns an owned value, a text in lower case if `folds` is true.
fn folded(value: ValueRef<'_>, folds: bool) -> Value {
    match value {
        ValueRef::Text(text) if folds => Value::Text(text.to_ascii_lowercase()),
        value => value.to_value(),
    }
}

impl RowGroups {
    /// Creates groups without rows, for a query that fits the table.
    pub(crate) fn new(table: &Table, query: &GroupQuery) -> Self {
        let by = query.by.iter().map(|&field| (field, GroupQuery::folds(&table.fields()[field])));
        let aggregates = query.aggregates.iter().map(|column| Plan {
            function: column.function,
            field: column.field,
            counts: None,
            collation: column
                .field
                .map_or(Collation::Binary, |field| table.fields()[field].kind.collation()),
        });
        let mut groups = Self::of(by.collect(), aggregates.collect());
        // All rows are a group, also if there are none.
        if query.by.is_empty() {
            let group = groups.new_group(&[]);
            groups.groups.push(group);
            groups.numbers.insert(Vec::new(), 0);
        }
        groups
    }

    /// Creates groups without rows, for rows that are groups themselves: their first values are those
    /// of the fields that `result` begins with.
    pub(crate) fn of_groups(result: &Table, merged: &[Merged]) -> Self {
        let fields = result.fields();
        let by = fields.len() - merged.len();
        let aggregates = fields[by..].iter().zip(merged).map(|(field, merged)| Plan {
            function: merged.function,
            field: Some(merged.values),
            counts: merged.counts,
            collation: field.kind.collation(),
        });
        let by = fields[..by].iter().map(GroupQuery::folds).enumerate();
        Self::of(by.collect(), aggregates.collect())
    }

    fn of(by: Vec<(usize, bool)>, aggregates: Vec<Plan>) -> Self {
        Self {
            by,
            aggregates,
            numbers: HashMap::new(),
            groups: Vec::new(),
            bytes: 0,
            key: Vec::new(),
            error: None,
        }
    }

    fn new_group(&self, row: &[ValueRef<'_>]) -> Group {
        let by = self.by.iter().map(|&(field, folds)| folded(row[field], folds)).collect();
        let sums = self.aggregates.iter().map(|plan| match plan.function {
            AggregateFunction::Count => Sum::Count(0),
            AggregateFunction::Sum | AggregateFunction::Avg => Sum::None,
            AggregateFunction::Min | AggregateFunction::Max => Sum::End(None),
        });
        Group { by, sums: sums.collect() }
    }

    /// Returns the number of a row's group.
    fn number(&mut self, row: &[ValueRef<'_>]) -> Option<usize> {
        self.key.clear();
        for &(field, folds) in &self.by {
            match row[field] {
                ValueRef::Text(text) if folds => {
                    put_value(&mut self.key, ValueRef::Text(&text.to_ascii_lowercase()));
                }
                value => put_value(&mut self.key, value),
            }
        }
        if let Some(number) = self.numbers.get(&self.key) {
            return Some(*number);
        }
        self.bytes += GROUP_BYTES
            + 2 * self.key.len()
            + VALUE_BYTES * (self.by.len() + self.aggregates.len());
        if self.bytes > GROUPS_BYTES_MAX {
            let message = format!(
                "the rows have more than {} groups, which take more memory than a query may use; \
                 select fewer rows, or group by fields with fewer values",
                self.groups.len()
            );
            self.error = Some(Error::new(ErrorKind::Invalid, message));
            return None;
        }
        let number = self.groups.len();
        let group = self.new_group(row);
        self.groups.push(group);
        self.numbers.insert(self.key.clone(), number);
        Some(number)
    }

    /// Ends the groups: no row is added any more.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for too many groups.
    pub(crate) fn end(&mut self, result: &Table, query: &GroupQuery) -> Result<SortedGroups> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let term =
            |by: SortKey| (by.field, by.descending, result.fields()[by.field].kind.collation());
        Ok(SortedGroups {
            aggregates: std::mem::take(&mut self.aggregates),
            groups: std::mem::take(&mut self.groups).into_iter(),
            condition: query.having.clone().map(|having| Condition::new(having, result)),
            order: query.total_order().into_iter().map(term).collect(),
            sorted: BinaryHeap::new(),
            lent: 0,
        })
    }
}

/// Groups that are complete, which are selected, sorted and lent in small parts: between two of
/// them, the thread can do other work.
#[derive(Debug)]
pub(crate) struct SortedGroups {
    aggregates: Vec<Plan>,
    /// The groups that are not selected yet.
    groups: std::vec::IntoIter<Group>,
    condition: Option<Condition>,
    /// The fields of the order, true for descending order.
    order: Arc<[(usize, bool, Collation)]>,
    /// The selected groups, the first one on top.
    sorted: BinaryHeap<SortedGroup>,
    lent: u64,
}

/// A group in an order.
#[derive(Debug)]
struct SortedGroup {
    order: Arc<[(usize, bool, Collation)]>,
    row: Vec<Value>,
}

impl PartialEq for SortedGroup {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SortedGroup {}

impl PartialOrd for SortedGroup {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SortedGroup {
    /// The first group is the greatest, which a heap returns first.
    fn cmp(&self, other: &Self) -> Ordering {
        for &(field, descending, collation) in &*self.order {
            let order = collation.order(self.row[field].as_ref(), other.row[field].as_ref());
            if order.is_ne() {
                return if descending { order } else { order.reverse() };
            }
        }
        Ordering::Equal
    }
}

impl SortedGroups {
    /// Selects or lends some groups. Returns true if groups remain. The tables are that of the rows,
    /// and that of the groups.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a sum beyond the range of its type.
    pub(crate) fn advance(
        &mut self,
        (table, result): (&Table, &Table),
        query: &GroupQuery,
        sink: &mut dyn RowSink,
    ) -> Result<bool> {
        if !self.groups.as_slice().is_empty() {
            self.select((table, result), query)?;
            return Ok(true);
        }
        for _ in 0..PART {
            if query.limit.is_some_and(|limit| self.lent >= limit) {
                return Ok(false);
            }
            let Some(group) = self.sorted.pop() else { return Ok(false) };
            self.lent += 1;
            if sink.row(&borrowed(&group.row)).is_break() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn select(&mut self, (table, result): (&Table, &Table), query: &GroupQuery) -> Result<()> {
        let ready = self.condition.as_ref().map(|condition| condition.asked(result)).transpose()?;
        for Group { by, sums } in self.groups.by_ref().take(PART) {
            let mut row = by;
            for (sum, plan) in sums.iter().zip(&self.aggregates) {
                row.push(sum.value(plan.function).ok_or_else(|| query.overflow(table))?);
            }
            if ready.as_ref().is_none_or(|ready| ready.selects(&borrowed(&row))) {
                self.sorted.push(SortedGroup { order: Arc::clone(&self.order), row });
            }
        }
        Ok(())
    }

    /// Returns the number of groups that were lent.
    pub(crate) const fn lent(&self) -> u64 {
        self.lent
    }
}

fn borrowed(row: &[Value]) -> Vec<ValueRef<'_>> {
    row.iter().map(Value::as_ref).collect()
}

impl RowSink for RowGroups {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        let Some(number) = self.number(row) else { return ControlFlow::Break(()) };
        let group = &mut self.groups[number];
        for (sum, plan) in group.sums.iter_mut().zip(&self.aggregates) {
            let value = plan.field.map_or(ValueRef::Bool(true), |field| row[field]);
            let values = plan.counts.map_or(Some(1), |counts| row[counts].as_int());
            sum.add(*plan, value, values.map_or(0, i64::cast_unsigned));
        }
        ControlFlow::Continue(())
    }
}
