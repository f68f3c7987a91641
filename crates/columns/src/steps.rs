//! [`TextIds`]: the numbers of a column's texts, as [`Ids`] or, if rows with the same text are
//! adjacent, as [`Steps`].

use crate::narrow::Ids;

/// The number of each row's text.
#[derive(Debug)]
pub(crate) enum TextIds {
    /// One number per row.
    Each(Ids),
    /// About one and a half bits per row.
    Steps(Steps),
}

impl TextIds {
    /// Returns the narrower form for the ids of `texts` texts.
    pub(crate) fn new(mut ids: Ids, texts: usize) -> Self {
        // Reading a byte is faster than counting bits, and columns of so few texts are seldom long.
        if !matches!(ids, Ids::One(_))
            && let Some(steps) = Steps::of(&ids, texts)
        {
            return Self::Steps(steps);
        }
        ids.shrink();
        Self::Each(ids)
    }

    #[inline]
    pub(crate) fn at(&self, row: usize) -> u32 {
        match self {
            Self::Each(ids) => ids.at(row),
            Self::Steps(steps) => steps.at(row),
        }
    }

    /// Returns the first row of each text, if rows with the same text are adjacent.
    pub(crate) fn starts(&self) -> Option<impl Iterator<Item = u32>> {
        match self {
            Self::Each(_) => None,
            Self::Steps(steps) => Some(steps.starts()),
        }
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Each(ids) => ids.bytes(),
            Self::Steps(steps) => steps.bytes(),
        }
    }

    /// Passes bytes that determine all numbers, some thousand at a time.
    pub(crate) fn each_bytes(&self, with: impl FnMut(&[u8])) {
        match self {
            Self::Each(ids) => ids.each_bytes(with),
            Self::Steps(steps) => steps.each_bytes(with),
        }
    }
}

/// Numbers of which each equals the previous one or is one more. Stored as a bit per row, set where
/// the number grows, and the sum before each 64 rows: one and a half bits per row instead of up to
/// 32. Fits keys, and the column by which a file is sorted.
#[derive(Debug)]
pub(crate) struct Steps {
    bits: Box<[u64]>,
    /// The number of set bits before each word.
    before: Box<[u32]>,
}

impl Steps {
    /// Returns `None` unless the numbers are 0 to `texts` - 1 in order, each once or several times
    /// in a row.
    fn of(ids: &Ids, texts: usize) -> Option<Self> {
        let rows = ids.len();
        if rows == 0 || ids.at(rows - 1) as usize + 1 != texts {
            return None;
        }
        let (mut bits, mut before) = (Vec::new(), Vec::new());
        let mut count = 0_u32;
        for start in (0..rows).step_by(64) {
            before.push(count);
            let mut word = 0;
            for row in start..rows.min(start + 64) {
                let id = ids.at(row);
                if id == count {
                    word |= 1 << (row - start);
                    count += 1;
                } else if id.wrapping_add(1) != count {
                    return None;
                }
            }
            bits.push(word);
        }
        Some(Self { bits: bits.into(), before: before.into() })
    }

    #[inline]
    fn at(&self, row: usize) -> u32 {
        let up_to = self.bits[row / 64] & (u64::MAX >> (63 - row % 64));
        self.before[row / 64] + up_to.count_ones() - 1
    }

    fn starts(&self) -> impl Iterator<Item = u32> {
        self.bits.iter().enumerate().flat_map(|(place, &word)| {
            std::iter::successors(Some(word), |left| Some(left & left.wrapping_sub(1)))
                .take_while(|&left| left != 0)
                .map(move |left| place as u32 * 64 + left.trailing_zeros())
        })
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.bits) + size_of_val(&*self.before)
    }

    fn each_bytes(&self, mut with: impl FnMut(&[u8])) {
        let mut bytes = [0; 4096];
        for some in self.bits.chunks(bytes.len() / 8) {
            for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(some) {
                *place = word.to_le_bytes();
            }
            with(&bytes[..size_of_val(some)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn steps_are_the_numbers_they_were_made_of(
            lengths in prop::collection::vec(1_usize..150, 0..400),
            odd in any::<Option<(prop::sample::Index, u32)>>(),
        ) {
            let texts = lengths.len();
            let numbers = lengths.iter().enumerate();
            let mut numbers: Vec<u32> =
                numbers.flat_map(|(id, &rows)| vec![id as u32; rows]).collect();
            if let Some((at, odd)) = odd.filter(|_| !numbers.is_empty()) {
                let at = at.index(numbers.len());
                numbers[at] = odd % texts as u32;
            }
            let mut ids = Ids::new();
            ids.extend(&numbers);
            let is_in_steps = numbers.first() == Some(&0)
                && numbers.windows(2).all(|two| two[0] == two[1] || two[0] + 1 == two[1])
                && numbers.last().is_some_and(|&last| last as usize + 1 == texts);
            let steps = Steps::of(&ids, texts);
            prop_assert_eq!(steps.is_some(), is_in_steps);
            let both = [Some(TextIds::Each(ids)), steps.map(TextIds::Steps)];
            for form in both.into_iter().flatten() {
                let back: Vec<u32> = (0..numbers.len()).map(|row| form.at(row)).collect();
                prop_assert_eq!(&back, &numbers);
                if let Some(starts) = form.starts() {
                    let wanted = (0..texts as u32)
                        .map(|id| numbers.iter().position(|&there| there == id).unwrap() as u32);
                    prop_assert_eq!(starts.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn bytes_tell_columns_apart() {
        let bytes = |numbers: &[u32]| {
            let (mut ids, mut all) = (Ids::new(), Vec::new());
            ids.extend(numbers);
            Steps::of(&ids, 2).unwrap().each_bytes(|some| all.extend_from_slice(some));
            all
        };
        assert_eq!(bytes(&[0, 0, 1]), [5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes(&[0, 1, 1]), [3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes(&[vec![0; 32768], vec![1]].concat()).len(), 8 * 513);
    }
}
