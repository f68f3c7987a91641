//! The resource usage of another process.

use std::fs;
use std::io;
use std::time::Duration;

/// The unit of processor time in /proc (USER_HZ).
const TICKS_A_SECOND: u32 = 100;

/// The current and used resources of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    /// Its memory that is resident (VmRSS).
    pub(super) resident_bytes: u64,
    pub(super) descriptors: u64,
    pub(super) processor: Duration,
}

impl Use {
    /// # Errors
    /// If the process does not exist, or belongs to another user.
    pub(super) fn of(process: u32) -> io::Result<Self> {
        let at = format!("/proc/{process}");
        let odd = || io::Error::other(format!("{at} has an unexpected format"));
        let status = fs::read_to_string(format!("{at}/status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
        let stat = fs::read_to_string(format!("{at}/stat"))?;
        // Names may contain spaces and parentheses.
        let (_, fields) = stat.rsplit_once(')').ok_or_else(odd)?;
        let ticks: Vec<u32> = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map_while(|ticks| ticks.parse().ok())
            .collect();
        let [user, system] = ticks[..] else { return Err(odd()) };
        Ok(Self {
            resident_bytes: kib.ok_or_else(odd)? * 1024,
            descriptors: fs::read_dir(format!("{at}/fd"))?.count() as u64,
            processor: Duration::from_secs(1) * (user + system) / TICKS_A_SECOND,
        })
    }

    /// Returns the sum of several processes.
    pub(super) fn of_all(processes: impl IntoIterator<Item = u32>) -> io::Result<Self> {
        processes.into_iter().try_fold(Self::default(), |all, process| {
            let one = Self::of(process)?;
            Ok(Self {
                resident_bytes: all.resident_bytes + one.resident_bytes,
                descriptors: all.descriptors + one.descriptors,
                processor: all.processor + one.processor,
            })
        })
    }
}
