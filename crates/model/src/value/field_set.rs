//! Sets of fields, which an operation reads or writes.

/// A set of field positions, at most [`FieldSet::CAPACITY`].
///
/// ```
/// use marmota_model::FieldSet;
/// let fields: FieldSet = [4, 0, 2].into_iter().collect();
/// assert_eq!(fields.iter().collect::<Vec<_>>(), [0, 2, 4]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSet(u128);

impl FieldSet {
    /// The maximum number of fields in a schema.
    pub const CAPACITY: usize = 128;
    /// No field.
    pub const EMPTY: Self = Self(0);

    /// Returns the first `count` fields.
    ///
    /// ```
    /// use marmota_model::FieldSet;
    /// assert_eq!(FieldSet::first(3), FieldSet::EMPTY.with(0).with(1).with(2));
    /// ```
    #[must_use]
    pub const fn first(count: usize) -> Self {
        if count >= Self::CAPACITY { Self(u128::MAX) } else { Self((1 << count) - 1) }
    }

    /// Returns the fields of `row` that are not absent.
    ///
    /// ```
    /// use marmota_model::{FieldSet, ValueRef};
    /// let row = [ValueRef::Int(7), ValueRef::Absent, ValueRef::Null];
    /// assert_eq!(FieldSet::present(&row), FieldSet::EMPTY.with(0).with(2));
    /// ```
    #[must_use]
    #[inline]
    pub fn present(row: &[crate::ValueRef<'_>]) -> Self {
        // In two halves: a shift of 128 bits takes several steps.
        let half = |values: &[crate::ValueRef<'_>]| {
            let bit = |bits, (at, value): (usize, &crate::ValueRef<'_>)| {
                bits | u64::from(!value.is_absent()) << at
            };
            u128::from(values.iter().enumerate().fold(0, bit))
        };
        match row.split_at_checked(64) {
            None => Self(half(row)),
            Some((low, high)) => Self(half(low) | half(high) << 64),
        }
    }

    /// Returns the set with the field at `position`.
    ///
    /// ```
    /// use marmota_model::FieldSet;
    /// assert!(FieldSet::EMPTY.with(5).contains(5));
    /// ```
    #[must_use]
    pub const fn with(self, position: usize) -> Self {
        Self(self.0 | 1 << position)
    }

    /// Returns the set without the field at `position`.
    ///
    /// ```
    /// use marmota_model::FieldSet;
    /// assert_eq!(FieldSet::first(2).without(1), FieldSet::first(1));
    /// ```
    #[must_use]
    pub const fn without(self, position: usize) -> Self {
        Self(self.0 & !(1 << position))
    }

    /// Returns the fields in either set.
    ///
    /// ```
    /// use marmota_model::FieldSet;
    /// let (a, b) = (FieldSet::EMPTY.with(0).with(1), FieldSet::EMPTY.with(1).with(2));
    /// assert_eq!(a.union(b), FieldSet::first(3));
    /// ```
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the fields in both sets.
    ///
    /// ```
    /// use marmota_model::FieldSet;
    /// let (a, b) = (FieldSet::EMPTY.with(0).with(1), FieldSet::EMPTY.with(1).with(2));
    /// assert_eq!(a.intersection(b), FieldSet::EMPTY.with(1));
    /// ```
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns true if the field at `position` is in the set.
    #[must_use]
    pub const fn contains(self, position: usize) -> bool {
        self.0 >> position & 1 == 1
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of fields in the set.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns the positions, in the schema's order.
    ///
    /// ```
    /// use marmota_model::FieldSet;
    /// let positions: Vec<usize> = FieldSet::EMPTY.with(64).with(3).iter().collect();
    /// assert_eq!(positions, [3, 64]);
    /// ```
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let position = rest.trailing_zeros() as usize;
            (rest != 0).then(|| {
                rest &= rest - 1;
                position
            })
        })
    }
}

impl FromIterator<usize> for FieldSet {
    fn from_iter<I: IntoIterator<Item = usize>>(positions: I) -> Self {
        positions.into_iter().fold(Self::EMPTY, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_come_in_order() {
        let set: FieldSet = [127, 0, 64].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 64, 127]);
        assert_eq!(set.without(64).len(), 2);
        assert_eq!(FieldSet::first(128).len(), 128);
        assert!(FieldSet::first(0).is_empty());
    }
}
