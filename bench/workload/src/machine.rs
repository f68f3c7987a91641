//! The share of the machine that the host did not give to this measurement.

/// Returns the CPU time stolen by the host from all cores since the start, in milliseconds; 0 if it is
/// unknown.
pub fn stolen_ms() -> u64 {
    // Field 8 after the name, in ticks of 1/100 s (proc_stat(5)).
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = stat
        .lines()
        .next()
        .and_then(|line| line.split_whitespace().nth(8))
        .and_then(|text| text.parse().ok());
    ticks.unwrap_or(0_u64) * 10
}

/// Returns the time in which this thread was runnable but another program had the core, in
/// nanoseconds.
pub(crate) fn waited_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0)
}
