//! Where the memory engine's files are made: in a folder that exists, for
//! their owner alone.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use marmota_memory::Memory;
use marmota_model::ErrorKind;
use marmota_store::engine::Engine;

use super::log::{insert, note, open, try_open};

fn modes(folder: &Path) -> Vec<(String, u32)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        (entry.file_name().to_string_lossy().into_owned(), mode)
    });
    entries.collect()
}

#[test]
fn logs_snapshots_and_locks_are_their_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (path, note) = (folder.path().join("a.mem"), note());
    let engine = open(&path, std::slice::from_ref(&note));
    insert(&mut *engine.session().unwrap(), &note, "a").unwrap();
    engine.snapshot().unwrap();
    let made = modes(folder.path());
    assert!(made.len() >= 3, "{made:?}");
    assert!(made.iter().all(|(_, mode)| *mode == 0o600), "{made:?}");
    engine.close().unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let engine = open(&path, std::slice::from_ref(&note));
    insert(&mut *engine.session().unwrap(), &note, "b").unwrap();
    engine.close().unwrap();
    let kept = modes(folder.path());
    assert!(kept.contains(&("a.mem".to_owned(), 0o640)), "{kept:?}");
}

#[test]
fn a_missing_folder_is_an_error_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nowhere/a.mem");
    for url in ["full", "none&format=binary"] {
        let error = try_open(&path, url, &[note()]).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Io);
        let text = error.to_string();
        assert!(text.contains("nowhere") && text.contains("create_folders=true"), "{text}");
    }
    // Without a log it would else be noticed at the close, when it is too late.
    let engine = Memory::from_url(&format!("memory:{}", path.display())).unwrap();
    assert_eq!(engine.prepare(&[note()], 1).unwrap_err().kind(), ErrorKind::Io);
    assert!(!path.parent().unwrap().exists());
    drop(engine);
    let engine = try_open(&path, "full&create_folders=true", &[note()]).unwrap();
    engine.close().unwrap();
    assert_eq!(modes(folder.path()), [("nowhere".to_owned(), 0o700)]);
}
