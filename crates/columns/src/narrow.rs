//! Columns of integers with the width of the widest one: [`Ids`] of a dictionary, and signed
//! [`Ints`].
//!
//! They start at one byte and are copied to a wider form when a number needs it: at most three
//! times, for any length.

/// Bytes that are passed at once: a hash is faster with thousands of bytes per call.
const HASHED_BYTES: usize = 4096;

/// Defines a column with several widths.
macro_rules! narrow {
    ($(#[$doc:meta])* $name:ident of $number:ty, $bits:expr; $($variant:ident: $type:ty),+) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub(crate) enum $name {
            $(
                /// Numbers of this width.
                $variant(Vec<$type>),
            )+
        }

        impl $name {
            #[allow(dead_code, reason = "not for each of them")]
            pub(crate) fn len(&self) -> usize {
                match self {
                    $(Self::$variant(numbers) => numbers.len(),)+
                }
            }

            #[inline]
            pub(crate) fn at(&self, row: usize) -> $number {
                match self {
                    $(Self::$variant(numbers) => <$number>::from(numbers[row]),)+
                }
            }

            /// Returns the memory in use, in bytes.
            pub(crate) fn bytes(&self) -> usize {
                match self {
                    $(Self::$variant(numbers) => numbers.capacity() * size_of::<$type>(),)+
                }
            }

            pub(crate) fn reserve(&mut self, more: usize) {
                match self {
                    $(Self::$variant(numbers) => numbers.reserve(more),)+
                }
            }

            pub(crate) fn shrink(&mut self) {
                match self {
                    $(Self::$variant(numbers) => numbers.shrink_to_fit(),)+
                }
            }

            /// Appends numbers. Widens the column if necessary.
            pub(crate) fn extend(&mut self, more: &[$number]) {
                // All bits that any number needs: one vectorized pass, unlike a minimum and a
                // maximum.
                let bits: fn($number) -> $number = $bits;
                self.widen_for(more.iter().fold(0, |all, &number| all | bits(number)));
                match self {
                    // All fit, so nothing is truncated.
                    $(Self::$variant(numbers) => {
                        numbers.extend(more.iter().map(|&number| number as $type));
                    })+
                }
            }

            fn widen_for(&mut self, number: $number) {
                while !self.fits(number) {
                    self.widen();
                }
            }

            /// Passes all numbers as little-endian bytes, some thousand bytes at a time.
            pub(crate) fn each_bytes(&self, mut with: impl FnMut(&[u8])) {
                let mut bytes = [0; HASHED_BYTES];
                match self {
                    $(Self::$variant(numbers) => {
                        for some in numbers.chunks(HASHED_BYTES / size_of::<$type>()) {
                            let places = bytes.as_chunks_mut::<{ size_of::<$type>() }>().0;
                            for (place, number) in places.iter_mut().zip(some) {
                                *place = number.to_le_bytes();
                            }
                            with(&bytes[..size_of_val(some)]);
                        }
                    })+
                }
            }

            fn fits(&self, number: $number) -> bool {
                match self {
                    $(Self::$variant(_) => <$type>::try_from(number).is_ok(),)+
                }
            }
        }
    };
}

narrow! {
    /// Numbers of texts in a dictionary.
    Ids of u32, |id| id; One: u8, Two: u16, Four: u32
}

narrow! {
    /// Integers.
    Ints of i64, |int| int ^ (int >> 63); One: i8, Two: i16, Four: i32, Eight: i64
}

fn gather<A: Copy + Into<u32>, B>(
    ids: &[A],
    numbers: &[u32],
    into: &mut Vec<B>,
    narrow: impl Fn(u32) -> B,
) {
    // There are seldom more than two parts, so reserve exactly.
    into.reserve_exact(ids.len());
    into.extend(ids.iter().map(|&id| narrow(numbers[id.into() as usize])));
}

fn widened<A: Copy + Into<B>, B>(numbers: &Vec<A>) -> Vec<B> {
    let mut wider = Vec::with_capacity(numbers.capacity());
    wider.extend(numbers.iter().map(|&number| number.into()));
    wider
}

impl Ids {
    pub(crate) const fn new() -> Self {
        Self::One(Vec::new())
    }

    /// Appends `numbers[id]` for each id of `more`.
    pub(crate) fn extend_renumbered(&mut self, more: &Self, numbers: &[u32]) {
        self.widen_for(numbers.iter().fold(0, |all, &number| all | number));
        // All fit, so nothing is truncated.
        match self {
            Self::One(ids) => more.gather(numbers, ids, |id| id as u8),
            Self::Two(ids) => more.gather(numbers, ids, |id| id as u16),
            Self::Four(ids) => more.gather(numbers, ids, |id| id),
        }
    }

    fn gather<T>(&self, numbers: &[u32], into: &mut Vec<T>, narrow: impl Fn(u32) -> T) {
        match self {
            Self::One(ids) => gather(ids, numbers, into, narrow),
            Self::Two(ids) => gather(ids, numbers, into, narrow),
            Self::Four(ids) => gather(ids, numbers, into, narrow),
        }
    }

    fn widen(&mut self) {
        *self = match self {
            Self::One(ids) => Self::Two(widened(ids)),
            Self::Two(ids) => Self::Four(widened(ids)),
            Self::Four(_) => return,
        };
    }
}

impl Ints {
    pub(crate) const fn new() -> Self {
        Self::One(Vec::new())
    }

    fn widen(&mut self) {
        *self = match self {
            Self::One(numbers) => Self::Two(widened(numbers)),
            Self::Two(numbers) => Self::Four(widened(numbers)),
            Self::Four(numbers) => Self::Eight(widened(numbers)),
            Self::Eight(_) => return,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_stay_what_they_are(
            numbers in prop::collection::vec(
                (any::<i64>(), 0_u32..64).prop_map(|(number, shift)| number >> shift),
                0..40,
            ),
            at in 0_usize..40,
        ) {
            let (first, second) = numbers.split_at(at.min(numbers.len()));
            let mut ints = Ints::new();
            ints.extend(first);
            ints.extend(second);
            let back: Vec<i64> = (0..ints.len()).map(|row| ints.at(row)).collect();
            prop_assert_eq!(back, numbers);
        }
    }

    proptest! {
        #[test]
        fn renumbered_ids_are_what_the_numbers_say(
            numbers in prop::collection::vec((any::<u32>(), 0_u32..32).prop_map(|(n, shift)| n >> shift), 1..300),
            first in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
            before in any::<u16>(),
        ) {
            let places: Vec<u32> = first.iter().map(|at| at.index(numbers.len()) as u32).collect();
            let (mut ids, mut more) = (Ids::new(), Ids::new());
            ids.extend(&[before.into()]);
            more.extend(&places);
            ids.extend_renumbered(&more, &numbers);
            let back: Vec<u32> = (0..ids.len()).map(|row| ids.at(row)).collect();
            let wanted = places.iter().map(|&place| numbers[place as usize]);
            prop_assert_eq!(back, [u32::from(before)].into_iter().chain(wanted).collect::<Vec<_>>());
        }

        #[test]
        fn bytes_are_those_of_the_numbers(numbers in prop::collection::vec(any::<u16>(), 0..5000)) {
            let mut ids = Ids::new();
            ids.extend(&[256]);
            ids.extend(&numbers.iter().copied().map(u32::from).collect::<Vec<_>>());
            let mut bytes = Vec::new();
            ids.each_bytes(|some| bytes.extend_from_slice(some));
            let wanted: Vec<u8> =
                [256].into_iter().chain(numbers).flat_map(u16::to_le_bytes).collect();
            prop_assert_eq!(bytes, wanted);
        }
    }

    #[test]
    fn as_few_bytes_as_do() {
        let mut ids = Ids::new();
        ids.extend(&[0, 255]);
        assert!(matches!(ids, Ids::One(_)));
        ids.extend(&[256]);
        assert!(matches!(ids, Ids::Two(_)));
        ids.extend(&[u32::MAX, 7]);
        assert!(matches!(ids, Ids::Four(_)));
        assert_eq!([0, 1, 2, 3, 4].map(|row| ids.at(row)), [0, 255, 256, u32::MAX, 7]);
        let mut ints = Ints::new();
        ints.extend(&[-128, 127]);
        assert!(matches!(ints, Ints::One(_)));
        ints.extend(&[i64::MIN]);
        assert!(matches!(ints, Ints::Eight(_)));
    }
}
