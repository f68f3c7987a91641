//! Where a database is made: in a folder that exists, for its owner alone.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use marmota_model::ErrorKind;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::Store;

use crate::database::{file, id, options, table};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_missing_folder_is_an_error_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nowhere/b/a.db");
    let error = Sqlite::open(Location::File(path.clone()), options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let (text, missing) = (error.to_string(), folder.path().join("nowhere/b"));
    for part in [&*missing.to_string_lossy(), "mkdir -p", "create_folders=true"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!folder.path().join("nowhere").exists(), "nothing was made");
    let opened = Sqlite::open(
        Location::File(path.clone()),
        SqliteOptions { create_folders: true, ..options() },
    );
    drop(opened.unwrap());
    assert_eq!((mode(&path), mode(&missing)), (0o600, 0o700));
    // A backup and a restore do not make folders either.
    let note = table("note", vec![id()]);
    let engine = file(&path, std::slice::from_ref(&note));
    let store = Store::builder(engine).schema(note.schema().clone()).open().unwrap();
    let error = store.backup_to(folder.path().join("typo/monday")).unwrap_err();
    assert!(error.to_string().contains("typo for"), "{error}");
    let copy = folder.path().join("monday");
    store.backup_to(&copy).unwrap();
    let to = Location::File(folder.path().join("typo/a.db"));
    let rows = BTreeMap::new();
    let error = Sqlite::restore_to(&to, &options(), &copy, &rows, false).unwrap_err();
    assert!(error.to_string().contains("typo for"), "{error}");
}

#[test]
fn what_is_made_is_its_owners_alone_and_what_exists_keeps_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let note = table("note", vec![id()]);
    let open = || {
        let engine = file(&path, std::slice::from_ref(&note));
        Store::builder(engine).schema(note.schema().clone()).open().unwrap()
    };
    let store = open();
    let beside = |suffix: &str| folder.path().join(format!("a.db{suffix}"));
    for suffix in ["", "-wal", "-shm"] {
        assert_eq!(mode(&beside(suffix)), 0o600, "a.db{suffix}");
    }
    let copy = folder.path().join("monday");
    let manifest = store.backup_to(&copy).unwrap();
    let made = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    for path in made.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with('m')) {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    store.close().unwrap();
    // A copy that was made readable does not make the restored database so.
    std::fs::set_permissions(&copy, Permissions::from_mode(0o644)).unwrap();
    let restored = folder.path().join("b.db");
    let to = Location::File(restored.clone());
    Sqlite::restore_to(&to, &options(), &copy, &manifest.tables, false).unwrap();
    assert_eq!(mode(&restored), 0o600);
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let store = open();
    assert_eq!((mode(&path), mode(&beside("-wal"))), (0o640, 0o640));
    store.close().unwrap();
    Sqlite::restore_to(&Location::File(path.clone()), &options(), &copy, &manifest.tables, true)
        .unwrap();
    assert_eq!(mode(&path), 0o640);
}
