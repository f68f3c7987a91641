//! Columns of integers that take as few bytes each as the widest of them
//! needs: [`Ids`] of a dictionary, [`Ints`] of any sign.
//!
//! They start at one byte and are copied to a wider form when a number asks for
//! it: at most three times, whatever the length.

/// One column form of several widths.
macro_rules! narrow {
    ($(#[$doc:meta])* $name:ident of $number:ty; $($variant:ident: $type:ty),+) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub(crate) enum $name {
            $(
                /// Of this width.
                $variant(Vec<$type>),
            )+
        }

        impl $name {
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

            /// Bytes that it takes.
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

            /// Appends numbers, made wider if need be.
            pub(crate) fn extend(&mut self, more: &[$number]) {
                let (least, most) = (more.iter().min(), more.iter().max());
                let (Some(&least), Some(&most)) = (least, most) else { return };
                while !self.fits(least) || !self.fits(most) {
                    self.widen();
                }
                match self {
                    // All fit: nothing is cut off.
                    $(Self::$variant(numbers) => {
                        numbers.extend(more.iter().map(|&number| number as $type));
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
    Ids of u32; One: u8, Two: u16, Four: u32
}

narrow! {
    /// Integers.
    Ints of i64; One: i8, Two: i16, Four: i32, Eight: i64
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
