//! A target: a folder or a bucket that has the copy of a database.
//!
//! The methods block their thread, so a target belongs to a thread that may wait. Requests run on a
//! tokio runtime of that thread.

use std::fmt;

use futures_util::TryStreamExt;
use marmota_model::{Error, ErrorKind, Result};
use marmota_objects::{ObjectPlace, PlaceKind, REQUEST_TIMEOUT};
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload};
use tokio::runtime::{Builder, Runtime};

/// A place for objects, each of which has a name with folders.
pub(crate) struct Target {
    place: ObjectPlace,
    runtime: Runtime,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listed {
    /// The name, without the prefix of the target and the folder.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

impl Target {
    /// Opens the target of a URL. `creates` creates a missing folder.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL of another form, [`ErrorKind::Unsupported`] for a bucket
    /// without the feature `s3`, [`ErrorKind::NotFound`] for a missing folder.
    pub(crate) fn open(url: &str, creates: bool) -> Result<Self> {
        let kind = PlaceKind { name: "replica target", feature: "replication-s3" };
        let place = ObjectPlace::open(url, kind, creates)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| {
            let message = format!("no runtime can be made for replication: {error}");
            Error::new(ErrorKind::Io, message).with_source(error)
        })?;
        Ok(Self { place, runtime })
    }

    /// Returns the URL, for messages.
    pub(crate) fn url(&self) -> &str {
        self.place.url()
    }

    /// Writes an object, unless it exists. Returns false if it does.
    pub(crate) fn put_new(&self, name: &str, bytes: Vec<u8>) -> Result<bool> {
        match self.put_as(name, bytes, PutMode::Create) {
            Ok(()) => Ok(true),
            Err(Failed::Object(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            )) => Ok(false),
            Err(failed) => Err(self.error("written", name, failed)),
        }
    }

    /// Writes an object, or replaces it.
    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        self.put_as(name, bytes, PutMode::Overwrite)
            .map_err(|failed| self.error("written", name, failed))
    }

    fn put_as(&self, name: &str, bytes: Vec<u8>, mode: PutMode) -> Result<(), Failed> {
        let path = self.path(name);
        let options = PutOptions { mode, ..PutOptions::default() };
        let payload = PutPayload::from(bytes);
        self.wait(self.place.store().put_opts(&path, payload, options)).map(drop)
    }

    /// Reads an object; `None` if it does not exist.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.path(name);
        let read = self.wait(async { self.place.store().get(&path).await?.bytes().await });
        match read {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(Failed::Object(object_store::Error::NotFound { .. })) => Ok(None),
            Err(failed) => Err(self.error("read", name, failed)),
        }
    }

    /// Lists the objects of a folder that come after `after`, in the order of their names.
    pub(crate) fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<Listed>> {
        let prefix = self.path(folder);
        let listed = self.wait(async {
            let objects = match after {
                Some(after) => {
                    self.place.store().list_with_offset(Some(&prefix), &prefix.clone().join(after))
                }
                None => self.place.store().list(Some(&prefix)),
            };
            objects
                .try_filter_map(|object| {
                    let parts = object.location.prefix_match(&prefix);
                    let name = parts.map(|parts| {
                        let parts: Vec<String> =
                            parts.map(|part| part.as_ref().to_owned()).collect();
                        parts.join("/")
                    });
                    std::future::ready(Ok(name.map(|name| Listed { name, bytes: object.size })))
                })
                .try_collect::<Vec<Listed>>()
                .await
        });
        let mut listed = listed.map_err(|failed| self.error("listed", folder, failed))?;
        listed.sort_unstable();
        Ok(listed)
    }

    /// Deletes an object, if it exists.
    pub(crate) fn delete(&self, name: &str) -> Result<()> {
        match self.wait(self.place.store().delete(&self.path(name))) {
            Ok(()) | Err(Failed::Object(object_store::Error::NotFound { .. })) => Ok(()),
            Err(failed) => Err(self.error("deleted", name, failed)),
        }
    }

    fn path(&self, name: &str) -> Path {
        self.place.path(name)
    }

    fn wait<T>(&self, request: impl Future<Output = object_store::Result<T>>) -> Result<T, Failed> {
        self.runtime.block_on(async {
            match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
                Ok(done) => done.map_err(Failed::Object),
                Err(_) => Err(Failed::Timeout),
            }
        })
    }

    /// Returns the error of a request.
    #[cold]
    fn error(&self, what: &str, name: &str, failed: Failed) -> Error {
        match failed {
            Failed::Timeout => self.place.timeout(what, name),
            Failed::Object(error) => self.place.error(what, name, error),
        }
    }
}

/// The failure of a request.
enum Failed {
    Object(object_store::Error),
    Timeout,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("url", &self.place.url()).finish_non_exhaustive()
    }
}
