//! Unique keys: one job while another waits or runs, also if many threads enqueue at once.

use std::collections::HashSet;
use std::sync::Barrier;
use std::time::Duration;

use marmota_jobs::{EnqueueJobs as _, JobAdmin, JobState, Jobs, WorkerOptions, job};
use marmota_model::{ErrorKind, Result};

use crate::harness::{each_store, until_state};

#[job(unique(user))]
async fn digest(user: i64, note: String) -> Result<()> {
    drop(note);
    let _ = user;
    Ok(())
}

#[job(unique, unique_for = "1h")]
async fn hourly(user: i64) -> Result<()> {
    let _ = user;
    Ok(())
}

fn of(user: i64, note: &str) -> Digest {
    Digest { user, note: note.to_owned() }
}

#[test]
fn one_of_many_threads_enqueues() {
    each_store(|store| {
        const THREADS: usize = 16;
        let barrier = Barrier::new(THREADS);
        let enqueued: Vec<_> = std::thread::scope(|scope| {
            let enqueue = || {
                barrier.wait();
                store.enqueue(&of(7, "race")).run().unwrap()
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(enqueue)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(enqueued.iter().filter(|one| one.is_new).count(), 1);
        assert_eq!(enqueued.iter().map(|one| one.id).collect::<HashSet<_>>().len(), 1);
        assert!(store.enqueue(&of(8, "another")).run().unwrap().is_new);
        assert_eq!(store.count::<marmota_jobs::JobRow>().run().unwrap(), 2);
    });
}

#[test]
fn a_key_is_free_when_its_job_has_ended() {
    each_store(|store| {
        let first = store.enqueue(&of(1, "first")).run().unwrap();
        assert!(!store.enqueue(&of(1, "second")).run().unwrap().is_new);
        let cancelled = store.enqueue(&of(2, "to be cancelled")).run().unwrap();
        JobAdmin::new(store).cancel(cancelled.id).run().unwrap();
        assert!(store.enqueue(&of(2, "again")).run().unwrap().is_new);
        let jobs = Jobs::new(store).register::<Digest>().unwrap().register::<Hourly>().unwrap();
        let worker = jobs.start(WorkerOptions::new()).unwrap();
        until_state(store, first.id, JobState::Succeeded);
        assert!(store.enqueue(&of(1, "third")).run().unwrap().is_new);
        // For an hour, also after its end.
        let hourly = store.enqueue(&Hourly { user: 1 }).run().unwrap();
        until_state(store, hourly.id, JobState::Succeeded);
        let again = store.enqueue(&Hourly { user: 1 }).run().unwrap();
        assert_eq!((again.id, again.is_new), (hourly.id, false));
        worker.stop().unwrap();
    });
}

#[test]
fn a_key_and_its_time_can_be_given() {
    each_store(|store| {
        let hourly = || store.enqueue(&Hourly { user: 3 }).unique("k").unique_for(Duration::ZERO);
        let first = hourly().run().unwrap();
        assert!(!hourly().run().unwrap().is_new);
        assert!(store.enqueue(&Hourly { user: 3 }).unique("other").run().unwrap().is_new);
        JobAdmin::new(store).cancel(first.id).run().unwrap();
        assert!(hourly().run().unwrap().is_new);
        let transaction = store.begin_run().unwrap();
        let second = transaction.enqueue(&of(9, "rolled back")).run().unwrap();
        assert!(second.is_new);
        assert!(!transaction.enqueue(&of(9, "twice")).run().unwrap().is_new);
        transaction.rollback().run().unwrap();
        drop(transaction);
        assert!(store.enqueue(&of(9, "afterwards")).run().unwrap().is_new);
        let error = store.enqueue(&Hourly { user: 3 }).unique(&"k".repeat(501)).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let error = store.enqueue_many(&[of(10, "")]).run().unwrap_err();
        assert!(error.message().contains("one by one"), "{error}");
    });
}
