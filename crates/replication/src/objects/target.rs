//! A target: a folder or a bucket that has the copy of a database.
//!
//! The methods block their thread, so a target belongs to a thread that may wait. Requests run on a
//! tokio runtime of that thread.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use marmota_model::{Error, ErrorKind, Result, text};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use tokio::runtime::{Builder, Runtime};

/// The longest time that one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A place for objects, each of which has a name with folders.
pub(crate) struct Target {
    url: String,
    store: Arc<dyn ObjectStore>,
    prefix: Path,
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
        let (store, prefix) = match url.split_once("://") {
            Some(("file", path)) => (folder(url, path, creates)?, Path::default()),
            Some(("s3" | "s3a", rest)) => bucket(url, rest)?,
            _ => {
                let message = format!(
                    "`{}` is not a replica target: write file:///folder or s3://bucket/prefix",
                    text::excerpt(url)
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| {
            let message = format!("no runtime can be made for replication: {error}");
            Error::new(ErrorKind::Io, message).with_source(error)
        })?;
        Ok(Self { url: url.to_owned(), store, prefix, runtime })
    }

    /// Returns the URL, for messages.
    pub(crate) fn url(&self) -> &str {
        &self.url
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
        self.wait(self.store.put_opts(&path, payload, options)).map(drop)
    }

    /// Reads an object; `None` if it does not exist.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.path(name);
        let read = self.wait(async { self.store.get(&path).await?.bytes().await });
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
                    self.store.list_with_offset(Some(&prefix), &prefix.clone().join(after))
                }
                None => self.store.list(Some(&prefix)),
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
        match self.wait(self.store.delete(&self.path(name))) {
            Ok(()) | Err(Failed::Object(object_store::Error::NotFound { .. })) => Ok(()),
            Err(failed) => Err(self.error("deleted", name, failed)),
        }
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
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
        let url = &self.url;
        match failed {
            Failed::Timeout => {
                let seconds = REQUEST_TIMEOUT.as_secs();
                let message =
                    format!("{url}: `{name}` was not {what} within {seconds} s: check the target");
                Error::new(ErrorKind::Refused, message)
            }
            Failed::Object(error) => {
                let hint = match &error {
                    object_store::Error::NotFound { .. } => {
                        "the bucket or the folder does not exist: create it"
                    }
                    object_store::Error::PermissionDenied { .. }
                    | object_store::Error::Unauthenticated { .. } => {
                        "check the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) and \
                         their permissions"
                    }
                    _ => {
                        "check the URL, the network and the credentials (AWS_ACCESS_KEY_ID, \
                         AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL)"
                    }
                };
                let hint = if url.starts_with("file:") { "check the folder" } else { hint };
                let message = format!("{url}: `{name}` cannot be {what} ({error}): {hint}");
                Error::new(ErrorKind::Refused, message).with_source(error)
            }
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
        f.debug_struct("Target").field("url", &self.url).finish_non_exhaustive()
    }
}

fn folder(url: &str, path: &str, creates: bool) -> Result<Arc<dyn ObjectStore>> {
    let path = PathBuf::from(path);
    if !path.is_absolute() {
        let message = format!(
            "`{}` has no absolute path: write three slashes, as in file:///backups/app",
            text::excerpt(url)
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let io = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        let message = format!("the replica target {} cannot be used: {error}", path.display());
        Error::new(kind, message).with_source(error)
    };
    if creates {
        std::fs::create_dir_all(&path).map_err(io)?;
    }
    std::fs::metadata(&path).map_err(io)?;
    let store = LocalFileSystem::new_with_prefix(&path).map_err(|error| {
        let message = format!("the replica target {} cannot be used: {error}", path.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    })?;
    Ok(Arc::new(store.with_fsync(true)))
}

#[cfg(feature = "s3")]
fn bucket(url: &str, rest: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
    use object_store::aws::AmazonS3Builder;
    use object_store::{BackoffConfig, ClientOptions, RetryConfig};

    // Fails if the program has chosen another one, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let invalid = |why: String| {
        let message = format!("`{}`: {why}; write s3://bucket/prefix", text::excerpt(url));
        Error::new(ErrorKind::Invalid, message)
    };
    if bucket.is_empty() || url.contains(['?', '#', '@']) {
        return Err(invalid("the URL names no bucket, or has more than one and a prefix".into()));
    }
    let prefix = Path::parse(prefix).map_err(|error| invalid(error.to_string()))?;
    let named = |name: &str| std::env::var(name).is_ok_and(|value| !value.is_empty());
    let is_plain = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3"]
        .iter()
        .any(|name| std::env::var(name).is_ok_and(|value| value.starts_with("http://")));
    let retry = RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: 2,
        retry_timeout: Duration::from_secs(10),
    };
    let client = ClientOptions::new()
        .with_allow_http(is_plain)
        .with_connect_timeout(Duration::from_secs(3))
        .with_timeout(REQUEST_TIMEOUT);
    let builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(retry)
        .with_client_options(client);
    let builder = match named("AWS_REGION") || named("AWS_DEFAULT_REGION") {
        true => builder,
        false => builder.with_region("us-east-1"),
    };
    let store = builder.build().map_err(|error| invalid(error.to_string()))?;
    Ok((Arc::new(store), prefix))
}

#[cfg(not(feature = "s3"))]
fn bucket(url: &str, _: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
    let message = format!(
        "`{}`: this build has no buckets: enable the Cargo feature `replication-s3` of marmota, or \
         use file:///folder",
        text::excerpt(url)
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}
