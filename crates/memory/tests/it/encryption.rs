//! Files of the memory engine with a key: what can be read of them, by whom,
//! and what happens to those that were tampered with.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use marmota_memory::{FileFormat, Memory};
use marmota_model::{ErrorKind, Result};
use marmota_store::engine::Engine;
use marmota_store::key::EncryptionKey;
use proptest::prelude::*;

use super::log::{bodies, files, insert, log, note};
use super::log_crash::survives_kills;

/// Stands in every row, and must stand in no file.
const KNOWN: &str = "Bourges-Marmota-known-value";

fn raw(byte: u8) -> EncryptionKey {
    EncryptionKey::raw([byte; 32])
}

fn passphrase(text: &str) -> EncryptionKey {
    EncryptionKey::passphrase(text.to_owned()).unwrap()
}

/// Opens a file with a log (or, without a durability, one without).
fn open(path: &Path, query: &str, key: Option<EncryptionKey>) -> Result<Memory> {
    let mut engine = Memory::from_url(&format!("memory:{}{query}", path.display()))?;
    if let Some(key) = key {
        engine = engine.key(move || Ok(key.clone()))?;
    }
    engine.prepare(&[note()], 1)?;
    Ok(engine)
}

const LOG: &str = "?durability=full";

fn fill(engine: &Memory, rows: std::ops::Range<u32>) {
    let mut session = engine.session().unwrap();
    for row in rows {
        insert(&mut *session, &note(), &format!("{KNOWN} {row}")).unwrap();
    }
}

fn wanted(rows: u32) -> Vec<String> {
    (0..rows).map(|row| format!("{KNOWN} {row}")).collect()
}

/// All files but the lock's, which says who has it.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = files(folder).into_iter().filter(|name| !name.ends_with(".lock"));
    names.map(|name| (name.clone(), std::fs::read(folder.join(name)).unwrap())).collect()
}

fn check_unknown(folder: &Path) {
    for name in files(folder) {
        let bytes = std::fs::read(folder.join(&name)).unwrap();
        for part in ["Marmota-known", "note", "body"] {
            let found = bytes.windows(part.len()).any(|at| at == part.as_bytes());
            assert!(!found, "{name} has {part}");
        }
    }
}

#[test]
fn a_known_value_stands_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let key = || Some(raw(1));
    let engine = open(&path, LOG, key()).unwrap();
    fill(&engine, 0..50);
    check_unknown(folder.path());
    engine.snapshot().unwrap();
    fill(&engine, 50..60);
    check_unknown(folder.path());
    drop(engine);
    let engine = open(&path, LOG, key()).unwrap();
    fill(&engine, 60..70);
    engine.save(folder.path().join("copy.mem"), FileFormat::Binary).unwrap();
    let copied = engine.copy_to(&folder.path().join("backup.mem"), &mut |_, _| ()).unwrap();
    assert!(copied.encrypted);
    check_unknown(folder.path());
    assert_eq!(bodies(&engine, &note()), wanted(70));
    engine.close().unwrap();
    check_unknown(folder.path());
    assert_eq!(files(folder.path()), ["app.mem", "app.mem.lock", "backup.mem", "copy.mem"]);
    for name in ["app.mem", "copy.mem", "backup.mem"] {
        let engine = open(&folder.path().join(name), "", key()).unwrap();
        assert_eq!(bodies(&engine, &note()), wanted(70));
        engine.close().unwrap();
    }
    check_unknown(folder.path());
    // The test would find it.
    Memory::rekey(&path, key().as_ref(), None).unwrap();
    fill(&open(&path, LOG, None).unwrap(), 70..71);
    assert!(std::panic::catch_unwind(|| check_unknown(folder.path())).is_err());
}

#[test]
fn a_file_and_a_key_that_do_not_fit_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["closed", "closed.log", "open", "open.log"] {
        let key = name.starts_with("closed").then(|| raw(1));
        let engine = open(&at(name), LOG, key).unwrap();
        fill(&engine, 0..3);
        if !name.ends_with(".log") {
            engine.close().unwrap();
        }
    }
    std::fs::write(at("rows.json"), "{}").unwrap();
    let before = content(folder.path());
    let cases: [(&str, Option<EncryptionKey>, ErrorKind, &str); 8] = [
        ("closed", Some(raw(2)), ErrorKind::Denied, "right key"),
        ("closed", Some(passphrase("x")), ErrorKind::Denied, "right key"),
        ("closed", None, ErrorKind::Denied, "MARMOTA_KEY"),
        ("open", Some(raw(1)), ErrorKind::Invalid, "Memory::rekey"),
        ("closed.log", Some(raw(2)), ErrorKind::Denied, "right key"),
        ("closed.log", None, ErrorKind::Denied, "MARMOTA_KEY"),
        ("open.log", Some(raw(1)), ErrorKind::Invalid, "Memory::rekey"),
        ("rows.json", Some(raw(1)), ErrorKind::Invalid, "JSON"),
    ];
    for (name, key, kind, part) in cases {
        let queries = if name == "rows.json" { &[""][..] } else { &["", LOG] };
        for query in queries.iter().filter(|query| !(name.ends_with(".log") && query.is_empty())) {
            let opened = open(&at(name), query, key.clone());
            let error = opened.err().expect("it is refused");
            assert_eq!(error.kind(), kind, "{name}: {error}");
            assert!(error.to_string().contains(part), "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
        assert_eq!(content(folder.path()), before, "{name}");
    }
    let error = Memory::load(at("closed")).err().expect("it is refused");
    assert_eq!(error.kind(), ErrorKind::Denied);
    let engine = open(&at("new"), LOG, Some(raw(1))).unwrap();
    let error = engine.save(at("other.json"), FileFormat::Json).unwrap_err();
    assert!(error.to_string().contains("JSON") && !at("other.json").exists(), "{error}");
}

#[test]
fn a_passphrase_is_asked_for_once_and_keeps_its_salt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let url = format!("memory:{}{LOG}", path.display());
    for round in 1..3 {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let ask = move || {
            count.fetch_add(1, Ordering::Relaxed);
            EncryptionKey::passphrase("correct horse".to_owned())
        };
        let engine = Memory::from_url(&url).unwrap().key(ask).unwrap();
        engine.prepare(&[note()], 1).unwrap();
        fill(&engine, round - 1..round);
        engine.snapshot().unwrap();
        assert_eq!(bodies(&engine, &note()), wanted(round));
        engine.close().unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
    let error = open(&path, LOG, Some(passphrase("correct mule"))).err().expect("it is refused");
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(!format!("{error:?}").contains("mule"));
}

#[test]
fn a_key_is_changed_set_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let keys = [None, Some(raw(1)), Some(raw(2)), Some(passphrase("x y")), Some(raw(3)), None];
    for (rows, pair) in (1..).zip(keys.windows(2)) {
        let (old, new) = (&pair[0], &pair[1]);
        let engine = open(&path, LOG, old.clone()).unwrap();
        fill(&engine, rows - 1..rows);
        let held = Memory::rekey(&path, old.as_ref(), new.as_ref()).unwrap_err();
        assert_eq!(held.kind(), ErrorKind::Busy, "{held}");
        // What it wrote is in a log only.
        drop(engine);
        let before = content(folder.path());
        let wrong = Memory::rekey(&path, Some(&raw(9)), new.as_ref());
        assert!(wrong.is_err());
        assert_eq!(content(folder.path()), before);
        Memory::rekey(&path, old.as_ref(), new.as_ref()).unwrap();
        assert_eq!(files(folder.path()), ["app.mem", "app.mem.lock"]);
        if new.is_some() {
            check_unknown(folder.path());
        }
        if old.is_some() || new.is_some() {
            assert!(open(&path, LOG, old.clone()).is_err());
        }
        let engine = open(&path, LOG, new.clone()).unwrap();
        assert_eq!(bodies(&engine, &note()), wanted(rows));
    }
    let missing = Memory::rekey(&folder.path().join("none"), None, Some(&raw(1))).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn a_log_is_never_gone_on_with_by_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    fill(&open(&path, LOG, Some(raw(1))).unwrap(), 0..3);
    // Torn, as by a loss of power.
    let first = std::fs::read(log(&path, 1)).unwrap();
    std::fs::write(log(&path, 1), &first[..first.len() - 5]).unwrap();
    let engine = open(&path, LOG, Some(raw(1))).unwrap();
    assert_eq!(bodies(&engine, &note()), wanted(2));
    fill(&engine, 2..3);
    let kept = std::fs::read(log(&path, 1)).unwrap();
    assert!(first.starts_with(&kept) && kept.len() < first.len());
    assert_eq!(files(folder.path()), ["app.mem.lock", "app.mem.log.1", "app.mem.log.2"]);
    drop(engine);
    // They do not become more and more.
    for rows in 3..50 {
        // A snapshot that was begun has the file a little longer.
        let opened = (0..500).find_map(|_| match open(&path, LOG, Some(raw(1))) {
            Err(error) if error.kind() == ErrorKind::Busy => {
                std::thread::sleep(std::time::Duration::from_millis(10));
                None
            }
            opened => Some(opened),
        });
        let engine = opened.unwrap().unwrap();
        assert_eq!(bodies(&engine, &note()), wanted(rows));
        fill(&engine, rows..rows + 1);
        drop(engine);
        assert!(files(folder.path()).len() < 25);
    }
}

/// A snapshot of 4 rows, and a log with 4 more. Gives where each record ends.
fn tampered_with(path: &Path) -> Vec<u64> {
    let engine = open(path, LOG, Some(raw(1))).unwrap();
    fill(&engine, 0..4);
    engine.snapshot().unwrap();
    let length = || std::fs::metadata(log(path, 2)).unwrap().len();
    (4..8).map(|row| (fill(&engine, row..row + 1), length()).1).collect()
}

#[test]
fn a_flipped_byte_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let ends = tampered_with(&path);
    let whole = content(folder.path());
    let put_back = || {
        files(folder.path())
            .iter()
            .for_each(|name| std::fs::remove_file(folder.path().join(name)).unwrap());
        whole
            .iter()
            .for_each(|(name, bytes)| std::fs::write(folder.path().join(name), bytes).unwrap());
    };
    for (name, bytes) in &whole {
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            put_back();
            std::fs::write(folder.path().join(name), flipped).unwrap();
            let opened = open(&path, LOG, Some(raw(1)));
            if name == "app.mem.log.2" && at as u64 >= ends[2] {
                // The last one may never have been written.
                assert_eq!(bodies(&opened.unwrap(), &note()), wanted(7), "{at}");
                continue;
            }
            let error = opened.err().expect("it is refused");
            assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Denied), "{error}");
            assert!(error.to_string().contains("app.mem"), "{error}");
        }
    }
    put_back();
    assert_eq!(bodies(&open(&path, LOG, Some(raw(1))).unwrap(), &note()), wanted(8));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Whatever is done to the bytes of a file, it is refused, or its rows are
    /// those that were there first.
    #[test]
    fn damage_never_gives_other_rows(
        is_log in any::<bool>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        garbage in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.mem");
        tampered_with(&path);
        let victim = if is_log { log(&path, 2) } else { path.clone() };
        let mut bytes = std::fs::read(&victim).unwrap();
        for (at, flip) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
            bytes.extend_from_slice(&garbage);
        }
        std::fs::write(&victim, bytes).unwrap();
        if let Ok(engine) = open(&path, LOG, Some(raw(1))) {
            let rows = bodies(&engine, &note());
            prop_assert_eq!(&rows, &wanted(rows.len() as u32));
            prop_assert!(rows.len() >= 4);
        }
    }
}

#[test]
fn every_acknowledged_row_survives_a_kill_of_an_encrypted_log() {
    let hex = "01".repeat(32);
    survives_kills(&[("MARMOTA_KEY", &hex)], |path| {
        check_unknown(path.parent().unwrap());
        open(path, LOG, Some(raw(1))).unwrap()
    });
}

#[test]
fn the_environment_has_keys() {
    let name = "encryption::the_environment_has_keys";
    if let Some(folder) = std::env::var_os("MARMOTA_FOLDER") {
        let folder = Path::new(&folder);
        for (file, query) in [("a", LOG), ("b", "?durability=full&key_env=OTHER")] {
            match open(&folder.join(file), query, None) {
                Ok(engine) => println!("opened {:?}", engine.close()),
                Err(error) => println!("{error:?}"),
            }
        }
        assert!(Memory::from_url("memory:").is_ok());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let again = |environment: &[(&str, &str)]| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env("MARMOTA_FOLDER", folder.path())
            .envs(environment.iter().copied())
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let hex = "0a".repeat(32);
    let told = again(&[("MARMOTA_KEY", &hex), ("OTHER", "hunter two")]);
    assert_eq!(told.matches("opened Ok").count(), 2, "{told}");
    assert!(open(&folder.path().join("a"), LOG, Some(raw(10))).is_ok());
    assert!(open(&folder.path().join("b"), LOG, Some(passphrase("hunter two"))).is_ok());
    let told = again(&[("MARMOTA_KEY", "hunter three")]);
    assert!(told.contains("right key") && told.contains("OTHER has no valid key"), "{told}");
    assert!(!told.contains("hunter"), "{told}");
    let error = Memory::from_url("memory:a?key=hunter2").err().expect("it is refused");
    assert!(!format!("{error:?}").contains("hunter"), "{error:?}");
}
