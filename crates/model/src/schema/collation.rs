//! How texts compare.

use std::cmp::Ordering;

use crate::ValueRef;

/// The rule by which texts compare, sort and are unique.
///
/// ```
/// use marmota_model::{Collation, Field, Kind};
/// let email = Kind::Text { chars_max: 200, collation: Collation::NoCase };
/// let email = Field::new("email", email).unique(true);
/// assert_eq!(email.kind.collation(), Collation::NoCase);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Collation {
    /// Byte by byte.
    #[default]
    Binary,
    /// Ignores the case of the letters A to Z.
    NoCase,
}

impl Collation {
    /// Returns the order of two values of one field; NULL first. [`Collation::NoCase`] compares
    /// texts as if all their letters were lower case.
    ///
    /// ```
    /// use std::cmp::Ordering;
    /// use marmota_model::{Collation, ValueRef};
    /// let (a, b) = (ValueRef::Text("Curie"), ValueRef::Text("curie"));
    /// assert_eq!(Collation::NoCase.order(a, b), Ordering::Equal);
    /// assert_eq!(Collation::Binary.order(a, b), Ordering::Less);
    /// ```
    #[inline]
    #[must_use]
    pub fn order(self, a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
        fn folded(text: &str) -> impl Iterator<Item = u8> {
            text.bytes().map(|byte| byte.to_ascii_lowercase())
        }
        match (self, a, b) {
            (Self::NoCase, ValueRef::Text(a), ValueRef::Text(b)) => folded(a).cmp(folded(b)),
            (_, a, b) => a.order(&b),
        }
    }
}

/// Returns true if two texts are equal under a collation.
///
/// ```
/// use marmota_model::Collation;
/// use marmota_model::rule::same_text;
/// assert!(same_text(Collation::NoCase, "Curie", "CURIE"));
/// assert!(!same_text(Collation::NoCase, "Élan", "élan"), "É is not one of A to Z");
/// ```
#[must_use]
pub fn same_text(collation: Collation, a: &str, b: &str) -> bool {
    match collation {
        Collation::Binary => a == b,
        Collation::NoCase => a.eq_ignore_ascii_case(b),
    }
}
