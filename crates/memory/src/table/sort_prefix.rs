//! Numbers that represent values in sorting and hashing under a field's collation, consistent with
//! [`Collation::order`].

use std::hash::{BuildHasher, Hash, Hasher};

use marmota_model::{Collation, ValueRef};

/// Returns a number that is never in the opposite order of the values. If two of these numbers are
/// equal, the values have to be compared.
pub(crate) fn prefix(collation: Collation, value: ValueRef<'_>) -> u64 {
    const SIGN: u64 = 1 << 63;
    let ordered = |value: i64| value as u64 ^ SIGN;
    match value {
        ValueRef::Absent | ValueRef::Null => 0,
        ValueRef::Bool(value) => u64::from(value),
        ValueRef::Int(value) => ordered(value),
        ValueRef::Float(value) => {
            // Adding zero converts -0.0 to 0.0.
            let bits = (value + 0.0).to_bits();
            if bits & SIGN == 0 { bits | SIGN } else { !bits }
        }
        ValueRef::Currency(value) => ordered(value.scaled()),
        ValueRef::Date(value) => ordered(i64::from(value.days())),
        ValueRef::Time(value) => ordered(value.micros()),
        ValueRef::Timestamp(value) => ordered(value.micros()),
        ValueRef::Text(text) | ValueRef::Json(text) => {
            let first = first_bytes(text.as_bytes());
            match collation {
                Collation::Binary => u64::from_be_bytes(first),
                Collation::NoCase => {
                    u64::from_be_bytes(first.map(|byte| byte.to_ascii_lowercase()))
                }
            }
        }
        ValueRef::Blob(bytes) => u64::from_be_bytes(first_bytes(bytes)),
        ValueRef::Uuid(value) => value.as_u64_pair().0,
    }
}

/// A longer [`prefix`], for sorts: texts and bytes often begin alike, and reading a row for a
/// comparison costs a cache miss.
pub(crate) type SortPrefix = [u64; 2];

/// Returns the prefix of a value in a sort, in the opposite order for a descending one.
pub(crate) fn sort_prefix(
    collation: Collation,
    value: ValueRef<'_>,
    descending: bool,
) -> SortPrefix {
    let rest = |bytes: &'_ [u8]| first_bytes(bytes.get(8..).unwrap_or_default());
    let second = match value {
        ValueRef::Text(text) | ValueRef::Json(text) => match collation {
            Collation::Binary => u64::from_be_bytes(rest(text.as_bytes())),
            Collation::NoCase => {
                u64::from_be_bytes(rest(text.as_bytes()).map(|byte| byte.to_ascii_lowercase()))
            }
        },
        ValueRef::Blob(bytes) => u64::from_be_bytes(rest(bytes)),
        ValueRef::Uuid(value) => value.as_u64_pair().1,
        _ => 0,
    };
    let prefix = [prefix(collation, value), second];
    if descending { prefix.map(|half| !half) } else { prefix }
}

fn first_bytes(bytes: &[u8]) -> [u8; 8] {
    let mut first = [0; 8];
    let length = bytes.len().min(8);
    first[..length].copy_from_slice(&bytes[..length]);
    first
}

/// Hashes values so that values which are equal under their collation have the same hash.
pub(crate) fn hash<'v>(
    hasher: &impl BuildHasher,
    values: impl Iterator<Item = (Collation, ValueRef<'v>)>,
) -> u32 {
    let mut state = hasher.build_hasher();
    for (collation, value) in values {
        match (collation, value) {
            (Collation::NoCase, ValueRef::Text(text)) => {
                let mut buffer = [0; 64];
                for chunk in text.as_bytes().chunks(64) {
                    let folded = &mut buffer[..chunk.len()];
                    folded.copy_from_slice(chunk);
                    folded.make_ascii_lowercase();
                    state.write(folded);
                }
                state.write_u8(0xFF);
            }
            (_, ValueRef::Text(text) | ValueRef::Json(text)) => text.hash(&mut state),
            (_, ValueRef::Blob(bytes)) => bytes.hash(&mut state),
            (_, ValueRef::Uuid(value)) => state.write_u128(value.as_u128()),
            (collation, value) => state.write_u64(prefix(collation, value)),
        }
    }
    let hash = state.finish();
    (hash ^ hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use marmota_model::Uuid;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_prefix_is_in_the_order_of_values(a in "\\PC{0,24}", b in "\\PC{0,24}", x: f64, y: f64) {
            for collation in [Collation::Binary, Collation::NoCase] {
                let (a, b) = (ValueRef::Text(&a), ValueRef::Text(&b));
                let by_prefix = prefix(collation, a).cmp(&prefix(collation, b));
                prop_assert!(by_prefix.is_eq() || by_prefix == collation.order(a, b));
                let by_prefix =
                    sort_prefix(collation, a, false).cmp(&sort_prefix(collation, b, false));
                prop_assert!(by_prefix.is_eq() || by_prefix == collation.order(a, b));
                let by_prefix =
                    sort_prefix(collation, a, true).cmp(&sort_prefix(collation, b, true));
                prop_assert!(by_prefix.is_eq() || by_prefix == collation.order(b, a));
            }
            prop_assume!(!x.is_nan() && !y.is_nan());
            let (x, y) = (ValueRef::Float(x), ValueRef::Float(y));
            let by_prefix = prefix(Collation::Binary, x).cmp(&prefix(Collation::Binary, y));
            prop_assert_eq!(by_prefix, Collation::Binary.order(x, y));
        }
    }

    #[test]
    fn what_is_the_same_hashes_the_same() {
        let hasher = hashbrown::DefaultHashBuilder::default();
        let one = |collation, value| hash(&hasher, std::iter::once((collation, value)));
        assert_eq!(
            one(Collation::NoCase, ValueRef::Text("Curie")),
            one(Collation::NoCase, ValueRef::Text("cURIE"))
        );
        assert_eq!(
            one(Collation::Binary, ValueRef::Float(0.0)),
            one(Collation::Binary, ValueRef::Float(-0.0))
        );
        let uuid = Uuid::from_u128(7);
        assert_eq!(
            one(Collation::Binary, ValueRef::Uuid(uuid)),
            one(Collation::Binary, ValueRef::Uuid(uuid))
        );
    }
}
