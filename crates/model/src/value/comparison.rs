//! Comparisons of two values, and where a text is sought in another.

use std::cmp::Ordering;

/// A comparison of two values.
///
/// ```
/// use marmota_model::{Comparison, ValueRef};
/// let (a, b) = (ValueRef::Int(3), ValueRef::Int(5));
/// assert!(Comparison::LessOrEqual.holds(a.order(&b)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A position of a text in another one.
///
/// ```
/// use marmota_model::Place;
/// assert!(Place::Start.finds("Marie Curie", "marie"));
/// assert!(!Place::Start.finds("Marie Curie", "curie"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Anywhere.
    Anywhere,
    /// At its start.
    Start,
}

impl Comparison {
    /// Returns true if the comparison holds for two values with this order.
    ///
    /// ```
    /// use std::cmp::Ordering;
    /// use marmota_model::Comparison;
    /// assert!(Comparison::NotEqual.holds(Ordering::Less));
    /// assert!(!Comparison::Greater.holds(Ordering::Equal));
    /// ```
    #[must_use]
    pub const fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }

    /// Returns the comparison that holds if this one does not.
    ///
    /// ```
    /// use marmota_model::Comparison;
    /// assert_eq!(Comparison::Less.negated(), Comparison::GreaterOrEqual);
    /// ```
    #[must_use]
    pub const fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
        }
    }
}

impl Place {
    /// Returns true if `text` contains `part` at this position, ignoring the case of A to Z.
    ///
    /// ```
    /// use marmota_model::Place;
    /// assert!(Place::Anywhere.finds("Marie CURIE", "curie"));
    /// assert!(!Place::Anywhere.finds("Élan", "élan"), "É is not one of A to Z");
    /// ```
    #[must_use]
    pub fn finds(self, text: &str, part: &str) -> bool {
        let (text, part) = (text.as_bytes(), part.as_bytes());
        match self {
            Self::Anywhere => contains(text, part),
            Self::Start => {
                text.get(..part.len()).is_some_and(|start| start.eq_ignore_ascii_case(part))
            }
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    let Some((&first, rest)) = part.split_first() else { return true };
    let first = first.to_ascii_lowercase();
    let Some(last) = text.len().checked_sub(part.len()) else { return false };
    (0..=last).any(|at| {
        text[at].to_ascii_lowercase() == first
            && text[at + 1..at + part.len()].eq_ignore_ascii_case(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_counts_for_letters_a_to_z_only() {
        let (anywhere, start) = (Place::Anywhere, Place::Start);
        assert!(anywhere.finds("Marie CURIE", "curie"));
        assert!(anywhere.finds("x", ""));
        assert!(!anywhere.finds("É", "é"));
        assert!(!anywhere.finds("Curi", "curie"));
        assert!(start.finds("Curie", "cU"));
        assert!(!start.finds("C", "cu"));
    }
}
