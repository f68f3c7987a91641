//! The values that are computed for groups, typed, and conditions and orders on them.

use std::marker::PhantomData;

use marmota_model::{
    AggregateColumn, AggregateFunction, Column, Comparable, Comparison, Currency, Date, FieldValue,
    Model, Order, Time, Timestamp, Value,
};

/// A value that is computed for each group, of type `T`: made by [`count`], [`count_of`], [`sum`],
/// [`avg`], [`min`] and [`max`].
pub struct GroupValue<M, T> {
    function: AggregateFunction,
    field: Option<usize>,
    of: PhantomData<fn() -> (M, T)>,
}

impl<M, T> Clone for GroupValue<M, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M, T> Copy for GroupValue<M, T> {}

/// The types whose values can be summed.
pub trait Summable: FieldValue {
    /// The type of their sum.
    type Sum: FieldValue;
}

/// The types whose values have a minimum and a maximum.
pub trait Ordered: FieldValue {
    /// The type of the minimum; the same, without `Option`.
    type End: FieldValue;
}

macro_rules! kinds {
    ($($type:ty => $sum:ty;)* - $($ordered:ty;)*) => {
        $(
            impl Summable for $type {
                type Sum = $sum;
            }
            impl Ordered for $type {
                type End = $type;
            }
        )*
        $(
            impl Ordered for $ordered {
                type End = $ordered;
            }
        )*
    };
}

kinds! {
    i8 => i64; i16 => i64; i32 => i64; i64 => i64;
    u8 => i64; u16 => i64; u32 => i64; u64 => i64;
    f32 => f64; f64 => f64;
    Currency => Currency;
    -
    String; Date; Time; Timestamp;
}

impl<T: Summable> Summable for Option<T> {
    type Sum = T::Sum;
}

impl<T: Ordered> Ordered for Option<T> {
    type End = T::End;
}

impl<M, T> GroupValue<M, T> {
    const fn of(function: AggregateFunction, field: Option<usize>) -> Self {
        Self { function, field, of: PhantomData }
    }

    pub(super) const fn column(self) -> AggregateColumn {
        AggregateColumn::new(self.function, self.field)
    }

    /// Groups where the value is `value`.
    pub fn eq(self, value: impl Comparable<T>) -> GroupCondition<M> {
        self.compare(Comparison::Equal, value)
    }

    /// Groups where the value is another than `value`.
    pub fn ne(self, value: impl Comparable<T>) -> GroupCondition<M> {
        self.compare(Comparison::NotEqual, value)
    }

    /// Groups where the value is less than `value`.
    pub fn lt(self, value: impl Comparable<T>) -> GroupCondition<M> {
        self.compare(Comparison::Less, value)
    }

    /// Groups where the value is at most `value`.
    pub fn le(self, value: impl Comparable<T>) -> GroupCondition<M> {
        self.compare(Comparison::LessOrEqual, value)
    }

    /// Groups where the value is greater than `value`.
    pub fn gt(self, value: impl Comparable<T>) -> GroupCondition<M> {
        self.compare(Comparison::Greater, value)
    }

    /// Groups where the value is at least `value`.
    pub fn ge(self, value: impl Comparable<T>) -> GroupCondition<M> {
        self.compare(Comparison::GreaterOrEqual, value)
    }

    fn compare(self, comparison: Comparison, value: impl Comparable<T>) -> GroupCondition<M> {
        let value = value.into_value();
        GroupCondition { column: self.column(), comparison, value, model: PhantomData }
    }

    /// Sorts groups by the value, the least first; a group without a value comes first.
    pub const fn ascending(self) -> GroupOrder<M> {
        GroupOrder::Value { column: self.column(), descending: false }
    }

    /// Sorts groups by the value, the greatest first.
    pub const fn descending(self) -> GroupOrder<M> {
        GroupOrder::Value { column: self.column(), descending: true }
    }
}

/// The number of rows.
#[must_use]
pub const fn count<M>() -> GroupValue<M, u64> {
    GroupValue::of(AggregateFunction::Count, None)
}

/// The number of rows that have a value in a column.
pub const fn count_of<M: Model, T>(column: Column<M, T>) -> GroupValue<M, u64> {
    GroupValue::of(AggregateFunction::Count, Some(column.position()))
}

/// The sum of a column. `None` if no row has a value. Beyond the range of its type, it is an error.
pub const fn sum<M: Model, T: Summable>(column: Column<M, T>) -> GroupValue<M, Option<T::Sum>> {
    GroupValue::of(AggregateFunction::Sum, Some(column.position()))
}

/// The mean of a column. `None` if no row has a value.
pub const fn avg<M: Model, T: Summable>(column: Column<M, T>) -> GroupValue<M, Option<f64>> {
    GroupValue::of(AggregateFunction::Avg, Some(column.position()))
}

/// The least value of a column. `None` if no row has a value.
pub const fn min<M: Model, T: Ordered>(column: Column<M, T>) -> GroupValue<M, Option<T::End>> {
    GroupValue::of(AggregateFunction::Min, Some(column.position()))
}

/// The greatest value of a column. `None` if no row has a value.
pub const fn max<M: Model, T: Ordered>(column: Column<M, T>) -> GroupValue<M, Option<T::End>> {
    GroupValue::of(AggregateFunction::Max, Some(column.position()))
}

/// A condition on a computed value of a group.
pub struct GroupCondition<M> {
    column: AggregateColumn,
    comparison: Comparison,
    value: Value,
    model: PhantomData<fn() -> M>,
}

impl<M> GroupCondition<M> {
    pub(super) fn into_parts(self) -> (AggregateColumn, Comparison, Value) {
        (self.column, self.comparison, self.value)
    }
}

/// An order of groups: by a computed value, or, from an [`Order`], by a column.
pub enum GroupOrder<M> {
    /// By a computed value.
    Value {
        /// The value.
        column: AggregateColumn,
        /// True for the greatest first.
        descending: bool,
    },
    /// By a column of the groups.
    Column(Order<M>),
}

impl<M: Model> From<Order<M>> for GroupOrder<M> {
    fn from(order: Order<M>) -> Self {
        Self::Column(order)
    }
}
