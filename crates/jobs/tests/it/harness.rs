//! Stores for tests, and waits for conditions.

use std::time::{Duration, Instant};

use marmota_jobs::{JobAdmin, JobId, JobQuery, JobRow, JobState};
use marmota_memory::Memory;
use marmota_sqlite::Sqlite;
use marmota_store::Store;

/// Longer than any condition takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Waits until a condition is true.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < DEADLINE, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn memory() -> Store {
    marmota_jobs::models(Store::builder(Memory::new())).open().unwrap()
}

pub(crate) fn sqlite(folder: &std::path::Path) -> Store {
    let url = format!("sqlite:{}", folder.join("jobs.db").display());
    marmota_jobs::models(Store::builder(Sqlite::from_url(&url).unwrap())).open().unwrap()
}

/// Calls a test with a store of each engine in this process.
pub(crate) fn each_store(test: impl Fn(&Store)) {
    test(&memory());
    let folder = tempfile::tempdir().unwrap();
    test(&sqlite(folder.path()));
}

pub(crate) fn row(store: &Store, id: JobId) -> JobRow {
    JobAdmin::new(store).get(id).run().unwrap()
}

pub(crate) fn state(store: &Store, id: JobId) -> JobState {
    row(store, id).state
}

#[track_caller]
pub(crate) fn until_state(store: &Store, id: JobId, wanted: JobState) {
    until(&format!("{id} is {}", wanted.name()), || state(store, id) == wanted);
}

pub(crate) fn count(store: &Store, wanted: JobState) -> usize {
    JobAdmin::new(store).list(&JobQuery::new().state(wanted).limit(10_000)).run().unwrap().len()
}
