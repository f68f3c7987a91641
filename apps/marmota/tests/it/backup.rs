//! Backups under write load: restored and checked, also after damage and kills.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use marmota::prelude::*;
use marmota::store::backup::{Manifest, manifest_path};

use crate::application::Served;
use crate::program::Folder;

#[derive(Clone, Debug, Model)]
struct Account {
    id: i64,
    #[model(unique, max = 20)]
    name: String,
    balance: i64,
}

#[derive(Clone, Debug, Model)]
struct Entry {
    id: i64,
    #[model(unique)]
    number: i64,
    of: Ref<Account>,
}

const ACCOUNTS: i64 = 10;
const SUM: i64 = ACCOUNTS * 100;
const ROUNDS: usize = 20;

type Open<'o> = &'o (dyn Fn(&Path) -> Result<Store> + Sync);

fn models(builder: marmota::store::StoreBuilder) -> Result<Store> {
    builder.model::<Account>().model::<Entry>().open()
}

fn fill(store: &Store) {
    if store.count::<Account>().run().unwrap() > 0 {
        return;
    }
    let account = |id| Account { id: 0, name: format!("account {id}"), balance: 100 };
    let accounts: Vec<Account> = (1..=ACCOUNTS).map(account).collect();
    store.insert_many(&accounts).run().unwrap();
}

/// Moves money between accounts, and inserts consecutive numbers. Records which was acknowledged
/// last.
fn work(store: &Store, stop: &AtomicBool, acknowledged: &AtomicI64, first: i64) {
    let mut number = first;
    while !stop.load(Ordering::Relaxed) {
        let (from, to) = (1 + number % ACCOUNTS, 1 + (number * 7 + 3) % ACCOUNTS);
        let moved = store.transaction(|transaction| {
            transaction.increment(Account::BALANCE, from, -5).run()?;
            transaction.increment(Account::BALANCE, to, 5).run()?;
            Ok(())
        });
        moved.unwrap();
        store.insert(&Entry { id: 0, number, of: Ref::new(from) }).run().unwrap();
        acknowledged.store(number, Ordering::Release);
        number += 2;
        // Limits the number of rows, which are all checked in each round.
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Checks a backup: the sum is unchanged, and each writer's numbers are consecutive from the first
/// and include all acknowledged before the backup.
fn check(store: &Store, acknowledged: [i64; 2]) {
    let accounts = store.list::<Account>().limit(100).run().unwrap();
    assert_eq!(accounts.iter().map(|account| account.balance).sum::<i64>(), SUM);
    let numbers = store.list::<Entry>().limit(1_000_000).column(Entry::NUMBER).run().unwrap();
    for (writer, last) in acknowledged.into_iter().enumerate() {
        let mut of_it: Vec<i64> =
            numbers.iter().copied().filter(|number| number % 2 == writer as i64).collect();
        of_it.sort_unstable();
        let expected = (0..of_it.len() as i64).map(|at| 2 * at + writer as i64);
        assert!(of_it.iter().copied().eq(expected), "gaps in {of_it:?}");
        assert!(of_it.last().is_none_or(|&it| it >= last) && (last < 0 || !of_it.is_empty()));
    }
}

fn rounds(open: Open<'_>, restore: &dyn Fn(&Path, &Path) -> Result<()>) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("live.db")).unwrap();
    fill(&store);
    let stop = AtomicBool::new(false);
    let acknowledged = [AtomicI64::new(-1), AtomicI64::new(-1)];
    std::thread::scope(|scope| {
        for (first, last) in acknowledged.iter().enumerate() {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || work(store, stop, last, first as i64));
        }
        let _stop = Stop(&stop);
        for round in 0..ROUNDS {
            std::thread::sleep(Duration::from_millis(10));
            let before = [0, 1].map(|at: usize| acknowledged[at].load(Ordering::Acquire));
            let backup = folder.path().join(format!("backup-{round}"));
            let mut last = (0, 0);
            let manifest =
                store.backup_with(&backup, &mut |done, total| last = (done, total)).unwrap();
            assert!(last.1 > 0 && last.0 == last.1, "{last:?}");
            assert_eq!(manifest.tables["account"], ACCOUNTS as u64);
            let restored = folder.path().join(format!("restored-{round}"));
            restore(&backup, &restored).unwrap();
            let copy = open(&restored).unwrap();
            check(&copy, before);
            // It can be written to like any database.
            copy.insert(&Entry { id: 0, number: -1, of: Ref::new(1) }).run().unwrap();
            copy.close().unwrap();
        }
    });
    store.close().unwrap();
}

/// Stops the writers, also when a check fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn by_url(make: fn(&Path) -> String) {
    let open = move |path: &Path| models(marmota::open(&make(path))?);
    rounds(&open, &|backup, to| marmota::restore(backup, &make(to), false).map(drop));
}

#[test]
fn sqlite_under_load() {
    by_url(|path| format!("sqlite:{}", path.display()));
}

#[test]
fn sqlite_alone_with_its_file_under_load() {
    by_url(|path| format!("sqlite:{}?exclusive=true&durability=relaxed", path.display()));
}

#[test]
fn memory_with_a_log_under_load() {
    by_url(|path| format!("memory:{}?durability=full", path.display()));
}

#[test]
fn memory_without_a_log_under_load() {
    by_url(|path| format!("memory:{}", path.display()));
}

#[cfg(feature = "encryption")]
#[test]
fn sqlite_encrypted_under_load() {
    use marmota::sqlite::{EncryptionKey, Location, Sqlite, SqliteOptions};
    let options = || SqliteOptions::default().key(|| Ok(EncryptionKey::raw([7; 32])));
    let at = |path: &Path| Location::File(path.to_owned());
    let open = |path: &Path| models(Store::builder(Sqlite::open(at(path), options())?));
    rounds(&open, &|backup, to| {
        let bytes = std::fs::read(backup).unwrap();
        assert!(!bytes.windows(7).any(|part| part == b"account"), "the backup is encrypted");
        let manifest = Manifest::of(backup)?;
        assert!(manifest.encrypted);
        manifest.verify(backup)?;
        let other = SqliteOptions::default().key(|| Ok(EncryptionKey::raw([8; 32])));
        let denied =
            Sqlite::restore_to(&at(to), &other, backup, &manifest.tables, false).unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
        Sqlite::restore_to(&at(to), &options(), backup, &manifest.tables, false)
    });
}

/// A folder with a database, a backup of it, and one row inserted after the backup.
struct Scene {
    folder: Folder,
    backup: PathBuf,
}

const SCHEMES: [(&str, &str); 3] = [("sqlite", ""), ("memory", ""), ("memory", "?durability=full")];

impl Scene {
    fn new((scheme, options): (&str, &str)) -> (Self, String) {
        let folder = Folder::new();
        let url = format!("{scheme}:{}{options}", folder.0.path().join("live.db").display());
        let store = models(marmota::open(&url).unwrap()).unwrap();
        fill(&store);
        let backup = folder.0.path().join("monday");
        store.backup_to(&backup).unwrap();
        store.insert(&Entry { id: 0, number: 1, of: Ref::new(1) }).run().unwrap();
        store.close().unwrap();
        (Self { folder, backup }, url)
    }

    fn refused(&self, url: &str, replaces: bool, kind: ErrorKind, part: &str) {
        let error = marmota::restore(&self.backup, url, replaces).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

fn entries(url: &str) -> u64 {
    let store = models(marmota::open(url).unwrap()).unwrap();
    let entries = store.count::<Entry>().run().unwrap();
    let accounts = store.count::<Account>().run().unwrap();
    assert_eq!(accounts, ACCOUNTS as u64);
    store.close().unwrap();
    entries
}

#[test]
fn an_existing_database_is_replaced_only_on_request() {
    for scheme in SCHEMES {
        let (scene, url) = Scene::new(scheme);
        scene.refused(&url, false, ErrorKind::Conflict, "--replace");
        assert_eq!(entries(&url), 1);
        let manifest = marmota::restore(&scene.backup, &url, true).unwrap();
        assert_eq!(manifest.tables["entry"], 0);
        assert_eq!(entries(&url), 0);
        assert!(scene.backup.is_file(), "it can be restored again");
        let store = models(marmota::open(&url).unwrap()).unwrap();
        let taken = store.backup_to(&scene.backup).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::Conflict, "{taken}");
    }
}

#[test]
fn a_database_that_is_open_is_not_replaced() {
    for scheme in [SCHEMES[0], SCHEMES[2]] {
        let (scene, url) = Scene::new(scheme);
        let store = models(marmota::open(&url).unwrap()).unwrap();
        scene.refused(&url, true, ErrorKind::Busy, "");
        assert_eq!(store.count::<Entry>().run().unwrap(), 1);
        store.insert(&Entry { id: 0, number: 2, of: Ref::new(1) }).run().unwrap();
        store.close().unwrap();
        assert_eq!(entries(&url), 2);
    }
}

#[test]
fn a_damaged_or_foreign_backup_is_refused() {
    for scheme in SCHEMES {
        let (mut scene, url) = Scene::new(scheme);
        let whole = std::fs::read(&scene.backup).unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        for damaged in [&flipped[..], &whole[..whole.len() - 1], b""] {
            std::fs::write(&scene.backup, damaged).unwrap();
            scene.refused(&url, true, ErrorKind::Engine, "monday is damaged");
        }
        std::fs::write(&scene.backup, &whole).unwrap();
        let manifest = manifest_path(&scene.backup);
        let text = std::fs::read_to_string(&manifest).unwrap();
        for (from, to, part) in [
            ("marmota-backup", "tar", "the unknown format"),
            ("\"version\": 1", "\"version\": 3", "newer"),
            ("{", "[", "not the manifest"),
            ("\"entry\": 0", "\"entry\": 1", "differ from its manifest"),
        ] {
            std::fs::write(&manifest, text.replacen(from, to, 1)).unwrap();
            let error = marmota::restore(&scene.backup, &url, true).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
        std::fs::write(&manifest, &text).unwrap();
        let other = if scheme.0 == "sqlite" { "memory:b" } else { "sqlite:b" };
        let other = format!("{other}{}", scene.folder.0.path().join("b").display());
        scene.refused(&other, true, ErrorKind::Invalid, "is a backup of");
        scene.refused(&format!("{}:", scheme.0), true, ErrorKind::Invalid, "");
        scene.backup = scene.folder.0.path().join("live.db");
        scene.refused(&url, true, ErrorKind::NotFound, "not a backup");
        assert_eq!(entries(&url), 1, "nothing of this has touched it");
    }
}

#[test]
fn a_damaged_database_can_be_replaced() {
    let (scene, url) = Scene::new(SCHEMES[0]);
    let live = scene.folder.0.path().join("live.db");
    for (database, log) in [(&b"rubbish, and rather a lot of it. "[..], &b"more"[..]), (b"", b"")] {
        std::fs::write(&live, database.repeat(200)).unwrap();
        std::fs::write(live.with_extension("db-wal"), log).unwrap();
        marmota::restore(&scene.backup, &url, true).unwrap();
        assert_eq!(entries(&url), 0);
    }
    let names: Vec<String> = std::fs::read_dir(scene.folder.0.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!names.iter().any(|name| name.contains("before") || name.contains("wal")), "{names:?}");
}

/// Whenever the program is killed, the database is the old or the new one, and every file that
/// counts as a backup is complete.
#[test]
fn a_kill_leaves_a_good_database() {
    for scheme in SCHEMES {
        let folder = Folder::new();
        let url = format!("{}:live.db{}", scheme.0, scheme.1);
        let seen =
            format!("{}:{}{}", scheme.0, folder.0.path().join("live.db").display(), scheme.1);
        let store = models(marmota::open(&seen).unwrap()).unwrap();
        fill(&store);
        for start in 0..5 {
            let entry = |number| Entry { id: 0, number, of: Ref::new(1) };
            let many: Vec<Entry> = (start * 2000..(start + 1) * 2000).map(entry).collect();
            store.insert_many(&many).run().unwrap();
        }
        let good = folder.0.path().join("good");
        store.backup_to(&good).unwrap();
        store.insert(&Entry { id: 0, number: -1, of: Ref::new(1) }).run().unwrap();
        store.close().unwrap();
        for round in 0..12 {
            let to = format!("backup-{round}");
            let words: &[&str] = match round % 2 {
                0 => &["backup", "--db", &url, "--to", &to],
                _ => &["restore", "good", "--db", &url, "--replace"],
            };
            let mut child = folder.program(words).spawn().unwrap();
            std::thread::sleep(Duration::from_micros(300 + 1700 * round));
            let _ = child.kill();
            child.wait().unwrap();
            let entries = entries(&seen);
            assert!(entries == 10_000 || entries == 10_001, "{entries}");
            let backup = folder.0.path().join(&to);
            if manifest_path(&backup).exists() {
                Manifest::of(&backup).unwrap().verify(&backup).unwrap();
            }
        }
        folder.run(&["restore", "good", "--db", &url, "--replace"]).with(0);
        assert_eq!(entries(&seen), 10_000);
    }
}

#[test]
fn the_program_keeps_a_number_of_backups() {
    let folder = Folder::new();
    let database = ["--db", "sqlite:a.db"];
    let missing = folder.run(&["backup", database[0], database[1]]).with(1);
    assert!(missing.contains("no database"), "{missing}");
    folder.run(&["migrate", database[0], database[1]]).with(0);
    for _ in 0..4 {
        let said = folder.run(&["backup", database[0], database[1], "--keep", "2"]).with(0);
        assert!(said.contains("checked"), "{said}");
    }
    let kept =
        marmota::store::backup::in_folder(&folder.0.path().join("backups"), "backup-").unwrap();
    assert_eq!(kept.len(), 2);
    assert_eq!(std::fs::read_dir(folder.0.path().join("backups")).unwrap().count(), 4);
    let newest = kept[1].display().to_string();
    let said = folder.run(&["restore", &newest, database[0], database[1]]).with(1);
    assert!(said.contains("--replace"), "{said}");
    folder.run(&["restore", &newest, database[0], database[1], "--replace"]).with(0);
    folder.run(&["backup", "--keep", "0"]).with(2);
    folder.run(&["backup", "--name", "../x"]).with(2);
    folder.run(&["restore"]).with(2);
}

/// A schedule makes backups by itself, and keeps as many as it was told to.
#[test]
fn a_schedule_makes_a_backup_that_can_be_restored() {
    let folder = Folder::new();
    folder.run(&["new", "shop"]).with(0);
    let shop = folder.within("shop");
    let options = ["--backups", "backups", "--backup-schedule", "* * * * *", "--backup-keep", "1"];
    let served = Served::start(&shop, &options);
    let token = served.log_in();
    let note = serde_json::json!({ "text": "milk" });
    assert_eq!(served.request("POST", "/api/note", &token, &note).0, 201);
    let begun = std::time::Instant::now();
    let made = loop {
        let (status, found) = served.request("GET", "/api/-/backups", &token, &Default::default());
        assert_eq!(status, 200, "{found}");
        assert_eq!(found["schedule"], "* * * * * UTC");
        if let Some(made) = found["backups"].as_array().unwrap().first() {
            break made["name"].as_str().unwrap().to_owned();
        }
        assert!(begun.elapsed() < Duration::from_secs(150), "{found}");
        std::thread::sleep(Duration::from_millis(500));
    };
    let (_, jobs) = served.request("GET", "/api/-/jobs/overview", &token, &Default::default());
    assert!(jobs.to_string().contains("* * * * *"), "{jobs}");
    drop(served);
    let path = format!("backups/{made}");
    shop.run(&["restore", &path, "--db", "sqlite:other.db"]).with(0);
    let rows = shop.run(&["export", "note", "--db", "sqlite:other.db", "--format", "csv"]).with(0);
    assert!(rows.contains("milk"), "{rows}");
}
