//! Backups of a store of several databases: one manifest of all, each of one moment.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use marmota::command::Command;
use marmota::prelude::*;
use marmota::store::StoreBuilder;
use marmota::store::backup::{Manifest, in_folder, manifest_path, remove};

/// In the first database.
#[derive(Clone, Debug, Model)]
struct Account {
    id: i64,
    balance: i64,
}

/// In another file.
#[derive(Clone, Debug, Model)]
struct Entry {
    id: i64,
    #[model(unique)]
    number: i64,
}

/// In the memory engine, with a log.
#[derive(Clone, Debug, Model)]
struct Session {
    id: i64,
    #[model(unique)]
    number: i64,
}

const SUM: i64 = 1_000;

/// Stops the writer, also where the test fails: its scope waits for it.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The URLs of the databases beside the first, which lie in the same folder.
fn others(folder: &Path) -> [(&'static str, String); 2] {
    let archive = format!("sqlite:{}?create_folders=true", folder.join("archive.db").display());
    let live =
        format!("memory:{}?durability=full&create_folders=true", folder.join("live.mem").display());
    [("archive", archive), ("live", live)]
}

fn builder(url: &str, folder: &Path) -> Result<StoreBuilder> {
    let [(archive, archive_url), (live, live_url)] = others(folder);
    let other = marmota::sqlite::Sqlite::from_url(&archive_url)?;
    let memory = marmota::memory::Memory::from_url(&live_url)?;
    Ok(marmota::open(url)?
        .model::<Account>()
        .database(archive, other, |archive| archive.model::<Entry>())
        .database(live, memory, |live| live.model::<Session>()))
}

fn main_url(folder: &Path) -> String {
    format!("sqlite:{}?create_folders=true", folder.join("main.db").display())
}

fn open(folder: &Path) -> Store {
    builder(&main_url(folder), folder).unwrap().open().unwrap()
}

fn filled(folder: &Path) -> Store {
    std::fs::create_dir_all(folder).unwrap();
    let store = open(folder);
    let accounts: Vec<Account> = (0..10).map(|_| Account { id: 0, balance: SUM / 10 }).collect();
    store.insert_many(&accounts).run().unwrap();
    store
}

fn restore(backup: &Path, to: &Path, replaces: bool) -> Result<Manifest> {
    let main = main_url(to);
    let others = others(to);
    let mut urls = vec![("main", &*main)];
    urls.extend(others.iter().map(|(name, url)| (*name, &**url)));
    marmota::restore_all(backup, &urls, replaces)
}

/// Numbers without gaps, at least to the one that was acknowledged.
fn check_numbers(mut numbers: Vec<i64>, acknowledged: i64) {
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..numbers.len() as i64), "gaps in {numbers:?}");
    assert!(numbers.len() as i64 > acknowledged, "{} of {acknowledged}", numbers.len());
}

#[test]
fn each_database_is_of_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(&folder.path().join("live"));
    let (stop, done) = (AtomicBool::new(false), [const { AtomicI64::new(-1) }; 2]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let moved = store.transaction(|transaction| {
                    transaction.increment(Account::BALANCE, 1 + number % 10, -5).run()?;
                    transaction.increment(Account::BALANCE, 1 + (number * 7 + 3) % 10, 5).run()
                });
                moved.unwrap();
                store.insert(&Entry { id: 0, number }).run().unwrap();
                done[0].store(number, Ordering::Release);
                store.insert(&Session { id: 0, number }).run().unwrap();
                done[1].store(number, Ordering::Release);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let _stop = StopOnDrop(&stop);
        for round in 0..8 {
            std::thread::sleep(Duration::from_millis(10));
            let before = done.each_ref().map(|number| number.load(Ordering::Acquire));
            let backup = folder.path().join(format!("backup-{round}"));
            let manifest = store.backup_to(&backup).unwrap();
            assert_eq!(Manifest::of(&backup).unwrap(), manifest);
            assert_eq!(manifest.tables["account"], 10);
            assert_eq!(manifest.others[0].name, "archive");
            assert_eq!(manifest.others[1].engine, "memory");
            let to = folder.path().join(format!("restored-{round}"));
            restore(&backup, &to, false).unwrap();
            let copy = open(&to);
            let accounts = copy.list::<Account>().run().unwrap();
            assert_eq!(accounts.iter().map(|account| account.balance).sum::<i64>(), SUM);
            let limit = 1_000_000;
            let entries = copy.list::<Entry>().limit(limit).column(Entry::NUMBER).run().unwrap();
            assert_eq!(entries.len() as u64, manifest.others[0].tables["entry"]);
            check_numbers(entries, before[0]);
            let sessions = copy.list::<Session>().limit(limit).column(Session::NUMBER).run();
            check_numbers(sessions.unwrap(), before[1]);
            copy.close().unwrap();
        }
    });
    store.close().unwrap();
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("live");
    let store = filled(&at);
    let backup = folder.path().join("monday");
    let manifest = store.backup_to(&backup).unwrap();
    let refused = |result: Result<Manifest>, kind: ErrorKind, part: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(part), "{error}");
    };
    // All names are taken, or none.
    let again = folder.path().join("tuesday");
    std::fs::write(folder.path().join("tuesday.live"), "mine").unwrap();
    refused(store.backup_to(&again), ErrorKind::Conflict, "tuesday.live");
    assert!(!again.exists());
    let main = main_url(&at);
    refused(marmota::restore(&backup, &main, true), ErrorKind::Invalid, "--database archive=URL");
    let urls = [("main", &*main), ("other", "memory:x")];
    refused(marmota::restore_all(&backup, &urls, true), ErrorKind::Invalid, "`other`");
    let wrong = [("main", &*main), ("archive", "memory:a"), ("live", "memory:b")];
    refused(marmota::restore_all(&backup, &wrong, true), ErrorKind::Invalid, "`sqlite`");
    refused(restore(&backup, &at, true), ErrorKind::Busy, "");
    store.insert(&Entry { id: 0, number: 1 }).run().unwrap();
    store.close().unwrap();
    refused(restore(&backup, &at, false), ErrorKind::Conflict, "main.db");
    let other = manifest.others[0].path(&backup);
    let whole = std::fs::read(&other).unwrap();
    std::fs::write(&other, &whole[..whole.len() - 1]).unwrap();
    refused(restore(&backup, &at, true), ErrorKind::Engine, "monday.archive is damaged");
    assert_eq!(open(&at).count::<Entry>().run().unwrap(), 1);
    std::fs::write(&other, whole).unwrap();
    restore(&backup, &at, true).unwrap();
    assert_eq!(open(&at).count::<Entry>().run().unwrap(), 0);
    // A name that would lead elsewhere is none.
    let text = std::fs::read_to_string(manifest_path(&backup)).unwrap();
    let hostile = text.replace("\"archive\"", "\"../archive\"");
    std::fs::write(manifest_path(&backup), hostile).unwrap();
    refused(restore(&backup, &at, true), ErrorKind::Invalid, "invalid name");
    std::fs::write(manifest_path(&backup), text).unwrap();
    remove(&backup).unwrap();
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(!left.iter().any(|path| path.to_string_lossy().contains("monday")), "{left:?}");
}

#[test]
fn the_program_backs_up_and_restores_all() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("live");
    let store = filled(&at);
    store.insert(&Entry { id: 0, number: 7 }).run().unwrap();
    store.close().unwrap();
    let main = main_url(&at);
    let program = {
        let at = at.clone();
        Command::new(move |url| builder(url, &at))
    };
    let backups = folder.path().join("backups").display().to_string();
    let backup = ["program", "backup", "--db", &main, "--folder", &backups, "--keep", "2"];
    for _ in 0..3 {
        assert_eq!(program.run_with(backup), ExitCode::SUCCESS);
    }
    let store = open(&at);
    store.delete::<Entry>(1).run().unwrap();
    store.close().unwrap();
    let kept = in_folder(Path::new(&backups), "backup-").unwrap();
    // A copy of each database, and a manifest.
    assert_eq!((kept.len(), std::fs::read_dir(&backups).unwrap().count()), (2, 8));
    let newest = kept[1].display().to_string();
    let [archive, live] = others(&at).map(|(name, url)| format!("{name}={url}"));
    let mut restore = vec!["program", "restore", &newest, "--db", &main, "--replace"];
    assert_eq!(program.run_with(&restore), ExitCode::FAILURE);
    restore.extend(["--database", &archive, "--database", &live]);
    assert_eq!(program.run_with(&restore), ExitCode::SUCCESS);
    assert_eq!(open(&at).count::<Entry>().run().unwrap(), 1);
}
