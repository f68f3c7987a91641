//! A server in this process, with rows of all kinds.

use marmota::admin::AdminPages;
use marmota::files::{File, FileStorage};
use marmota::http::RunningServer;
use marmota::prelude::*;
use marmota::rest::Api;
use marmota::store::change::ChangeRetention;

#[derive(Clone, Copy, Debug, ModelEnum, PartialEq)]
pub(crate) enum Size {
    Small,
    Large,
}

/// A field of each kind.
#[derive(Clone, Debug, Model)]
#[model(audit)]
pub(crate) struct Thing {
    pub(crate) id: i64,
    #[model(max = 40, not_empty)]
    pub(crate) name: String,
    pub(crate) note: Option<String>,
    pub(crate) number: i64,
    pub(crate) weight: Option<f64>,
    pub(crate) price: Option<Currency>,
    pub(crate) active: bool,
    pub(crate) size: Size,
    pub(crate) born: Option<Date>,
    pub(crate) opens: Option<Time>,
    pub(crate) seen: Option<Timestamp>,
    pub(crate) code: Option<Uuid>,
    pub(crate) options: Option<Json<serde_json::Value>>,
    pub(crate) parent: Option<Ref<Thing>>,
    #[model(bytes_max = "1 MB", types("image/*", "text/plain"))]
    pub(crate) picture: Option<File>,
    pub(crate) raw: Option<Blob>,
    #[model(created_at)]
    pub(crate) created: Timestamp,
    #[model(version)]
    pub(crate) version: i64,
}

impl Thing {
    pub(crate) fn named(name: &str, number: i64) -> Self {
        Self {
            id: 0,
            name: name.to_owned(),
            note: None,
            number,
            weight: None,
            price: None,
            active: true,
            size: Size::Small,
            born: None,
            opens: None,
            seen: None,
            code: None,
            options: None,
            parent: None,
            picture: None,
            raw: None,
            created: Timestamp::default(),
            version: 0,
        }
    }
}

pub(crate) struct Samples {
    pub(crate) store: Store,
    pub(crate) url: String,
    storage: FileStorage,
    server: Option<RunningServer>,
    folder: tempfile::TempDir,
}

impl Samples {
    /// Starts a server with things of these names; their numbers count from 1.
    pub(crate) fn start(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let storage = FileStorage::open(folder.path().join("files").to_str().unwrap()).unwrap();
        let builder = marmota::open("memory:").unwrap().model::<Thing>();
        let builder = builder.changes(ChangeRetention::default());
        let store = storage.attach(builder).open().unwrap();
        storage.start(&store).unwrap();
        for (name, number) in names.iter().zip(1..) {
            store.insert(&Thing::named(name, number)).run().unwrap();
        }
        let router = Api::new(&store).files(&storage).router();
        let router = AdminPages::new("/api").title("Samples").version("0.9").add_to(router);
        let server = Server::bind("127.0.0.1:0").unwrap().start(router).unwrap();
        let url = format!("http://{}", server.local_addr());
        Self { store, url, storage, server: Some(server), folder }
    }

    /// Writes a file, and returns its path.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn thing(&self, id: i64) -> Thing {
        self.store.get::<Thing>(id).run().unwrap()
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            let _ = server.shutdown();
        }
        self.storage.stop();
    }
}
