//! Processes that save, replace and delete files, and are killed at any moment: each row has the
//! bytes that it describes, and after a sweep there are no others.

#[path = "../../../memory/tests/it/killed.rs"]
mod child;

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use marmota_files::FileStorage;
use marmota_store::Store;

use crate::issue::{Issue, open};

/// `cargo xtask soak` sets more.
fn rounds() -> u64 {
    std::env::var("MARMOTA_KILLS").map_or(12, |rounds| rounds.parse().unwrap())
}

/// Objects in the folder of files, finished or not.
fn objects(folder: &Path) -> u64 {
    let folders = std::fs::read_dir(folder.join("files/files")).into_iter().flatten().flatten();
    folders.map(|folder| std::fs::read_dir(folder.path()).unwrap().count() as u64).sum()
}

fn files_of(folder: &Path) -> String {
    folder.join("files").display().to_string()
}

/// Checks that each row's bytes are complete. Returns the number of rows with a file.
fn check(store: &Store, storage: &FileStorage) -> u64 {
    let mut files = 0;
    for issue in store.list::<Issue>().run().unwrap() {
        if let Some(file) = &issue.attachment {
            let bytes = storage.read_all(file).unwrap();
            assert_eq!(bytes.len() as u64, file.bytes);
            assert!(bytes.iter().all(|byte| *byte == issue.title.as_bytes()[0]), "{issue:?}");
            files += 1;
        }
    }
    files
}

fn rows_and_files_agree(engine: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..rounds() {
        let environment = [("MARMOTA_ENGINE", engine)];
        let test = "killed::saves_until_killed";
        acknowledged.extend(child::written_until_killed(test, folder.path(), round, &environment));
    }
    assert!(acknowledged.len() as u64 >= rounds(), "{} rows", acknowledged.len());
    let (store, storage) = open(engine, folder.path(), &files_of(folder.path()));
    let files = check(&store, &storage);
    for row in &acknowledged {
        let issue = store.get::<Issue>(row.parse::<i64>().unwrap()).run().unwrap();
        assert!(issue.attachment.is_some(), "the file of row {row} was acknowledged");
    }
    storage.sweep(&store, Duration::ZERO).unwrap();
    assert_eq!(check(&store, &storage), files);
    assert_eq!(objects(folder.path()), files, "orphans are left");
    storage.stop();
    store.close().unwrap();
}

#[test]
fn rows_and_files_agree_on_sqlite() {
    rows_and_files_agree("sqlite");
}

#[test]
fn rows_and_files_agree_in_memory() {
    rows_and_files_agree("memory");
}

/// The process that is killed. It keeps each second row.
#[test]
#[ignore = "a process that another test starts"]
fn saves_until_killed() {
    let folder = std::env::var_os("MARMOTA_WRITE").expect("started by another test");
    let folder = Path::new(&folder);
    let engine = std::env::var("MARMOTA_ENGINE").unwrap();
    let (store, storage) = open(&engine, folder, &files_of(folder));
    let out = std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned().unwrap();
    let mut out = std::fs::File::from(out);
    writeln!(out).unwrap();
    for number in 0_usize.. {
        let letter = b'a' + (number % 26) as u8;
        let save = |bytes: usize| {
            let bytes = vec![letter; bytes];
            storage.save(Issue::ATTACHMENT, "letters.txt", &mut &bytes[..]).unwrap()
        };
        let title = char::from(letter).to_string();
        // Some are larger than a part, which is written in several steps.
        let sizes = [10, 3_000_000, 200_000];
        let issue = Issue::new(&title, Some(save(sizes[number % 3])));
        let id = store.insert(&issue).run().unwrap();
        let replaced = Issue { id, ..Issue::new(&title, Some(save(20))) };
        store.update(&replaced).run().unwrap();
        match number % 2 {
            0 => writeln!(out, "row {id}.").unwrap(),
            _ => {
                store.delete::<Issue>(id).run().unwrap();
            }
        }
    }
}
