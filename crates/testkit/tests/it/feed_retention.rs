//! Commits that exceed the retention of a change feed are removed, and their readers get a gap.

use std::thread::sleep;
use std::time::{Duration, Instant};

use marmota_derive::Model;
use marmota_memory::Memory;
use marmota_store::Store;
use marmota_store::action::block_on;
use marmota_store::change::{ChangeRetention, FeedEvent};
use marmota_store::hook::HookOptions;

#[derive(Clone, Debug, Model)]
struct Visit {
    id: i64,
}

#[test]
fn a_reader_of_removed_commits_gets_a_gap() {
    let retention = ChangeRetention::default().bytes_max(1);
    let store = Store::builder(Memory::new()).model::<Visit>().changes(retention).open().unwrap();
    let start = store.position().unwrap();
    let options = HookOptions::default();
    let hook = store.after_commit_with::<Visit>("late", options, |_| Ok(())).unwrap();
    hook.stop();
    for _ in 0..2_500 {
        store.insert(&Visit { id: 0 }).run().unwrap();
    }
    let end = store.position().unwrap();
    // They are removed every 10 seconds.
    let until = Instant::now() + Duration::from_secs(60);
    let gap = loop {
        assert!(Instant::now() < until, "no commit was removed");
        let mut stream = store.changes().unwrap().from(start).unwrap();
        match block_on(stream.next()).unwrap() {
            Some(FeedEvent::Gap(position)) => break position,
            Some(FeedEvent::Commit(_)) => sleep(Duration::from_millis(100)),
            None => panic!("the store is open"),
        }
    };
    assert!(start < gap && gap < end);
    let mut stream = store.changes().unwrap().from(gap).unwrap();
    let mut commits = 0;
    while stream.position() < end {
        let event = block_on(stream.next()).unwrap();
        assert!(matches!(event, Some(FeedEvent::Commit(_))), "{event:?}");
        commits += 1;
    }
    assert!(commits >= 500, "the newest commits are kept: {commits}");
    // A hook that was stopped for too long is told that it has missed changes.
    let hook = store.after_commit::<Visit>("late", |_| Ok(())).unwrap();
    while store.dead_letters("late").unwrap().is_empty() {
        assert!(Instant::now() < until, "the hook has no dead letter");
        sleep(Duration::from_millis(10));
    }
    hook.stop();
    let letters = store.dead_letters("late").unwrap();
    assert!(letters[0].error.contains("were removed"), "{letters:?}");
}
