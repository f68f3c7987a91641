//! A progress line on the terminal; not printed if standard error is not a terminal.

use std::io::{IsTerminal, Write};

const WIDTH: usize = 30;

pub(super) struct Progress {
    done: usize,
    all: usize,
    is_shown: bool,
}

impl Progress {
    pub(super) fn new(all: usize) -> Self {
        Self { done: 0, all: all.max(1), is_shown: std::io::stderr().is_terminal() }
    }

    /// Begins the next step.
    pub(super) fn step(&mut self, what: &str) {
        if self.is_shown {
            let filled = (self.done * WIDTH / self.all).min(WIDTH);
            let bar = "█".repeat(filled) + &"░".repeat(WIDTH - filled);
            let _ = write!(std::io::stderr(), "\r{bar} {}/{} {what:<50.50}", self.done, self.all);
        }
        self.done += 1;
    }

    /// Leaves out steps.
    pub(super) fn skip(&mut self, steps: usize) {
        self.done += steps;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(std::io::stderr(), "\r{:100}\r", "");
        }
    }
}
