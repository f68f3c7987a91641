//! Folders and buckets by URL: where replication and files keep their objects.
//!
//! | URL | place |
//! |---|---|
//! | `file:///backups/app` | a folder; written files and their folders are synced to the disk |
//! | `s3://bucket/prefix` | a bucket of S3 or a compatible store (feature `s3`); its settings are the environment variables `AWS_…` |
//!
//! ```
//! use marmota_objects::{ObjectPlace, PlaceKind};
//! let folder = std::env::temp_dir().join(format!("marmota-objects-{}", std::process::id()));
//! let kind = PlaceKind { name: "replica target", feature: "replication-s3" };
//! let place = ObjectPlace::open(&format!("file://{}", folder.display()), kind, true)?;
//! assert_eq!(place.folder(), Some(&*folder));
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

use std::fmt;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result, text};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;

/// The longest time that one request to a bucket may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// What a place is used for, for messages.
#[derive(Clone, Copy, Debug)]
pub struct PlaceKind {
    /// Its name: `replica target`.
    pub name: &'static str,
    /// The Cargo feature of `marmota` that enables buckets.
    pub feature: &'static str,
}

/// A folder or bucket, whose objects have names with slashes.
#[derive(Clone)]
pub struct ObjectPlace {
    url: String,
    kind: PlaceKind,
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    folder: Option<PathBuf>,
}

impl ObjectPlace {
    /// Opens the place of a URL. `creates` creates a missing folder.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL of another form, [`ErrorKind::Unsupported`] for a bucket
    /// without the feature `s3`, [`ErrorKind::NotFound`] for a missing folder.
    pub fn open(url: &str, kind: PlaceKind, creates: bool) -> Result<Self> {
        let (store, prefix, folder) = match url.split_once("://") {
            Some(("file", path)) => {
                let path = PathBuf::from(path);
                (open_folder(url, &path, kind, creates)?, Path::default(), Some(path))
            }
            Some(("s3" | "s3a", rest)) => {
                let (store, prefix) = open_bucket(url, rest, kind)?;
                (store, prefix, None)
            }
            _ => {
                let message = format!(
                    "`{}` is not a {}: write file:///folder or s3://bucket/prefix",
                    text::excerpt(url),
                    kind.name
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        };
        Ok(Self { url: url.to_owned(), kind, store, prefix, folder })
    }

    /// Returns the URL, for messages.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the object store, whose requests need a runtime of tokio.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Returns the folder, or `None` for a bucket.
    #[must_use]
    pub fn folder(&self) -> Option<&FilePath> {
        self.folder.as_deref()
    }

    /// Returns the path of an object in the store, with the prefix of the place.
    #[must_use]
    pub fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Returns the error of a request that took too long. `what` is what was attempted: `written`.
    #[cold]
    #[must_use]
    pub fn timeout(&self, what: &str, name: &str) -> Error {
        let (url, kind, seconds) = (&self.url, self.kind.name, REQUEST_TIMEOUT.as_secs());
        let message =
            format!("{url}: `{name}` was not {what} within {seconds} s: check the {kind}");
        Error::new(ErrorKind::Refused, message)
    }

    /// Returns the error of a request that failed. `what` is what was attempted: `written`.
    #[cold]
    #[must_use]
    pub fn error(&self, what: &str, name: &str, error: object_store::Error) -> Error {
        let url = &self.url;
        let hint = match &error {
            object_store::Error::NotFound { .. } => {
                "the bucket or the folder does not exist: create it"
            }
            object_store::Error::PermissionDenied { .. }
            | object_store::Error::Unauthenticated { .. } => {
                "check the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) and their \
                 permissions"
            }
            _ => {
                "check the URL, the network and the credentials (AWS_ACCESS_KEY_ID, \
                 AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL)"
            }
        };
        let hint = if self.folder.is_some() { "check the folder" } else { hint };
        let message = format!("{url}: `{name}` cannot be {what} ({error}): {hint}");
        Error::new(ErrorKind::Refused, message).with_source(error)
    }
}

impl fmt::Debug for ObjectPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectPlace").field("url", &self.url).finish_non_exhaustive()
    }
}

fn open_folder(
    url: &str,
    path: &FilePath,
    kind: PlaceKind,
    creates: bool,
) -> Result<Arc<dyn ObjectStore>> {
    let kind = kind.name;
    if !path.is_absolute() {
        let message = format!(
            "`{}` has no absolute path: write three slashes, as in file:///backups/app",
            text::excerpt(url)
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let io = |error: std::io::Error| {
        let error_kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        let message = format!("the {kind} {} cannot be used: {error}", path.display());
        Error::new(error_kind, message).with_source(error)
    };
    if creates {
        std::fs::create_dir_all(path).map_err(io)?;
    }
    std::fs::metadata(path).map_err(io)?;
    let store = LocalFileSystem::new_with_prefix(path).map_err(|error| {
        let message = format!("the {kind} {} cannot be used: {error}", path.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    })?;
    Ok(Arc::new(store.with_fsync(true)))
}

#[cfg(feature = "s3")]
fn open_bucket(url: &str, rest: &str, _: PlaceKind) -> Result<(Arc<dyn ObjectStore>, Path)> {
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
fn open_bucket(url: &str, _: &str, kind: PlaceKind) -> Result<(Arc<dyn ObjectStore>, Path)> {
    let message = format!(
        "`{}`: this build has no buckets: enable the Cargo feature `{}` of marmota, or use \
         file:///folder",
        text::excerpt(url),
        kind.feature
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}
