//! The progress of a run as a line on the terminal; not printed if standard error is not a
//! terminal.

use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

/// A counter of the steps that all threads have done.
pub(crate) trait Count: Sync {
    fn step(&self);
}

/// Rows between two updates of the line.
const EVERY: u64 = 256;

pub(crate) struct Line {
    bar: ProgressBar,
    done: AtomicU64,
}

impl Line {
    pub(crate) fn new(what: String, rows: u64) -> Self {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
        let bar = ProgressBar::new(rows);
        Self {
            bar: bar
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
                .with_message(what),
            done: AtomicU64::new(0),
        }
    }

    /// Adds a number of steps.
    pub(crate) fn add(&self, steps: u64) {
        self.bar.inc(steps);
    }
}

impl Count for Line {
    fn step(&self) {
        if self.done.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY) {
            self.bar.set_position(self.done.load(Ordering::Relaxed));
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
