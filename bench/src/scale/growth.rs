//! The growth that is expected of an operation, and where what is measured exceeds it.

use serde::{Deserialize, Serialize};

/// How the cost of an operation grows with a size `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Growth {
    /// The same cost at each size.
    Constant,
    /// Like log n: a search in a tree.
    Logarithmic,
    /// Like n: each row or byte is looked at or copied.
    Linear,
}

/// A step from one size to the next is a bend if the cost grows this much more than expected. Smaller
/// differences are noise, and the effect of caches that a larger table does not fit into.
const TOLERANCE: f64 = 2.0;

impl Growth {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Logarithmic => "log n",
            Self::Linear => "n",
        }
    }

    /// Returns the expected ratio of the costs at two sizes.
    fn ratio(self, from: u64, to: u64) -> f64 {
        let (from, to) = (from as f64, to as f64);
        match self {
            Self::Constant => 1.0,
            // Of 2 at least: the logarithm of 1 is 0.
            Self::Logarithmic => to.max(2.0).ln() / from.max(2.0).ln(),
            Self::Linear => to / from,
        }
    }
}

/// Returns the size from which the cost grows faster than expected.
pub(crate) fn bend(growth: Growth, sizes: &[u64], numbers: &[Option<f64>]) -> Option<u64> {
    let points: Vec<(u64, f64)> =
        sizes.iter().zip(numbers).filter_map(|(&size, number)| Some((size, (*number)?))).collect();
    points.windows(2).find_map(|pair| {
        let [(from, before), (to, after)] = pair else { return None };
        (after / before > growth.ratio(*from, *to) * TOLERANCE).then_some(*from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(numbers: &[f64]) -> Vec<Option<f64>> {
        numbers.iter().map(|&number| Some(number)).collect()
    }

    #[test]
    fn a_bend_is_where_the_time_exceeds_its_law() {
        let sizes = [10_000, 100_000, 1_000_000];
        assert_eq!(bend(Growth::Constant, &sizes, &numbers(&[10.0, 12.0, 11.0])), None);
        assert_eq!(bend(Growth::Constant, &sizes, &numbers(&[10.0, 12.0, 110.0])), Some(100_000));
        assert_eq!(bend(Growth::Linear, &sizes, &numbers(&[10.0, 100.0, 1_000.0])), None);
        assert_eq!(
            bend(Growth::Linear, &sizes, &numbers(&[10.0, 1_000.0, 10_000.0])),
            Some(10_000)
        );
        assert_eq!(bend(Growth::Logarithmic, &sizes, &numbers(&[10.0, 12.0, 15.0])), None);
        let missing = [None, Some(1.0), Some(9.0)];
        assert_eq!(bend(Growth::Logarithmic, &sizes, &missing), Some(100_000));
    }
}
