//! The objects of a storage, and the runtime that reads and writes them.
//!
//! All requests run on the storage's own threads: a caller may await them on any executor, and an
//! event loop never waits for a disk or a network.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt;
use marmota_model::{Error, ErrorKind, Result, Uuid};
use marmota_objects::ObjectPlace;
use object_store::{ObjectMeta, ObjectStoreExt, PutPayload};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// The threads that compute digests and send requests.
const THREADS: usize = 2;
/// The threads for blocking calls: the file system, images.
const BLOCKING_THREADS_MAX: usize = 16;

/// The objects of a storage.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) place: ObjectPlace,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Space {
    /// Starts the runtime for a place.
    pub(crate) fn new(place: ObjectPlace) -> Result<Arc<Self>> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("marmota-files")
            .enable_all()
            .build()
            .map_err(|error| {
                let message = format!("no runtime can be made for files: {error}");
                Error::new(ErrorKind::Io, message).with_source(error)
            })?;
        Ok(Arc::new(Self { place, runtime: Some(runtime) }))
    }

    fn runtime(&self) -> Result<&Runtime> {
        self.runtime.as_ref().ok_or_else(ended)
    }

    /// Runs a future on the storage's threads.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<JoinHandle<T>> {
        Ok(self.runtime()?.spawn(future))
    }

    /// Runs a function that blocks on the storage's threads.
    pub(crate) fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>> {
        Ok(self.runtime()?.spawn_blocking(work))
    }

    /// Runs a future on the storage's threads, and blocks the calling thread until it is done.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        marmota_store::action::block_on(joined(self.spawn(future)?))
    }

    /// Writes an object at once.
    pub(crate) async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        let path = self.place.path(name);
        let put = self.place.store().put(&path, PutPayload::from(bytes)).await;
        put.map(drop).map_err(|error| self.place.error("written", name, error))
    }

    /// Reads an object at once; `None` if it does not exist.
    pub(crate) async fn get(&self, name: &str) -> Result<Option<Bytes>> {
        let path = self.place.path(name);
        let read = match self.place.store().get(&path).await {
            Ok(found) => found.bytes().await,
            Err(error) => Err(error),
        };
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.place.error("read", name, error)),
        }
    }

    /// Deletes an object, if it exists.
    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        match self.place.store().delete(&self.place.path(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.place.error("deleted", name, error)),
        }
    }

    /// Passes each object of a folder to a function, with its name below the folder.
    pub(crate) async fn list(
        &self,
        folder: &str,
        mut each: impl FnMut(&str, &ObjectMeta) + Send,
    ) -> Result<()> {
        let prefix = self.place.path(folder);
        let mut objects = self.place.store().list(Some(&prefix));
        loop {
            let object = match objects.try_next().await {
                Ok(Some(object)) => object,
                Ok(None) => return Ok(()),
                // The folder is created by the first object.
                Err(object_store::Error::NotFound { .. }) => return Ok(()),
                Err(error) => return Err(self.place.error("listed", folder, error)),
            };
            if let Some(parts) = object.location.prefix_match(&prefix) {
                let parts: Vec<_> = parts.map(|part| part.as_ref().to_owned()).collect();
                each(&parts.join("/"), &object);
            }
        }
    }

    /// Deletes all objects of a folder.
    pub(crate) async fn delete_folder(&self, folder: &str) -> Result<()> {
        let mut names = Vec::new();
        self.list(folder, |name, _| names.push(name.to_owned())).await?;
        for name in names {
            self.delete(&format!("{folder}/{name}")).await?;
        }
        // An empty folder of a file system remains otherwise; a bucket has no folders.
        if let Some(root) = self.place.folder() {
            let path = root.join(folder);
            let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir(path)).await;
        }
        Ok(())
    }

    /// Deletes the bytes of a file and its smaller versions.
    pub(crate) async fn delete_file(&self, id: Uuid) -> Result<()> {
        self.delete_folder(&thumbnail_folder(id)).await?;
        self.delete(&file_object(id)).await
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // It may be dropped by an asynchronous task, which must not block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Waits for a task of the storage.
pub(crate) async fn joined<T>(task: JoinHandle<Result<T>>) -> Result<T> {
    match task.await {
        Ok(result) => result,
        Err(error) if error.is_panic() => {
            Err(Error::new(ErrorKind::Bug, "a task of the storage of files panicked"))
        }
        Err(_) => Err(ended()),
    }
}

#[cold]
fn ended() -> Error {
    Error::new(ErrorKind::Closed, "the storage of files is closed")
}

/// Returns the name of the object with the bytes of a file.
pub(crate) fn file_object(id: Uuid) -> String {
    let id = id.simple().to_string();
    format!("files/{}/{id}", &id[..2])
}

/// Returns the folder with the smaller versions of a file.
pub(crate) fn thumbnail_folder(id: Uuid) -> String {
    let id = id.simple().to_string();
    format!("thumbnails/{}/{id}", &id[..2])
}
