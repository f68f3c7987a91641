//! A process that is killed while it writes and a hook handles its changes: each acknowledged
//! change is in the feed, and the hook gets it at least once, in the order of its row.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, read_to_string};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use marmota_derive::Model;
use marmota_memory::Memory;
use marmota_model::Value;
use marmota_sqlite::Sqlite;
use marmota_store::Store;
use marmota_store::action::block_on;
use marmota_store::change::{ChangeRetention, FeedEvent, Position};
use marmota_store::hook::Hook;

use crate::killed::written_until_killed;

const ROUNDS: u64 = 12;

#[derive(Clone, Debug, Model)]
struct Tally {
    id: i64,
    number: i64,
}

fn open(engine: &str, folder: &Path) -> Store {
    let file = folder.join("database").display().to_string();
    let store = match engine {
        "sqlite" => Store::builder(Sqlite::from_url(&format!("sqlite:{file}")).unwrap()),
        _ => {
            let url = format!("memory:{file}?durability=full");
            Store::builder(Memory::from_url(&url).unwrap())
        }
    };
    store.model::<Tally>().changes(ChangeRetention::default()).open().unwrap()
}

/// A hook that appends the key and the number of each change to a file.
fn hook(store: &Store, folder: &Path) -> Hook {
    let file = folder.join("handled");
    let mut handled = OpenOptions::new().create(true).append(true).open(file).unwrap();
    let hook = store.after_commit::<Tally>("handled", move |change| {
        let tally = change.after.as_ref().unwrap();
        // One call of the system, so a kill leaves a line or none.
        handled.write_all(format!("{} {}\n", tally.id, tally.number).as_bytes()).unwrap();
        Ok(())
    });
    hook.unwrap()
}

fn numbers(line: &str) -> (i64, i64) {
    let (id, number) = line.split_once(' ').unwrap();
    (id.parse().unwrap(), number.parse().unwrap())
}

fn nothing_is_lost(engine: &str) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(engine, folder.path());
    let start = store.position().unwrap();
    store.close().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        let test = "killed_hooks::writes_until_killed";
        let environment = [("MARMOTA_ENGINE", engine)];
        let told = written_until_killed(test, folder.path(), round, &environment);
        assert!(!told.is_empty(), "round {round} wrote nothing");
        acknowledged.extend(told.iter().map(|line| numbers(line)));
    }
    let store = open(engine, folder.path());
    let committed = committed(&store, start);
    for change in &acknowledged {
        assert!(committed.contains(change), "{change:?} was acknowledged and is not in the feed");
    }
    let hook = hook(&store, folder.path());
    let until = Instant::now() + Duration::from_secs(60);
    let handled = loop {
        let text = read_to_string(folder.path().join("handled")).unwrap();
        let handled: Vec<_> = text.lines().map(numbers).collect();
        if handled.last() == committed.last() || Instant::now() >= until {
            break handled;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    hook.stop();
    // Without repeated ones, the hook got exactly the committed changes, in order.
    let mut first = Vec::new();
    let mut last: HashMap<i64, i64> = HashMap::new();
    for &(id, number) in &handled {
        if last.get(&id).is_none_or(|last| *last < number) {
            last.insert(id, number);
            first.push((id, number));
        }
    }
    assert_eq!(first, committed);
}

/// Returns the keys and numbers of all changes of the feed, in order.
fn committed(store: &Store, start: Position) -> Vec<(i64, i64)> {
    let end = store.position().unwrap();
    let mut stream = store.changes().unwrap().from(start).unwrap();
    let mut committed = Vec::new();
    while stream.position() < end {
        let Some(FeedEvent::Commit(commit)) = block_on(stream.next()).unwrap() else {
            panic!("the feed has a gap");
        };
        for change in &commit.changes {
            let Some([Value::Int(id), Value::Int(number)]) = change.after.as_deref() else {
                panic!("{change:?}");
            };
            committed.push((*id, *number));
        }
    }
    committed
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
fn writes_until_killed() {
    let folder = std::env::var_os("MARMOTA_WRITE").expect("started by another test");
    let engine = std::env::var("MARMOTA_ENGINE").unwrap();
    let store = open(&engine, folder.as_ref());
    let _hook = hook(&store, folder.as_ref());
    let mut out =
        File::from(std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned().unwrap());
    writeln!(out).unwrap();
    loop {
        let id = store.insert(&Tally { id: 0, number: 1 }).run().unwrap();
        writeln!(out, "row {id} 1.").unwrap();
        for number in 2..5 {
            store.patch::<Tally>(id).set(Tally::NUMBER, number).run().unwrap();
            writeln!(out, "row {id} {number}.").unwrap();
        }
    }
}
