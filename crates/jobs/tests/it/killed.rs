//! Processes that enqueue and execute jobs, and are killed at any moment: no acknowledged job is
//! lost, and the effect of a job that ends in a transaction is there exactly once.

#[path = "../../../memory/tests/it/killed.rs"]
mod child;

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use marmota_derive::Model;
use marmota_jobs::{EnqueueJobs as _, JobContext, JobState, Jobs, Worker, WorkerOptions, job};
use marmota_memory::Memory;
use marmota_model::Result;
use marmota_sqlite::Sqlite;
use marmota_store::Store;

use crate::harness::{count, until};

/// `cargo xtask soak` sets more.
fn rounds() -> u64 {
    std::env::var("MARMOTA_KILLS").map_or(20, |rounds| rounds.parse().unwrap())
}

#[derive(Clone, Debug, Model)]
struct Effect {
    id: i64,
    #[model(index)]
    number: i64,
}

#[job(retries = 1000)]
async fn take_effect(number: i64, context: JobContext) -> Result<()> {
    let transaction = context.store().begin().await?;
    transaction.insert(&Effect { id: 0, number }).await?;
    context.finish_in(&transaction).await?;
    transaction.commit().await
}

fn open(engine: &str, folder: &Path) -> Store {
    let file = folder.join("database").display().to_string();
    let builder = match engine {
        "sqlite" => Store::builder(Sqlite::from_url(&format!("sqlite:{file}")).unwrap()),
        _ => {
            let url = format!("memory:{file}?durability=full");
            Store::builder(Memory::from_url(&url).unwrap())
        }
    };
    marmota_jobs::models(builder).model::<Effect>().open().unwrap()
}

fn start(store: &Store) -> Worker {
    let options = WorkerOptions::new().lease(Duration::from_secs(1)).queue("default", 20);
    Jobs::new(store).register::<TakeEffect>().unwrap().start(options).unwrap()
}

fn each_effect_is_there_once(engine: &str, processes: u64) {
    let folder = tempfile::tempdir().unwrap();
    open(engine, folder.path()).close().unwrap();
    let mut acknowledged: Vec<i64> = Vec::new();
    for round in 0..rounds() {
        let child = |process: u64| {
            let number = (round * processes + process).to_string();
            let environment = [("MARMOTA_ENGINE", engine), ("MARMOTA_FIRST", &*number)];
            // Each is killed after another time.
            let moment = round * 7 + process * 31;
            let test = "killed::works_until_killed";
            child::written_until_killed(test, folder.path(), moment, &environment)
        };
        let written: Vec<Vec<String>> = std::thread::scope(|scope| {
            let children: Vec<_> =
                (0..processes).map(|process| scope.spawn(move || child(process))).collect();
            children.into_iter().map(|child| child.join().unwrap()).collect()
        });
        acknowledged.extend(written.iter().flatten().map(|number| number.parse::<i64>().unwrap()));
    }
    let store = open(engine, folder.path());
    let worker = start(&store);
    until("all jobs have ended", || {
        [JobState::Scheduled, JobState::Pending, JobState::Running, JobState::Cancelling]
            .into_iter()
            .all(|state| count(&store, state) == 0)
    });
    worker.stop().unwrap();
    assert_eq!(count(&store, JobState::Failed), 0);
    let mut effects: HashMap<i64, u32> = HashMap::new();
    for effect in store.list::<Effect>().run().unwrap() {
        *effects.entry(effect.number).or_default() += 1;
    }
    assert!(acknowledged.len() as u64 > rounds());
    for number in &acknowledged {
        assert_eq!(effects.get(number), Some(&1), "the effect of job {number}");
    }
    assert!(effects.values().all(|&times| times == 1), "an effect is there twice");
}

#[test]
fn each_effect_is_there_once_on_sqlite() {
    each_effect_is_there_once("sqlite", 1);
}

#[test]
fn each_effect_is_there_once_with_two_processes() {
    each_effect_is_there_once("sqlite", 2);
}

#[test]
fn each_effect_is_there_once_in_memory() {
    each_effect_is_there_once("memory", 1);
}

/// The process that is killed.
#[test]
#[ignore = "a process that another test starts"]
fn works_until_killed() {
    let folder = std::env::var_os("MARMOTA_WRITE").expect("started by another test");
    let first: i64 = std::env::var("MARMOTA_FIRST").unwrap().parse().unwrap();
    let store = open(&std::env::var("MARMOTA_ENGINE").unwrap(), folder.as_ref());
    let _worker = start(&store);
    let out = std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned().unwrap();
    let mut out = File::from(out);
    writeln!(out).unwrap();
    for number in first * 1_000_000.. {
        store.enqueue(&TakeEffect { number }).run().unwrap();
        writeln!(out, "row {number}.").unwrap();
    }
}
