//! The different values by which related rows are found.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use marmota_model::binary::put_value;
use marmota_model::{Value, ValueRef};

/// The number of values for which the first allocation has space: a page of 100 rows.
const VALUES: usize = 100;

/// Different values, numbered from 0 in the order in which they were added.
///
/// ```
/// use marmota_model::ValueRef;
/// use marmota_store::related::ValueNumbers;
///
/// let mut numbers = ValueNumbers::default();
/// assert_eq!(numbers.add(ValueRef::Int(7)), Some(0));
/// assert_eq!(numbers.add(ValueRef::Int(9)), Some(1));
/// assert_eq!(numbers.add(ValueRef::Int(7)), Some(0));
/// assert_eq!(numbers.add(ValueRef::Null), None);
/// assert_eq!(numbers.find(ValueRef::Int(9)), Some(1));
/// assert_eq!(numbers.find_near(ValueRef::Int(7), 1), Some(0));
/// ```
#[derive(Debug, Default)]
pub struct ValueNumbers {
    values: Vec<Value>,
    hasher: DefaultHashBuilder,
    numbers: HashTable<usize>,
}

impl ValueNumbers {
    /// Returns the number of a value, which is added if it is a new one. NULL has none.
    pub fn add(&mut self, value: ValueRef<'_>) -> Option<usize> {
        if value.is_null() {
            return None;
        }
        let Self { values, hasher, numbers } = self;
        let is_equal = |&number: &usize| is_same(&values[number], value);
        let rehash = |&number: &usize| hash(hasher, values[number].as_ref());
        if values.is_empty() {
            numbers.reserve(VALUES, rehash);
        }
        let entry = numbers.entry(hash(hasher, value), is_equal, rehash);
        if let hashbrown::hash_table::Entry::Occupied(entry) = &entry {
            return Some(*entry.get());
        }
        let number = values.len();
        entry.insert(number);
        values.push(value.to_value());
        Some(number)
    }

    /// Returns the number of a value that was added. `near` is the number that was found before, which
    /// often has the same value: rows that refer to the same row tend to follow each other.
    #[must_use]
    #[inline]
    pub fn find_near(&self, value: ValueRef<'_>, near: usize) -> Option<usize> {
        match self.values.get(near) {
            Some(known) if is_same(known, value) => Some(near),
            _ => self.find(value),
        }
    }

    /// Returns the number of a value that was added.
    #[must_use]
    pub fn find(&self, value: ValueRef<'_>) -> Option<usize> {
        let is_equal = |&number: &usize| is_same(&self.values[number], value);
        self.numbers.find(hash(&self.hasher, value), is_equal).copied()
    }

    /// Returns the values, in the order of their numbers.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }
}

impl FromIterator<Value> for ValueNumbers {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        let mut numbers = Self::default();
        for value in values {
            numbers.add(value.as_ref());
        }
        numbers
    }
}

/// Compares integers, the usual values, without a call.
#[inline]
fn is_same(known: &Value, value: ValueRef<'_>) -> bool {
    match (known, value) {
        (Value::Int(known), ValueRef::Int(value)) => *known == value,
        _ => known.as_ref() == value,
    }
}

#[inline]
fn hash(hasher: &DefaultHashBuilder, value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Int(value) => hasher.hash_one(value),
        ValueRef::Text(text) => hasher.hash_one(text),
        ValueRef::Uuid(uuid) => hasher.hash_one(uuid.as_bytes()),
        _ => {
            let mut bytes = Vec::new();
            put_value(&mut bytes, value);
            hasher.hash_one(bytes)
        }
    }
}
