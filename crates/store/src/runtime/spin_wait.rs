//! Spinning for a moment before a thread sleeps.
//!
//! An idle core halts, and takes time to run again: in a virtual machine, a round trip to a
//! database on the same machine took 90 µs when nothing else ran, and 11 µs when something else
//! kept the cores awake. So a thread whose answers come that soon polls a few more times, and
//! yields to other threads in between. If other threads want the cores, spinning gains nothing and
//! loses a turn; a thread that notices this sleeps without spinning for a while. Only one thread of
//! the process spins at a time, as several would take time from each other.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum time of spinning. If other threads keep the core longer than that, they do not work
/// on the answer.
const SPIN_MAX: Duration = Duration::from_micros(100);
/// The weight of a new wait in the moving average is 1 / `FADES`.
const FADES: u32 = 8;
/// The time without spinning after other threads wanted the core: a turn takes some milliseconds.
const BUSY: Duration = Duration::from_secs(1);

/// True while a thread spins.
static SPINNING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The average length of this thread's recent waits.
    static TYPICAL: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// The time until which the machine counts as busy.
    static BUSY_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A wait for an answer, from its beginning until this value is dropped.
pub(crate) struct SpinWait {
    begun: Instant,
}

impl SpinWait {
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now() }
    }

    /// Spins until the answer has come (then it returns true), or spinning makes no sense.
    pub(crate) fn spin(&self, mut has_come: impl FnMut() -> bool) -> bool {
        let is_busy = BUSY_UNTIL.get().is_some_and(|until| self.begun < until);
        if is_busy || TYPICAL.get() > SPIN_MAX || SPINNING.swap(true, Ordering::Relaxed) {
            return false;
        }
        let mut now = self.begun;
        let came = loop {
            if has_come() {
                break true;
            }
            thread::yield_now();
            let back = Instant::now();
            if back - now > SPIN_MAX {
                BUSY_UNTIL.set(Some(back + BUSY));
                break false;
            }
            if back - self.begun > SPIN_MAX {
                break false;
            }
            now = back;
        };
        SPINNING.store(false, Ordering::Relaxed);
        came
    }
}

impl Drop for SpinWait {
    fn drop(&mut self) {
        // One very long wait must not dominate the average.
        let waited = self.begun.elapsed().min(SPIN_MAX * FADES);
        TYPICAL.set(TYPICAL.get() * (FADES - 1) / FADES + waited / FADES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_long_does_not_spin() {
        let looks = Cell::new(0);
        let look = |comes: bool| {
            looks.set(looks.get() + 1);
            comes
        };
        assert!(SpinWait::begin().spin(|| look(true)) && looks.get() == 1);
        for _ in 0..20 {
            let wait = SpinWait::begin();
            let _ = wait.spin(|| false);
            thread::sleep(10 * SPIN_MAX);
        }
        looks.set(0);
        assert!(!SpinWait::begin().spin(|| look(true)) && looks.get() == 0, "it sleeps at once");
        BUSY_UNTIL.set(None);
        TYPICAL.set(Duration::ZERO);
        assert!(SpinWait::begin().spin(|| look(true)), "and spins when answers come soon again");
    }
}
