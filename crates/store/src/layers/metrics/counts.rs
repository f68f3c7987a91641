//! Counters for one kind of call: the number of calls, rows and errors, and the time.
//!
//! Times are counted in classes, so that a histogram and its quantiles can be estimated from a few
//! numbers of fixed size.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

/// The upper limits of the classes of times, in microseconds; one more class has the calls that
/// took longer.
///
/// ```
/// use marmota_store::meter::CLASS_ENDS_US;
/// assert_eq!(CLASS_ENDS_US.iter().position(|&end_us| end_us == 1_000), Some(7)); // 1 ms
/// ```
pub const CLASS_ENDS_US: [u64; 14] =
    [1, 5, 10, 50, 100, 250, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 1_000_000, 10_000_000];
const CLASSES: usize = CLASS_ENDS_US.len() + 1;

/// Counters of calls, read as [`CallStatistics`]. They can be shared by threads.
///
/// ```
/// use std::time::Duration;
/// use marmota_store::meter::{Counts, CallStatistics};
///
/// let counts = Counts::default();
/// counts.note(Duration::from_micros(40), 2, false);
/// counts.note(Duration::from_millis(3), 0, true);
/// let mut sum = CallStatistics::default();
/// counts.add_to(&mut sum);
/// assert_eq!((sum.count, sum.rows, sum.errors), (2, 2, 1));
/// ```
#[derive(Debug, Default)]
pub struct Counts {
    classes: [AtomicU64; CLASSES],
    time_ns: AtomicU64,
    rows: AtomicU64,
    errors: AtomicU64,
}

/// The values of counters. Each is exact by itself; while calls end, two of them may be of
/// different moments.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CallStatistics {
    /// Calls that have ended, successfully or not.
    pub count: u64,
    /// Failed calls, and failed writes of batches.
    pub errors: u64,
    /// Rows that were read or written.
    pub rows: u64,
    /// The total time in seconds.
    pub seconds: f64,
    /// The number of calls in each class of times: the classes end at [`CLASS_ENDS_US`], and the
    /// last has the calls that took longer.
    pub classes: [u64; CLASSES],
}

impl Counts {
    /// Records that a call has ended after `time`, with this many rows.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use marmota_store::meter::Counts;
    /// let counts = Counts::default();
    /// counts.note(Duration::from_micros(40), 2, false);
    /// ```
    pub fn note(&self, time: Duration, rows: u64, failed: bool) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let class = CLASS_ENDS_US.partition_point(|&end_us| end_us * 1_000 < time_ns);
        self.classes[class].fetch_add(1, Ordering::Relaxed);
        self.time_ns.fetch_add(time_ns, Ordering::Relaxed);
        if rows > 0 {
            self.note_rows(rows);
        }
        if failed {
            self.note_error();
        }
    }

    /// Adds rows of a call that is counted elsewhere, such as a write of a batch.
    pub(super) fn note_rows(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Adds an error of a call that is counted elsewhere.
    pub(super) fn note_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds these counts to a sum, such as that of all threads.
    ///
    /// ```
    /// # use marmota_store::meter::{Counts, CallStatistics};
    /// let mut sum = CallStatistics::default();
    /// for counts in [Counts::default(), Counts::default()] {
    ///     counts.add_to(&mut sum);
    /// }
    /// assert_eq!(sum.count, 0);
    /// ```
    pub fn add_to(&self, sum: &mut CallStatistics) {
        for (class, count) in sum.classes.iter_mut().zip(&self.classes) {
            let count = count.load(Ordering::Relaxed);
            *class += count;
            sum.count += count;
        }
        sum.seconds += self.time_ns.load(Ordering::Relaxed) as f64 / 1e9;
        sum.rows += self.rows.load(Ordering::Relaxed);
        sum.errors += self.errors.load(Ordering::Relaxed);
    }
}

impl CallStatistics {
    /// Appends the times as a histogram in Prometheus' text format, with additional labels
    /// (`table="note"`), which have to be escaped already.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use marmota_store::meter::{Counts, CallStatistics};
    /// let (counts, mut sum, mut text) = (Counts::default(), CallStatistics::default(), String::new());
    /// counts.note(Duration::from_micros(40), 1, false);
    /// counts.add_to(&mut sum);
    /// sum.write_histogram(&mut text, "call_seconds", "verb=\"get\"");
    /// assert!(text.contains("call_seconds_bucket{verb=\"get\",le=\"0.00005\"} 1\n"));
    /// ```
    pub fn write_histogram(&self, text: &mut String, name: &str, labels: &str) {
        let mut below = 0;
        for (count, end_us) in self.classes.iter().zip(CLASS_ENDS_US) {
            below += count;
            let end = end_us as f64 / 1e6;
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{end}\"}} {below}");
        }
        let Self { count, seconds, .. } = self;
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ =
            writeln!(text, "{name}_sum{{{labels}}} {seconds}\n{name}_count{{{labels}}} {count}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_class_that_it_does_not_exceed() {
        let counts = Counts::default();
        for (ns, rows, failed) in [(0, 1, false), (1_000, 2, false), (1_001, 0, true)] {
            counts.note(Duration::from_nanos(ns), rows, failed);
        }
        counts.note(Duration::from_secs(11), 0, false);
        let mut sum = CallStatistics::default();
        counts.add_to(&mut sum);
        assert_eq!((sum.count, sum.rows, sum.errors), (4, 3, 1));
        assert_eq!((sum.classes[0], sum.classes[1], sum.classes[CLASSES - 1]), (2, 1, 1));
        assert!((sum.seconds - 11.000_002_001).abs() < 1e-6, "{}", sum.seconds);
    }
}
