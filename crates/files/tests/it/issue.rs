//! A model with a file, and its store.

use std::path::Path;

use marmota_derive::Model;
use marmota_files::{File, FileStorage};
use marmota_memory::Memory;
use marmota_sqlite::Sqlite;
use marmota_store::Store;

#[derive(Clone, Debug, Model)]
pub(crate) struct Issue {
    pub(crate) id: i64,
    pub(crate) title: String,
    #[model(bytes_max = "1 GB")]
    pub(crate) attachment: Option<File>,
}

impl Issue {
    pub(crate) fn new(title: &str, attachment: Option<File>) -> Self {
        Self { id: 0, title: title.to_owned(), attachment }
    }
}

/// Opens the store of an engine in a folder, with a storage at a URL.
pub(crate) fn open(engine: &str, folder: &Path, files: &str) -> (Store, FileStorage) {
    let file = folder.join("database").display().to_string();
    let builder = match engine {
        "sqlite" => Store::builder(Sqlite::from_url(&format!("sqlite:{file}")).unwrap()),
        _ => {
            let url = format!("memory:{file}?durability=full");
            Store::builder(Memory::from_url(&url).unwrap())
        }
    };
    let storage = FileStorage::open(files).unwrap();
    let store = storage.attach(builder.model::<Issue>()).open().unwrap();
    storage.start(&store).unwrap();
    (store, storage)
}

/// Waits for a condition.
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed().as_secs() < 20, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
