//! The figures of a measurement, as cells of the table.

/// The figures of one measurement.
pub(super) struct Figures {
    pub(super) written: u64,
    /// The seconds in which rows were written.
    pub(super) writing_s: f64,
    /// The seconds until all events were received.
    pub(super) seconds: f64,
    /// The events that subscribers must receive.
    pub(super) expected: u64,
    /// The time from sending a write to receiving its event, in microseconds.
    pub(super) latencies_us: Vec<u32>,
    /// The CPU time of the server during the writes, in seconds.
    pub(super) cpu_s: f64,
    /// The resident memory that subscribers have added.
    pub(super) bytes_per_subscriber: f64,
}

impl Figures {
    pub(super) fn cells(
        mut self,
        server: &str,
        subscribers: usize,
        queries: usize,
    ) -> [String; 11] {
        self.latencies_us.sort_unstable();
        let received = self.latencies_us.len() as u64;
        let percentile = |share: f64| {
            let at = (self.latencies_us.len() as f64 * share) as usize;
            let found = self.latencies_us.get(at.min(self.latencies_us.len().saturating_sub(1)));
            found.map_or("–".to_owned(), |us| format!("{:.1}", f64::from(*us) / 1000.0))
        };
        [
            server.to_owned(),
            subscribers.to_string(),
            queries.to_string(),
            format!("{:.0}", self.written as f64 / self.writing_s),
            format!("{:.0}", received as f64 / self.seconds),
            self.expected.saturating_sub(received).to_string(),
            percentile(0.5),
            percentile(0.99),
            format!("{:.0}", 100.0 * self.cpu_s / self.writing_s),
            format!("{:.0}", 1e6 * self.cpu_s / self.written as f64),
            match subscribers {
                0 => "–".to_owned(),
                _ => format!("{:.1}", self.bytes_per_subscriber / 1024.0),
            },
        ]
    }
}
