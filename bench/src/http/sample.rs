//! The figures of one measured run, and medians over runs.

use std::fmt;

/// One server, one workload, one round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) requests_per_s: f64,
    /// Requests per second of CPU time that the server's process used, in user mode and in the
    /// kernel.
    pub(crate) requests_per_cpu_s: f64,
    /// CPU seconds that the server used per second.
    pub(crate) server_cores: f64,
    /// Duration of the load in seconds.
    pub(crate) seconds: f64,
    /// The 99th percentile of the waits in µs; `None` if wrk does not report it.
    pub(crate) p99_us: Option<f64>,
    /// Resident memory before the first load, KiB.
    pub(crate) idle_kib: u64,
    /// Peak resident memory at the end, KiB.
    pub(crate) peak_kib: u64,
    /// Share of the machine's CPU time that the hypervisor gave to other machines, 0 to 1.
    pub(crate) stolen: f64,
    /// Share of the machine's CPU time that other processes used, 0 to 1.
    pub(crate) others: f64,
    pub(crate) socket_errors: u64,
    /// Responses with a status other than 2xx or 3xx.
    pub(crate) bad_statuses: u64,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>8.0} requests/s, {:>8.0} per CPU second, {:.0} MB, stolen {:.1} %, others {:.1} %",
            self.requests_per_s,
            self.requests_per_cpu_s,
            megabytes(self.peak_kib as f64),
            self.stolen * 100.0,
            self.others * 100.0,
        )?;
        if self.socket_errors + self.bad_statuses > 0 {
            write!(f, ", {} socket errors, {} not 2xx", self.socket_errors, self.bad_statuses)?;
        }
        Ok(())
    }
}

/// Converts KiB to MB (10⁶ bytes), the unit of the tables.
pub(crate) fn megabytes(kib: f64) -> f64 {
    kib * 1024.0 / 1e6
}

/// The median of the values: the mean of the middle two if their number is even, 0 without values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_does_not_depend_on_the_order() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([]), 0.0);
    }

    #[test]
    fn errors_are_shown_only_if_there_are_any() {
        let mut sample = Sample::default();
        assert!(!sample.to_string().contains("errors"));
        sample.bad_statuses = 2;
        assert!(sample.to_string().contains("2 not 2xx"));
    }
}
