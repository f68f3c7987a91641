//! The different values by which related rows are found.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use marmota_model::binary::put_value;
use marmota_model::{Value, ValueRef};

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
        let is_equal = |&number: &usize| values[number].as_ref() == value;
        let rehash = |&number: &usize| hash(hasher, values[number].as_ref());
        let entry = numbers.entry(hash(hasher, value), is_equal, rehash);
        if let hashbrown::hash_table::Entry::Occupied(entry) = &entry {
            return Some(*entry.get());
        }
        let number = values.len();
        entry.insert(number);
        values.push(value.to_value());
        Some(number)
    }

    /// Returns the number of a value that was added.
    #[must_use]
    pub fn find(&self, value: ValueRef<'_>) -> Option<usize> {
        let is_equal = |&number: &usize| self.values[number].as_ref() == value;
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
