//! Files with a key: what can be read of them, by whom, and what happens to
//! those that were tampered with.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use marmota_model::{ErrorKind, Result, RowQuery, Table, ValueRef};
use marmota_sqlite::{Durability, EncryptionKey, Location, Sqlite, SqliteOptions};
use marmota_store::engine::{Engine, Session};
use marmota_store::operation::Operation;

use crate::database::{Calls, Collected, file, id, run, table, text};

/// Stands in every row, and must stand in no file.
const KNOWN: &str = "Bourges-Marmota-known-value";

fn note() -> Arc<Table> {
    table("note", vec![id(), text("body").unique(true)])
}

fn raw(byte: u8) -> EncryptionKey {
    EncryptionKey::raw([byte; 32])
}

fn passphrase(text: &str) -> EncryptionKey {
    EncryptionKey::passphrase(text.to_owned()).unwrap()
}

fn open_with(
    path: &Path,
    key: impl Fn() -> EncryptionKey + Send + Sync + 'static,
) -> Result<Sqlite> {
    Sqlite::open(Location::File(path.to_owned()), SqliteOptions::default().key(move || Ok(key())))
}

fn open_plain(path: &Path) -> Result<Sqlite> {
    Sqlite::open(Location::File(path.to_owned()), SqliteOptions::default())
}

fn insert(session: &mut Box<dyn Session>, note: &Table, bodies: std::ops::Range<u32>) {
    let bodies: Vec<String> = bodies.map(|number| format!("{KNOWN} {number}")).collect();
    let rows: Vec<Vec<ValueRef<'_>>> =
        bodies.iter().map(|body| vec![ValueRef::Absent, ValueRef::Text(body)]).collect();
    session.insert_many(note, &rows).unwrap();
}

fn bodies(session: &mut Box<dyn Session>, note: &Table) -> Result<Vec<String>> {
    let query = RowQuery::new();
    let mut rows = Collected::default();
    run(&mut **session, &mut Operation::List { table: note, query: &query }, &mut rows)?;
    Ok(rows.0.iter().map(|row| row[1].as_ref().as_text().unwrap_or_default().to_owned()).collect())
}

/// Writes rows and gives what the engine said of them, closed again.
fn filled(path: &Path, key: Option<fn() -> EncryptionKey>, rows: u32) -> Vec<String> {
    let engine = match key {
        Some(key) => open_with(path, key),
        None => open_plain(path),
    };
    let (engine, note) = (engine.unwrap(), note());
    engine.prepare(std::slice::from_ref(&note), 0).unwrap();
    let mut session = engine.session().unwrap();
    insert(&mut session, &note, 0..rows);
    bodies(&mut session, &note).unwrap()
}

fn read(path: &Path, key: Option<EncryptionKey>) -> Result<Vec<String>> {
    let options = match key {
        None => SqliteOptions::default(),
        Some(key) => {
            let given = std::sync::Mutex::new(Some(key));
            SqliteOptions { exclusive: true, ..SqliteOptions::default() }
                .key(move || Ok(given.lock().unwrap().take().unwrap()))
        }
    };
    let engine = Sqlite::open(Location::File(path.to_owned()), options)?;
    let note = note();
    engine.prepare(std::slice::from_ref(&note), 0)?;
    let mut session = engine.session()?;
    bodies(&mut session, &note)
}

/// Everything that this process has in files of that folder, or in files
/// without a name.
fn all_bytes(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let named = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    // The process reads its own descriptors: opening the files by name and
    // closing them would drop SQLite's locks.
    let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| {
        let path = entry.ok()?.path();
        let to = std::fs::read_link(&path).ok()?.to_string_lossy().into_owned();
        to.contains("(deleted)").then_some(path)
    });
    let named = named.map(|path| {
        let bytes = Command::new("cat").arg(&path).output().unwrap().stdout;
        (path, bytes)
    });
    let open = open.filter_map(|path| Some((path.clone(), std::fs::read(&path).ok()?)));
    named.chain(open.collect::<Vec<_>>()).collect()
}

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}

#[track_caller]
fn assert_nothing_is_told(folder: &Path) {
    let files = all_bytes(folder);
    assert!(files.iter().any(|(_, bytes)| bytes.len() > 4096), "nothing was looked at");
    for (path, bytes) in files {
        // Neither a value, nor a table's name, nor the SQL of the schema.
        for word in [KNOWN, "note", "body", "CREATE", "SQLite format"] {
            assert!(!holds(&bytes, word), "{} has {word:?}", path.display());
        }
    }
}

#[test]
fn no_file_ever_holds_a_known_value() {
    for exclusive in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let options = SqliteOptions {
            exclusive,
            durability: Durability::Relaxed,
            ..SqliteOptions::default()
        }
        .key(|| Ok(raw(1)));
        let engine = Sqlite::open(Location::File(path.clone()), options).unwrap();
        let note = note();
        engine.prepare(std::slice::from_ref(&note), 0).unwrap();
        let mut session = engine.session().unwrap();
        for batch in 0..10 {
            insert(&mut session, &note, batch * 500..batch * 500 + 500);
            assert_nothing_is_told(folder.path());
        }
        // A statement that needs a journal of its own, in a transaction that
        // spills its pages, and a sort of everything.
        session.run(Operation::Begin).unwrap();
        insert(&mut session, &note, 5_000..20_000);
        assert_nothing_is_told(folder.path());
        session.run(Operation::Rollback).unwrap();
        engine
            .execute(
                "PRAGMA cache_size=10; BEGIN; \
                 UPDATE note SET body = body || ' again' WHERE id > 0; \
                 CREATE TEMP TABLE kept AS SELECT body FROM note ORDER BY body DESC; \
                 SELECT body, count(*) FROM note GROUP BY substr(body, 5) ORDER BY 2, 1; COMMIT",
            )
            .unwrap();
        assert_nothing_is_told(folder.path());
        engine.execute("PRAGMA wal_checkpoint(TRUNCATE); VACUUM").unwrap();
        assert_nothing_is_told(folder.path());
        drop(session);
        engine.close().unwrap();
        assert_nothing_is_told(folder.path());
    }
    // The same words are found where nothing is encrypted.
    let folder = tempfile::tempdir().unwrap();
    filled(&folder.path().join("a.db"), None, 10);
    assert!(all_bytes(folder.path()).iter().any(|(_, bytes)| holds(bytes, KNOWN)));
}

#[test]
fn keys_open_what_they_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let keys: [fn() -> EncryptionKey; 2] = [|| raw(1), || passphrase("correct horse")];
    for (number, key) in keys.into_iter().enumerate() {
        let path = folder.path().join(number.to_string());
        let written = filled(&path, Some(key), 100);
        assert_eq!(read(&path, Some(key())).unwrap(), written);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let (closed, open) = (folder.path().join("closed.db"), folder.path().join("open.db"));
    filled(&closed, Some(|| raw(1)), 10);
    filled(&open, None, 10);
    let letter = folder.path().join("letter.txt");
    std::fs::write(&letter, "Dear Ada, this is no database. ".repeat(200)).unwrap();
    for (path, key, kind, parts) in [
        (&closed, Some(raw(2)), ErrorKind::Denied, ["closed.db", "right key"]),
        (&closed, Some(passphrase("x")), ErrorKind::Denied, ["closed.db", "right key"]),
        (&closed, None, ErrorKind::Engine, ["closed.db", "MARMOTA_KEY"]),
        (&open, Some(raw(1)), ErrorKind::Invalid, ["open.db", "Sqlite::rekey"]),
        (&letter, Some(raw(1)), ErrorKind::Denied, ["letter.txt", "not a database"]),
    ] {
        let before = std::fs::read(path).unwrap();
        let error = read(path, key).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        for part in parts {
            assert!(error.to_string().contains(part), "{error}");
        }
        assert_eq!(std::fs::read(path).unwrap(), before, "a refused file is left alone");
    }
    let memory = Sqlite::open(Location::Memory, SqliteOptions::default().key(|| Ok(raw(1))));
    assert_eq!(memory.unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_passphrase_is_asked_for_once_and_a_raw_key_each_time() {
    for (derived, asked) in [(true, 1), (false, 4)] {
        let folder = tempfile::tempdir().unwrap();
        let count = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&count);
        let engine = open_with(&folder.path().join("a.db"), move || {
            counted.fetch_add(1, Ordering::Relaxed);
            if derived { passphrase("correct horse") } else { raw(3) }
        })
        .unwrap();
        let note = note();
        engine.prepare(std::slice::from_ref(&note), 0).unwrap();
        let mut sessions: Vec<_> = (0..3).map(|_| engine.session().unwrap()).collect();
        insert(&mut sessions[0], &note, 0..3);
        for session in &mut sessions {
            assert_eq!(bodies(session, &note).unwrap().len(), 3);
        }
        assert_eq!(count.load(Ordering::Relaxed), asked);
    }
}

#[test]
fn a_source_that_fails_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let ask = || Err(marmota_model::Error::new(ErrorKind::Timeout, "the vault is sealed"));
    let error = Sqlite::open(Location::File(path), SqliteOptions::default().key(ask)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("sealed") && error.to_string().contains("a.db"), "{error}");
}

#[test]
fn a_file_can_be_begun_by_several_at_once() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| drop(open_with(&path, || passphrase("one for all")).unwrap()));
            }
        });
    }
}

/// Runs this test again in a process of its own, with that environment.
fn again(name: &str, environment: &[(&str, &str)], folder: &Path) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env("MARMOTA_FOLDER", folder);
    command.env_remove("MARMOTA_KEY").envs(environment.iter().copied());
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    told
}

#[test]
fn the_environment_has_keys() {
    let name = "encryption::the_environment_has_keys";
    if let Some(folder) = std::env::var_os("MARMOTA_FOLDER") {
        let url = |file: &str| format!("sqlite:{}", Path::new(&folder).join(file).display());
        for url in [url("a.db"), url("b.db?key_env=OTHER"), "sqlite::memory:".to_owned()] {
            match Sqlite::from_url(&url) {
                Ok(_) => println!("opened"),
                Err(error) => println!("{error:?}"),
            }
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hex = "0a".repeat(32);
    let told = again(name, &[("MARMOTA_KEY", &hex), ("OTHER", "hunter two")], folder.path());
    assert_eq!(told.matches("opened").count(), 3, "{told}");
    assert!(open_with(&folder.path().join("a.db"), || raw(10)).is_ok());
    assert!(open_with(&folder.path().join("b.db"), || passphrase("hunter two")).is_ok());
    let told = again(name, &[("MARMOTA_KEY", "hunter three")], folder.path());
    assert!(told.contains("right key") && told.contains("OTHER has no valid key"), "{told}");
    let told = again(name, &[("MARMOTA_KEY", "")], folder.path());
    assert!(told.contains("MARMOTA_KEY: the passphrase has 0 bytes; 1 to"), "{told}");
    assert!(!told.contains("hunter"), "{told}");
}

#[test]
fn nothing_printed_holds_a_key() {
    let options = SqliteOptions::default().key(|| Ok(passphrase("hunter two")));
    let key = EncryptionKey::parse(&"ab".repeat(32)).unwrap();
    let printed = format!("{options:?} {options:#?} {key:?} {:?}", passphrase("hunter two"));
    for secret in ["hunter", "abab", "171"] {
        assert!(!printed.contains(secret), "{printed}");
    }
    let folder = tempfile::tempdir().unwrap();
    let engine = Sqlite::open(Location::File(folder.path().join("a.db")), options).unwrap();
    assert!(!format!("{engine:?}").contains("hunter"));
}

/// Flips one bit at each of some places of a file and reads it with its key.
/// Gives how many flips were found out.
fn flip(path: &Path, wal: bool, truth: &[String]) -> usize {
    let log = PathBuf::from(format!("{}-wal", path.display()));
    let (main, kept) = (std::fs::read(path).unwrap(), std::fs::read(&log).unwrap_or_default());
    let victim = if wal { &log } else { path };
    let bytes = if wal { kept.len() } else { main.len() };
    // All of the first header and the ends of pages, and some of the rest.
    let places = (0..120).chain((120..bytes).step_by(997)).chain((4000..4096).step_by(3));
    let mut refused = 0;
    for place in places.filter(|place| *place < bytes) {
        std::fs::write(path, &main).unwrap();
        if !kept.is_empty() {
            std::fs::write(&log, &kept).unwrap();
        }
        let _ = std::fs::remove_file(format!("{}-shm", path.display()));
        let at = std::fs::File::options().read(true).write(true).open(victim).unwrap();
        let mut byte = [0];
        at.read_exact_at(&mut byte, place as u64).unwrap();
        at.write_all_at(&[byte[0] ^ 1 << (place % 8)], place as u64).unwrap();
        drop(at);
        match read(path, Some(raw(1))) {
            // SQLite takes a damaged end of a log for one that was not
            // finished: what was before it is there, and nothing else.
            Ok(rows) => {
                assert!(truth.starts_with(&rows), "byte {place} gave {} rows", rows.len());
                // A page that a list does not read is found by whoever reads
                // all of them. The first bytes are the salt, which a raw key
                // does without, and what SQLite must know before it has a key.
                let checked = Sqlite::rekey(path, Some(&raw(1)), Some(&raw(1)));
                assert!(wal || place < 24 || checked.is_err(), "byte {place}");
            }
            Err(error) => {
                let kinds = [ErrorKind::Engine, ErrorKind::Denied, ErrorKind::Io];
                assert!(kinds.contains(&error.kind()), "byte {place}: {error:?}");
                refused += 1;
            }
        }
    }
    refused
}

#[test]
fn a_flipped_byte_of_the_file_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let truth = filled(&path, Some(|| raw(1)), 2_000);
    let refused = flip(&path, false, &truth);
    assert!(refused > 100, "{refused} were found out");
}

#[test]
fn a_flipped_byte_of_the_log_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("a.db"), folder.path().join("b.db"));
    let note = note();
    let engine = open_with(&path, || raw(1)).unwrap();
    engine.prepare(std::slice::from_ref(&note), 0).unwrap();
    engine.execute("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut session = engine.session().unwrap();
    for batch in 0..4 {
        insert(&mut session, &note, batch * 100..batch * 100 + 100);
    }
    let truth = bodies(&mut session, &note).unwrap();
    // As a process that is killed leaves them.
    for end in ["", "-wal"] {
        let name = |path: &Path| format!("{}{end}", path.display());
        assert!(Command::new("cp").args([name(&path), name(&copy)]).status().unwrap().success());
    }
    let untouched = folder.path().join("c.db");
    std::fs::copy(&copy, &untouched).unwrap();
    std::fs::copy(folder.path().join("b.db-wal"), folder.path().join("c.db-wal")).unwrap();
    assert_eq!(read(&untouched, Some(raw(1))).unwrap(), truth);
    flip(&copy, true, &truth);
}

/// Whole pages, each with its own seal, in another order.
#[test]
fn a_page_in_another_place_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    filled(&path, Some(|| raw(1)), 2_000);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096..].rotate_left(4096);
    std::fs::write(&path, bytes).unwrap();
    let error = read(&path, Some(raw(1))).map(|rows| rows.len()).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
}

#[test]
fn a_key_is_changed_set_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it's.db");
    let truth = filled(&path, None, 3_000);
    let keys = [None, Some(raw(1)), Some(raw(2)), Some(passphrase("x y")), Some(raw(3)), None];
    for keys in keys.windows(2) {
        let (old, new) = (keys[0].as_ref(), keys[1].as_ref());
        Sqlite::rekey(&path, old, new).unwrap();
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        let told = holds(&std::fs::read(&path).unwrap(), KNOWN);
        assert_eq!(told, new.is_none());
    }
    assert_eq!(read(&path, None).unwrap(), truth);
}

#[test]
fn a_key_is_changed_only_by_who_has_it_and_has_the_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let truth = filled(&path, Some(|| raw(1)), 100);
    let before = std::fs::read(&path).unwrap();
    let (one, two) = (raw(1), raw(2));
    let refused = |old, new| Sqlite::rekey(&path, old, new).unwrap_err().kind();
    assert_eq!(refused(Some(&two), Some(&one)), ErrorKind::Denied);
    assert_eq!(refused(None, Some(&one)), ErrorKind::Engine);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let missing = Sqlite::rekey(&folder.path().join("b.db"), None, Some(&one)).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);

    let engine = open_with(&path, || raw(1)).unwrap();
    let note = note();
    engine.prepare(std::slice::from_ref(&note), 0).unwrap();
    let mut session = engine.session().unwrap();
    assert_eq!(bodies(&mut session, &note).unwrap(), truth);
    assert_eq!(refused(Some(&one), Some(&two)), ErrorKind::Busy);
    // The engine that was in the way goes on.
    insert(&mut session, &note, 100..101);
    drop((session, engine));
    Sqlite::rekey(&path, Some(&one), Some(&two)).unwrap();
    assert_eq!(read(&path, Some(two)).unwrap().len(), 101);
}

#[test]
fn a_damaged_file_gets_no_new_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    filled(&path, Some(|| raw(1)), 2_000);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20_000] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let error = Sqlite::rekey(&path, Some(&raw(1)), Some(&raw(2))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Engine);
    assert!(error.to_string().contains("damaged"), "{error}");
}

/// Killed at any moment of a change, the file is under one key or the other,
/// and whole.
#[test]
fn a_change_that_is_killed_leaves_one_whole_file() {
    let name = "encryption::a_change_that_is_killed_leaves_one_whole_file";
    if let Some(path) = std::env::var_os("MARMOTA_REKEY") {
        let keys = [raw(1), raw(2)];
        for at in (0..2).cycle() {
            // The last one killed may have come through, or not.
            let _ = Sqlite::rekey(Path::new(&path), Some(&keys[at]), Some(&keys[1 - at]));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let truth = filled(&path, Some(|| raw(1)), 3_000);
    for round in 0..20 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env("MARMOTA_REKEY", &path)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30 + round * 7));
        child.kill().unwrap();
        child.wait().unwrap();
        let rows = read(&path, Some(raw(1))).or_else(|_| read(&path, Some(raw(2))));
        assert_eq!(rows.unwrap(), truth, "round {round}");
    }
}

#[test]
fn a_plain_file_stays_as_it_was_with_the_feature() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let truth = filled(&path, None, 10);
    assert!(std::fs::read(&path).unwrap().starts_with(b"SQLite format 3\0"));
    assert_eq!(read(&path, None).unwrap(), truth);
    drop(file(&folder.path().join("b.db"), &[]));
    assert!(!std::fs::read(folder.path().join("b.db")).unwrap().starts_with(b"SQLite"));
}
