//! A field of a vector of numbers, such as an embedding.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::value::vector::{numbers, stored};
use crate::{Error, ErrorKind, FieldValue, Kind, Scratch, ValueRef};

/// A vector of `N` 32-bit floats, such as an embedding.
///
/// ```
/// use marmota_model::Vector;
/// let vector = Vector::from([0.5, -1.0]);
/// assert_eq!(vector.numbers().collect::<Vec<_>>(), [0.5, -1.0]);
/// assert!(Vector::<2>::try_from(&[1.0, 2.0, 3.0][..]).is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Vector<const N: usize> {
    /// The numbers, in the form in which they are stored.
    bytes: Box<[u8]>,
}

impl<const N: usize> Vector<N> {
    /// Returns the numbers.
    pub fn numbers(&self) -> impl Iterator<Item = f32> {
        numbers(&self.bytes)
    }

    /// Returns the numbers as a list.
    ///
    /// ```
    /// assert_eq!(marmota_model::Vector::from([1.0, 2.0]).to_vec(), [1.0, 2.0]);
    /// ```
    #[must_use]
    pub fn to_vec(&self) -> Vec<f32> {
        self.numbers().collect()
    }
}

impl<const N: usize> From<[f32; N]> for Vector<N> {
    fn from(numbers: [f32; N]) -> Self {
        Self { bytes: stored(numbers).into() }
    }
}

impl<const N: usize> TryFrom<&[f32]> for Vector<N> {
    type Error = Error;

    fn try_from(numbers: &[f32]) -> Result<Self, Error> {
        if numbers.len() == N {
            return Ok(Self { bytes: stored(numbers.iter().copied()).into() });
        }
        let message = format!("a vector of {N} numbers cannot have {} numbers", numbers.len());
        Err(Error::new(ErrorKind::Invalid, message))
    }
}

impl<const N: usize> Default for Vector<N> {
    /// The zero vector.
    fn default() -> Self {
        Self::from([0.0; N])
    }
}

impl<const N: usize> fmt::Debug for Vector<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.numbers()).finish()
    }
}

impl<const N: usize> Serialize for Vector<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.numbers())
    }
}

impl<'de, const N: usize> Deserialize<'de> for Vector<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let numbers = Vec::<f32>::deserialize(deserializer)?;
        Self::try_from(&*numbers).map_err(serde::de::Error::custom)
    }
}

impl<const N: usize> FieldValue for Vector<N> {
    const KIND: Kind = Kind::Vector { dimensions: N as u32 };

    fn to_row<'a>(&'a self, _: &'a Scratch) -> ValueRef<'a> {
        ValueRef::Blob(&self.bytes)
    }

    fn from_row(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Blob(bytes) if bytes.len() == N * size_of::<f32>() => {
                Some(Self { bytes: bytes.into() })
            }
            _ => None,
        }
    }
}

/// A field that has a vector of `N` numbers: [`Vector`], or an [`Option`] of it.
pub trait VectorField<const N: usize>: FieldValue {}

impl<const N: usize> VectorField<N> for Vector<N> {}
impl<const N: usize> VectorField<N> for Option<Vector<N>> {}
