//! The growth that is expected of an operation, and where the measured times exceed it.

use std::time::Duration;

/// How the time of an operation grows with the number of rows `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// The same time for each size.
    Constant,
    /// Like log n: a search in a tree.
    Logarithmic,
    /// Like n: each row is looked at or copied.
    Linear,
}

/// A step from one size to the next is a bend if the time grows this much more than expected. Smaller
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

    /// Returns the expected ratio of the times for two numbers of rows.
    fn ratio(self, from: u64, to: u64) -> f64 {
        let (from, to) = (from as f64, to as f64);
        match self {
            Self::Constant => 1.0,
            Self::Logarithmic => to.ln() / from.ln(),
            Self::Linear => to / from,
        }
    }
}

/// Returns the number of rows from which the time grows faster than expected.
pub(crate) fn bend(growth: Growth, sizes: &[u64], times: &[Option<Duration>]) -> Option<u64> {
    let points: Vec<(u64, f64)> = sizes
        .iter()
        .zip(times)
        .filter_map(|(&rows, time)| time.map(|time| (rows, time.as_secs_f64())))
        .collect();
    points.windows(2).find_map(|pair| {
        let [(from, before), (to, after)] = pair else { return None };
        (after / before > growth.ratio(*from, *to) * TOLERANCE).then_some(*from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(micros: &[u64]) -> Vec<Option<Duration>> {
        micros.iter().map(|&time| Some(Duration::from_micros(time))).collect()
    }

    #[test]
    fn a_bend_is_where_the_time_exceeds_its_law() {
        let sizes = [10_000, 100_000, 1_000_000];
        assert_eq!(bend(Growth::Constant, &sizes, &times(&[10, 12, 11])), None);
        assert_eq!(bend(Growth::Constant, &sizes, &times(&[10, 12, 110])), Some(100_000));
        assert_eq!(bend(Growth::Linear, &sizes, &times(&[10, 100, 1_000])), None);
        assert_eq!(bend(Growth::Linear, &sizes, &times(&[10, 1_000, 10_000])), Some(10_000));
        assert_eq!(bend(Growth::Logarithmic, &sizes, &times(&[10, 12, 15])), None);
        let missing = [None, Some(Duration::from_micros(1)), Some(Duration::from_micros(9))];
        assert_eq!(bend(Growth::Logarithmic, &sizes, &missing), Some(100_000));
    }
}
