//! Looking on for a moment before falling asleep.
//!
//! A core without anything to do halts, and takes its time to run again: in a virtual machine of
//! ours a round trip to a database beside us took 90 µs when nothing else ran, and 11 µs
//! when something else kept the cores awake. So a thread whose answers come that soon looks a few
//! times more, and lets others run in between. Where others want the cores, there is nothing to
//! win and a turn to lose; who finds that out sleeps at once for a while. Only one thread of the
//! process lingers, as the others would take time from each other.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// So long it looks at most; and others that keep the core longer are busy with something else
/// than the answer.
const LINGER_MAX: Duration = Duration::from_micros(100);
/// The last waits count by this part less with each new one.
const FADES: u32 = 8;
/// So long nobody lingers after others wanted the core: a turn is some milliseconds.
const BUSY: Duration = Duration::from_secs(1);

/// True while a thread lingers.
static LINGERS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// How long this thread's waits have been of late.
    static TYPICAL: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// Until when the machine is taken to be busy.
    static BUSY_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A wait for an answer, from its beginning until this is dropped.
pub(crate) struct Wait {
    begun: Instant,
}

impl Wait {
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now() }
    }

    /// Looks until something has come (true), or it makes no sense to go on.
    pub(crate) fn linger(&self, mut has_come: impl FnMut() -> bool) -> bool {
        let is_busy = BUSY_UNTIL.get().is_some_and(|until| self.begun < until);
        if is_busy || TYPICAL.get() > LINGER_MAX || LINGERS.swap(true, Ordering::Relaxed) {
            return false;
        }
        let mut now = self.begun;
        let came = loop {
            if has_come() {
                break true;
            }
            thread::yield_now();
            let back = Instant::now();
            if back - now > LINGER_MAX {
                BUSY_UNTIL.set(Some(back + BUSY));
                break false;
            }
            if back - self.begun > LINGER_MAX {
                break false;
            }
            now = back;
        };
        LINGERS.store(false, Ordering::Relaxed);
        came
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        // One that was very long is not to be held against all that come later.
        let waited = self.begun.elapsed().min(LINGER_MAX * FADES);
        TYPICAL.set(TYPICAL.get() * (FADES - 1) / FADES + waited / FADES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_long_does_not_linger() {
        let looks = Cell::new(0);
        let look = |comes: bool| {
            looks.set(looks.get() + 1);
            comes
        };
        assert!(Wait::begin().linger(|| look(true)) && looks.get() == 1);
        for _ in 0..20 {
            let wait = Wait::begin();
            let _ = wait.linger(|| false);
            thread::sleep(10 * LINGER_MAX);
        }
        looks.set(0);
        assert!(!Wait::begin().linger(|| look(true)) && looks.get() == 0, "it sleeps at once");
        BUSY_UNTIL.set(None);
        TYPICAL.set(Duration::ZERO);
        assert!(Wait::begin().linger(|| look(true)), "and lingers when answers come soon again");
    }
}
