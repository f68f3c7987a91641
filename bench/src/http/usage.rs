//! CPU time and memory from `/proc`: of one process, of the children that this program has waited for,
//! and of the whole machine.

use anyhow::{Context, Result};
use std::fs;

/// CPU time and memory of a process since its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessUsage {
    /// User and system time of all its threads, seconds.
    pub(crate) cpu_s: f64,
    /// Resident memory now, KiB.
    pub(crate) resident_kib: u64,
    /// Peak resident memory, KiB.
    pub(crate) peak_kib: u64,
}

impl ProcessUsage {
    /// Returns the usage of a process and its children, because some servers use one process per
    /// core.
    pub(crate) fn of(pid: u32) -> Result<ProcessUsage> {
        let stat = read(&format!("/proc/{pid}/stat"))?;
        let status = read(&format!("/proc/{pid}/status"))?;
        let mut usage = ProcessUsage {
            cpu_s: cpu_seconds(&stat, UTIME)?,
            resident_kib: status_kib(&status, "VmRSS:")?,
            peak_kib: status_kib(&status, "VmHWM:")?,
        };
        let children = read(&format!("/proc/{pid}/task/{pid}/children"))?;
        for child in children.split_whitespace() {
            let child = ProcessUsage::of(child.parse().context("a child's number")?)?;
            usage.cpu_s += child.cpu_s;
            usage.resident_kib += child.resident_kib;
            usage.peak_kib += child.peak_kib;
        }
        Ok(usage)
    }

    /// Returns the usage of the ended children of this program, which is every wrk so far. Their memory is
    /// unknown.
    pub(crate) fn of_waited_children() -> Result<ProcessUsage> {
        let stat = read("/proc/self/stat")?;
        Ok(ProcessUsage { cpu_s: cpu_seconds(&stat, CUTIME)?, resident_kib: 0, peak_kib: 0 })
    }
}

/// CPU seconds of the running children of a process and of the exited ones that it waited for.
pub(crate) fn cpu_of_children_of(process: u32) -> Result<f64> {
    let mut sum_s = cpu_seconds(&read(&format!("/proc/{process}/stat"))?, CUTIME)?;
    for entry in fs::read_dir("/proc").context("reading /proc")?.flatten() {
        // A process may exit while its entry is read.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent = stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().nth(1));
        if parent.and_then(|parent| parent.parse().ok()) == Some(process) {
            sum_s += cpu_seconds(&stat, UTIME)?;
        }
    }
    Ok(sum_s)
}

/// Indexes of fields in `/proc/PID/stat`, counted after the closing parenthesis of the command; the
/// system time follows the user time. See proc_pid_stat(5).
const UTIME: usize = 11;
const CUTIME: usize = 13;

fn cpu_seconds(stat: &str, field: usize) -> Result<f64> {
    // The command may itself contain spaces and parentheses, so the last parenthesis counts.
    let (_, fields) = stat.rsplit_once(')').context("no command in /proc stat")?;
    let ticks: u64 = fields
        .split_whitespace()
        .skip(field)
        .take(2)
        .map(|ticks| ticks.parse::<u64>())
        .sum::<Result<u64, _>>()
        .context("CPU times in /proc stat")?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn status_kib(status: &str, name: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|line| line.split_whitespace().next());
    value
        .with_context(|| format!("no {name} in /proc status; has the process ended?"))?
        .parse()
        .with_context(|| format!("{name} in /proc status"))
}

/// The machine's CPU time since it started, in ticks, all cores together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineTimes {
    total: u64,
    idle: u64,
    stolen: u64,
}

impl MachineTimes {
    pub(crate) fn now() -> Result<MachineTimes> {
        Self::parse(&read("/proc/stat")?)
    }

    fn parse(stat: &str) -> Result<MachineTimes> {
        let line = stat.lines().next().context("/proc/stat is empty")?;
        // user nice system idle iowait irq softirq steal; guest times are
        // already in user and nice.
        let ticks: Vec<u64> = line
            .split_whitespace()
            .skip(1)
            .take(8)
            .map(str::parse)
            .collect::<Result<_, _>>()
            .context("CPU times in /proc/stat")?;
        anyhow::ensure!(ticks.len() == 8, "/proc/stat has only {} times", ticks.len());
        Ok(MachineTimes { total: ticks.iter().sum(), idle: ticks[3] + ticks[4], stolen: ticks[7] })
    }

    pub(crate) fn since(&self, earlier: &MachineTimes) -> MachineTimes {
        MachineTimes {
            total: self.total.saturating_sub(earlier.total),
            idle: self.idle.saturating_sub(earlier.idle),
            stolen: self.stolen.saturating_sub(earlier.stolen),
        }
    }

    pub(crate) fn stolen_share(&self) -> f64 {
        self.stolen as f64 / self.total.max(1) as f64
    }

    /// The share of CPU time used by processes other than those that used `known_s`.
    pub(crate) fn others_share(&self, known_s: f64) -> f64 {
        let known = known_s * rustix::param::clock_ticks_per_second() as f64;
        let busy = self.total.saturating_sub(self.idle + self.stolen) as f64;
        (busy - known).max(0.0) / self.total.max(1) as f64
    }
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_are_found_after_any_command_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 99 0 0 0 150 50 20 5 20 0 3 0 100 0";
        let hz = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(cpu_seconds(stat, UTIME).unwrap(), 200.0 / hz);
        assert_eq!(cpu_seconds(stat, CUTIME).unwrap(), 25.0 / hz);
    }

    #[test]
    fn peak_memory_is_not_less_than_resident_memory() {
        let usage = ProcessUsage::of(std::process::id()).unwrap();
        assert!(usage.resident_kib > 0);
        assert!(usage.peak_kib >= usage.resident_kib);
    }

    #[test]
    fn shares_are_of_the_elapsed_time() {
        let early = MachineTimes::parse("cpu  100 0 50 800 50 0 0 0 0 0\n").unwrap();
        let late = MachineTimes::parse("cpu  150 0 70 900 60 0 5 15 9 0\n").unwrap();
        let passed = late.since(&early);
        assert_eq!(passed.stolen_share(), 15.0 / 200.0);
        let hz = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(passed.others_share(25.0 / hz), 50.0 / 200.0);
        assert_eq!(passed.others_share(1e9), 0.0);
    }
}
