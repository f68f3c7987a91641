//! The memory of a stream: that of a page, not of the list.
#![allow(clippy::unwrap_used, reason = "tests panic")]
#![cfg(feature = "sqlite")]

use marmota::prelude::*;

#[derive(Clone, Debug, Model)]
struct Line {
    id: i64,
    text: String,
}

/// Returns the memory of this process in KiB, without the pages of files that are mapped into it.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_stream_of_100_000_rows_takes_the_memory_of_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines.db");
    let file = format!("sqlite:{}?cache_bytes_max=1000000", file.display());
    let store = marmota::open(&file).unwrap().model::<Line>().open().unwrap();
    let line = Line { id: 0, text: "x".repeat(500) };
    for _ in 0..100 {
        store.insert_many(&vec![line.clone(); 1_000]).run().unwrap();
    }
    store.list::<Line>().iter().take(1_000).for_each(|line| drop(line.unwrap()));
    let (mut rows, before, mut most) = (0, resident_kib(), 0);
    for line in store.list::<Line>().iter() {
        assert_eq!(line.unwrap().text.len(), 500);
        rows += 1;
        if rows % 1_000 == 0 {
            most = most.max(resident_kib());
        }
    }
    assert_eq!(rows, 100_000);
    let grown_kib = most.saturating_sub(before);
    println!("{grown_kib} KiB for 100,000 rows of 500 bytes");
    assert!(grown_kib < 10_000, "the list has 50 MB, the stream took {grown_kib} KiB");
}
