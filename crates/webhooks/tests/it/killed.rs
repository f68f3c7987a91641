//! A server that is killed while it writes and sends: each acknowledged change is sent at least
//! once, in the order of its row.

#[path = "../../../memory/tests/it/killed.rs"]
mod child;

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use marmota_memory::Memory;
use marmota_model::Result;
use marmota_sqlite::Sqlite;
use marmota_store::Store;
use marmota_store::change::ChangeRetention;
use marmota_webhooks::{Webhook, WebhookWorker, Webhooks};

use crate::harness::{DEADLINE, Issue, Receiver, SECRET, issue, local, set};

/// `cargo xtask soak` sets more.
fn rounds() -> u64 {
    std::env::var("MARMOTA_KILLS").map_or(6, |rounds| rounds.parse().unwrap())
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
    let builder = builder.model::<Issue>().changes(ChangeRetention::default());
    marmota_webhooks::models(builder).open().unwrap()
}

fn start(store: &Store) -> Result<WebhookWorker> {
    let options = local().allow_private(true).lease(Duration::from_secs(1));
    Webhooks::new(store).start(options)
}

fn nothing_is_lost(engine: &str) {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::ok();
    let store = open(engine, folder.path());
    // The cursor of the hook begins here.
    let worker = start(&store).unwrap();
    let secret = SECRET.parse().unwrap();
    let webhook = Webhook::new("chat", &receiver.url, "issue").secret(&secret);
    set(&Webhooks::new(&store), &webhook).unwrap();
    worker.stop().unwrap();
    store.close().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..rounds() {
        let environment = [("MARMOTA_ENGINE", engine)];
        let test = "killed::writes_and_sends_until_killed";
        acknowledged.extend(child::written_until_killed(test, folder.path(), round, &environment));
    }
    assert!(acknowledged.len() as u64 >= rounds());
    let store = open(engine, folder.path());
    let worker = start(&store).unwrap();
    let key_and_number = |text: &str| -> (i64, i64) {
        let (key, number) = text.split_once(' ').unwrap();
        (key.parse().unwrap(), number.parse().unwrap())
    };
    let last: HashMap<i64, i64> = acknowledged.iter().map(|line| key_and_number(line)).collect();
    let sent = || {
        let mut sent: HashMap<i64, Vec<i64>> = HashMap::new();
        for one in receiver.received() {
            let key = one.json()["data"]["key"].as_i64().unwrap();
            sent.entry(key).or_default().push(one.number());
        }
        sent
    };
    let last_are_in = |sent: &HashMap<i64, Vec<i64>>| {
        last.iter().all(|(key, number)| sent.get(key).is_some_and(|sent| sent.contains(number)))
    };
    // Many kills leave many changes: they may take longer than the deadline, but not stand still.
    let mut progress = (receiver.count(), Instant::now());
    while !last_are_in(&sent()) {
        if receiver.count() > progress.0 {
            progress = (receiver.count(), Instant::now());
        }
        assert!(progress.1.elapsed() < DEADLINE, "no change is sent after {} requests", progress.0);
        std::thread::sleep(Duration::from_millis(300));
    }
    worker.stop().unwrap();
    assert!(receiver.received().iter().all(|one| one.verify(SECRET)));
    for (key, numbers) in sent() {
        // Without repeated ones, the changes of a row are complete and in order.
        let mut first = Vec::new();
        for number in numbers {
            if first.last().is_none_or(|last| number > *last) {
                first.push(number);
            }
        }
        let complete: Vec<i64> = (1..=*first.last().unwrap()).collect();
        assert_eq!(first, complete, "row {key}");
    }
}

#[test]
fn nothing_is_lost_on_sqlite() {
    nothing_is_lost("sqlite");
}

#[test]
fn nothing_is_lost_in_memory() {
    nothing_is_lost("memory");
}

/// The process that is killed.
#[test]
#[ignore = "a process that another test starts"]
fn writes_and_sends_until_killed() {
    let folder = std::env::var_os("MARMOTA_WRITE").expect("started by another test");
    let store = open(&std::env::var("MARMOTA_ENGINE").unwrap(), folder.as_ref());
    let _worker = start(&store).unwrap();
    let out = std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned().unwrap();
    let mut out = File::from(out);
    writeln!(out).unwrap();
    loop {
        let id = store.insert(&issue("row", 1)).run().unwrap();
        writeln!(out, "row {id} 1.").unwrap();
        for number in 2..5 {
            store.patch::<Issue>(id).set(Issue::NUMBER, number).run().unwrap();
            writeln!(out, "row {id} {number}.").unwrap();
        }
    }
}
