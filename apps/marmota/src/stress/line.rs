//! How far a run is, as a line on the terminal; none where standard error is
//! no terminal.

use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

/// Told of every step that is done, by all threads.
pub(crate) trait Count: Sync {
    fn step(&self);
}

/// Rows between two looks at the line.
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

    /// So many steps more are done.
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
