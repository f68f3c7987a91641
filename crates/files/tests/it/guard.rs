//! The guard of file fields, and uploads that are not finished.

use marmota_files::{File, FileLimits};
use marmota_model::{ErrorKind, FieldValue as _, Scratch};

use crate::issue::{Issue, open, until};

fn objects(folder: &std::path::Path) -> usize {
    let folders = std::fs::read_dir(folder.join("files")).into_iter().flatten().flatten();
    folders.map(|folder| std::fs::read_dir(folder.path()).unwrap().count()).sum()
}

#[test]
fn a_file_belongs_to_one_row() {
    for engine in ["sqlite", "memory"] {
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("storage");
        let (store, storage) = open(engine, folder.path(), &files.display().to_string());
        let file = storage.save(Issue::ATTACHMENT, "a.txt", &mut &b"abc"[..]).unwrap();
        let id = store.insert(&Issue::new("first", Some(file.clone()))).run().unwrap();
        let refused = store.insert(&Issue::new("second", Some(file.clone()))).run().unwrap_err();
        assert_eq!((refused.kind(), &*refused.violations()[0].rule), (ErrorKind::Invalid, "file"));
        let refused = store.insert_many(&[Issue::new("third", Some(file.clone()))]).run();
        assert!(refused.is_err());

        // A transaction that is rolled back keeps the file of the row.
        let rolled_back = store.transaction(|tx| {
            tx.update(&Issue { id, ..Issue::new("first", None) }).run()?;
            Err::<(), _>(marmota_model::Error::new(ErrorKind::Invalid, "no"))
        });
        assert!(rolled_back.is_err());
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(storage.read_all(&file).unwrap(), b"abc");

        // Two rows may not get the same new file in one call, either.
        let next = storage.save(Issue::ATTACHMENT, "b.txt", &mut &b"def"[..]).unwrap();
        let both = [Issue::new("a", Some(next.clone())), Issue::new("b", Some(next.clone()))];
        assert!(store.insert_many(&both).run().is_err());
        assert_eq!(store.count::<Issue>().run().unwrap(), 1);
        storage.discard(&next);

        store.delete::<Issue>(id).run().unwrap();
        until("the bytes are removed", || storage.read_all(&file).is_err());
        storage.stop();
        store.close().unwrap();
    }
}

#[test]
fn an_upload_that_is_dropped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("storage");
    let (store, storage) = open("memory", folder.path(), &files.display().to_string());
    let table = store.table("issue").unwrap();
    let limits = FileLimits::new(&table, "attachment").unwrap();
    marmota_store::action::block_on(async {
        let mut upload = storage.upload(limits.clone(), "a.bin", "").unwrap();
        for _ in 0..50 {
            upload.write(vec![7; 100_000]).await.unwrap();
        }
        drop(upload);
        let upload = storage.upload(limits.clone(), "a.bin", "").unwrap();
        let file: File = upload.finish().await.unwrap();
        assert_eq!(file.bytes, 0);
        storage.discard(&file);
    });
    until("nothing is left", || objects(&files) == 0);
    assert!(FileLimits::new(&table, "title").is_err());
    storage.stop();
}

#[test]
fn a_description_without_bytes_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("storage");
    let (store, storage) = open("memory", folder.path(), &files.display().to_string());
    let file = storage.save(Issue::ATTACHMENT, "a.txt", &mut &b"abc"[..]).unwrap();
    store.insert(&Issue::new("first", Some(file.clone()))).run().unwrap();
    std::fs::remove_dir_all(files.join("files")).unwrap();
    let missing = storage.read_all(&file).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Io);
    assert!(missing.message().contains("backup"), "{missing}");
    let scratch = Scratch::new();
    assert_eq!(File::from_row(file.to_row(&scratch)), Some(file));
    storage.stop();
}
