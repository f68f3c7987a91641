//! The results of checks: their number and the faults.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};

use marmota::Result;
use marmota::store::Store;
use serde_json::{Value, json};

use super::sample::{FIELDS, Sample, of_run};

/// The maximum number of faults that are printed.
const FAULTS_MAX: usize = 20;

/// The number of passed and failed assertions, with the first faults.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) faults: Vec<String>,
    /// The figures of each run, as JSON.
    pub(crate) runs: Vec<Value>,
}

impl Display for Tally {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} assertions passed, {} failed", self.passed, self.failed)
    }
}

impl Tally {
    /// Counts assertions as passed, or records a fault.
    pub(crate) fn check(&mut self, assertions: u64, fault: Option<String>) {
        match fault {
            None => self.passed += assertions,
            Some(fault) => {
                self.failed += 1;
                self.add_text(fault);
            }
        }
    }

    /// Records the text of a fault that is counted already, unless there are too many.
    pub(crate) fn add_text(&mut self, fault: String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        other.faults.into_iter().for_each(|fault| self.add_text(fault));
        self.runs.extend(other.runs);
    }

    /// Returns the results as JSON.
    pub(crate) fn json(&self) -> Value {
        let Self { passed, failed, faults, runs } = self;
        json!({ "passed": passed, "failed": failed, "faults": faults, "runs": runs })
    }

    /// Checks the ids of all threads (no duplicates, no missing and no extra ones), and again every
    /// stored row.
    pub(crate) fn check_all(
        &mut self,
        store: &Store,
        seed: u64,
        run: i64,
        rows: u32,
        ids: &[i64],
    ) -> Result<()> {
        let distinct: HashSet<i64> = ids.iter().copied().collect();
        let same = |what: &str, wanted: usize, found: usize| {
            (wanted != found).then(|| format!("{found} {what} instead of {wanted}"))
        };
        self.check(1, same("ids were assigned", rows as usize, ids.len()));
        self.check(1, same("of the ids are distinct", ids.len(), distinct.len()));
        let stored = of_run(store, run)?;
        self.check(1, same("rows are stored", ids.len(), stored.len()));
        for row in stored {
            let known = distinct.contains(&row.id);
            self.check(1, (!known).then(|| format!("no client received the id of row {}", row.id)));
            let (thread, number) = (row.thread as u32, row.number as u32);
            self.check(FIELDS, Sample::new(seed, run, thread, number).with_id(row.id).fault(&row));
        }
        Ok(())
    }
}
