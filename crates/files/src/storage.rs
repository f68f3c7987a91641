//! The storage of files: its methods for programs.

use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use marmota_model::{Column, Error, ErrorKind, File, Model, Result, Table, Uuid};
use marmota_objects::{ObjectPlace, PlaceKind};
use marmota_store::{Store, StoreBuilder};
use parking_lot::Mutex;

use crate::guard::StagedFiles;
use crate::keeper::{self, Keeper, SweepReport};
use crate::object_writer::OnDrop;
use crate::options::FileOptions;
use crate::owner::{self, FileOwner};
use crate::reader::FileReader;
use crate::resumable::{self, PartialUpload, UploadPart, Uploads};
use crate::signature::{self, KEY_BYTES};
use crate::space::Space;
use crate::upload::{FileLimits, FileUpload};

/// Bytes that [`FileStorage::save`] reads at once.
const PIECE_BYTES: usize = 64 * 1024;

/// A storage for the bytes of files: a folder or a bucket. It belongs to one database.
///
/// Clones share the storage.
#[derive(Clone, Debug)]
pub struct FileStorage(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    space: Arc<Space>,
    staged: Arc<StagedFiles>,
    uploads: Arc<Uploads>,
    options: FileOptions,
    key: OnceLock<[u8; KEY_BYTES]>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl FileStorage {
    /// Opens a storage with the default options, and creates a missing folder.
    ///
    /// | URL | place |
    /// |---|---|
    /// | `data/files`, `file:///var/lib/app/files` | a folder |
    /// | `s3://bucket/prefix` | a bucket of S3 or a compatible store (feature `s3`), with the environment variables `AWS_…` |
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL of another form, [`ErrorKind::Unsupported`] for a bucket
    /// without the feature `s3`, [`ErrorKind::Io`] for a folder that cannot be used.
    pub fn open(url: &str) -> Result<Self> {
        Self::open_with(url, FileOptions::default())
    }

    /// Opens a storage like [`FileStorage::open`], with options.
    ///
    /// # Errors
    /// As for [`FileStorage::open`].
    pub fn open_with(url: &str, options: FileOptions) -> Result<Self> {
        let kind = PlaceKind { name: "storage of files", feature: "files-s3" };
        let place = ObjectPlace::open(&absolute(url)?, kind, true)?;
        Ok(Self(Arc::new(Inner {
            space: Space::new(place)?,
            staged: Arc::new(StagedFiles::new(options.grace / 2)),
            uploads: Arc::default(),
            options,
            key: OnceLock::new(),
            keeper: Mutex::default(),
        })))
    }

    /// Adds the guard of file fields to a store, and the table `marmota_file_owner`. Call it after
    /// the models are added, and [`FileStorage::start`] when the store is open.
    #[must_use]
    pub fn attach(&self, builder: StoreBuilder) -> StoreBuilder {
        let guard = Arc::clone(&self.0.staged);
        builder.model::<FileOwner>().file_guard(guard)
    }

    /// Checks that the storage belongs to the database, and starts the thread that removes bytes
    /// without a row. It ends when the store is closed, or with [`FileStorage::stop`].
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] for the storage of another database, [`ErrorKind::Refused`] if the
    /// folder or bucket cannot be used, [`ErrorKind::NotFound`] for a store without
    /// [`FileStorage::attach`].
    pub fn start(&self, store: &Store) -> Result<()> {
        let inner = &self.0;
        let key = owner::check(store, &inner.space)?;
        let _ = inner.key.set(key);
        inner.uploads.load(&inner.space)?;
        let keeper = Keeper {
            space: Arc::downgrade(&inner.space),
            staged: Arc::clone(&inner.staged),
            uploads: Arc::clone(&inner.uploads),
            store: store.clone(),
            options: inner.options.clone(),
        };
        self.stop();
        inner.staged.restart();
        let thread = std::thread::Builder::new().name("marmota-files-keeper".to_owned());
        let thread = thread.spawn(move || keeper.run()).map_err(|error| {
            Error::new(ErrorKind::Io, format!("no thread for files: {error}")).with_source(error)
        })?;
        *inner.keeper.lock() = Some(thread);
        Ok(())
    }

    /// Stops the thread that removes bytes. What it has not removed, a later sweep removes.
    pub fn stop(&self) {
        self.0.staged.stop();
        if let Some(thread) = self.0.keeper.lock().take() {
            let _ = thread.join();
        }
    }

    /// Returns true after [`FileStorage::start`].
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.0.key.get().is_some()
    }

    /// Returns the options.
    pub fn options(&self) -> &FileOptions {
        &self.0.options
    }

    /// Begins an upload. `name` is the client's name of the file, and `content_type` the declared
    /// type; it may be empty.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if the storage is closed.
    pub fn upload(&self, limits: FileLimits, name: &str, content_type: &str) -> Result<FileUpload> {
        let inner = &self.0;
        FileUpload::new(&inner.space, &inner.staged, limits, name, content_type)
    }

    /// Saves the bytes of a reader for a field of a model. Then write the returned file to a row.
    ///
    /// It blocks the calling thread; use [`FileStorage::upload`] on an event loop.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for too many bytes (`bytes_max`) or another type (`types`),
    /// [`ErrorKind::Io`] if the reader fails, an error of the storage.
    pub fn save<M: Model, T>(
        &self,
        column: Column<M, T>,
        name: &str,
        reader: &mut impl Read,
    ) -> Result<File> {
        let table = Table::new(M::schema().clone())?;
        let limits = FileLimits::new(&table, column.name())?;
        let mut upload = self.upload(limits, name, "")?;
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let read = reader.read(&mut piece).map_err(|error| {
                let message = format!("the bytes of a file cannot be read: {error}");
                Error::new(ErrorKind::Io, message).with_source(error)
            })?;
            match read {
                0 => return marmota_store::action::block_on(upload.finish()),
                read => {
                    let bytes = piece[..read].to_vec();
                    marmota_store::action::block_on(upload.write(bytes))?;
                }
            }
        }
    }

    /// Opens a part of a file for reading.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the bytes are missing.
    pub async fn reader(&self, file: &File, range: Range<u64>) -> Result<FileReader> {
        FileReader::open(&self.0.space, file, range).await
    }

    /// Reads a file as a whole. It blocks the calling thread.
    ///
    /// # Errors
    /// As for [`FileStorage::reader`].
    pub fn read_all(&self, file: &File) -> Result<Vec<u8>> {
        marmota_store::action::block_on(async {
            let mut reader = self.reader(file, 0..file.bytes).await?;
            let mut bytes = Vec::new();
            while let Some(piece) = reader.next().await? {
                bytes.extend_from_slice(&piece);
            }
            Ok(bytes)
        })
    }

    /// Makes the write of an uploaded file fail ([`ErrorKind::Stale`]) if the row has another file
    /// than `before` by then.
    pub fn expect_before(&self, file: &File, before: &File) {
        self.0.staged.expect_before(file.id, before.id);
    }

    /// Reports that the row of an uploaded file is committed. Without this, the storage forgets the
    /// upload after the grace period.
    pub fn settle(&self, file: &File) {
        self.0.staged.settle(file.id);
    }

    /// Removes the bytes of an uploaded file that is not written to a row.
    pub fn discard(&self, file: &File) {
        if self.0.staged.discard(file.id) {
            let (space, id) = (Arc::clone(&self.0.space), file.id);
            // A failure leaves the bytes to a sweep.
            let _ = self.0.space.spawn(async move { space.delete_file(id).await });
        }
    }

    /// Removes the bytes older than `grace` that no row has. The storage does this by itself
    /// ([`FileOptions::sweep_interval`]). It blocks the calling thread, and reads all rows with
    /// files; the ids of all files older than `grace` are in memory meanwhile.
    ///
    /// # Errors
    /// Those of the store and of the storage.
    pub fn sweep(&self, store: &Store, grace: Duration) -> Result<SweepReport> {
        let inner = &self.0;
        let report = keeper::sweep(&inner.space, &inner.staged, store, grace)?;
        let age_max = inner.options.upload_age_max;
        let uploads = inner.uploads.remove_expired(&inner.space, age_max)?;
        Ok(SweepReport { uploads, ..report })
    }

    /// Returns the signature of a resource until a time (seconds since 1970).
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] before [`FileStorage::start`].
    pub fn sign(&self, resource: &str, expires: u64) -> Result<String> {
        Ok(signature::sign(self.key()?, resource, expires))
    }

    /// Returns true if the signature is that of the resource, and has not expired.
    #[must_use]
    pub fn is_signed(&self, resource: &str, expires: u64, signature: &str) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let is_current = now.is_ok_and(|now| now.as_secs() < expires);
        let of_key = |key| signature::verify(key, resource, expires, signature);
        is_current && self.key().is_ok_and(of_key)
    }

    fn key(&self) -> Result<&[u8; KEY_BYTES]> {
        self.0.key.get().ok_or_else(|| {
            let message = "the storage of files is not started: call `FileStorage::start`";
            Error::new(ErrorKind::Closed, message)
        })
    }

    /// Creates a resumable upload; its `id` and `created` are set.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if too many are unfinished.
    pub async fn create_upload(&self, upload: PartialUpload) -> Result<PartialUpload> {
        self.0.uploads.create(&self.0.space, &self.0.options, upload).await
    }

    /// Returns a resumable upload, and the offset at which it continues.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if it does not exist.
    pub async fn find_upload(&self, id: Uuid) -> Result<(PartialUpload, u64)> {
        let upload = self.0.uploads.find(&self.0.space, id).await?;
        let offset = resumable::offset(&self.0.space, id).await?;
        Ok((upload, offset))
    }

    /// Begins to append to a resumable upload. With `keeps_partial`, the bytes that have arrived are
    /// kept if the part is dropped before its end.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] while another request appends to it.
    pub async fn append_upload(
        &self,
        upload: PartialUpload,
        keeps_partial: bool,
    ) -> Result<UploadPart> {
        let on_drop = if keeps_partial { OnDrop::Keep } else { OnDrop::Discard };
        self.0.uploads.append(&self.0.space, upload, on_drop).await
    }

    /// Removes a resumable upload with its bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if the folder or bucket cannot be used.
    pub async fn remove_upload(&self, id: Uuid) -> Result<()> {
        self.0.uploads.remove(&self.0.space, id).await
    }

    /// Returns a smaller version of an image, and keeps it in the storage.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a size that is not offered, or a file that is not an image or has
    /// too many pixels.
    #[cfg(feature = "thumbnails")]
    pub async fn thumbnail(
        &self,
        file: &File,
        width: u32,
        height: u32,
    ) -> Result<crate::thumbnail::ThumbnailImage> {
        crate::thumbnail::of(&self.0.space, file, width, height).await
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.staged.stop();
    }
}

/// Returns the URL of a path without a scheme.
fn absolute(url: &str) -> Result<String> {
    if url.contains("://") {
        return Ok(url.to_owned());
    }
    let path = url.strip_prefix("file:").unwrap_or(url);
    let path = std::path::absolute(path).map_err(|error| {
        let path = marmota_model::text::excerpt(path);
        let message = format!("`{path}` is not a folder for files: {error}");
        Error::new(ErrorKind::Invalid, message).with_source(error)
    })?;
    Ok(format!("file://{}", path.display()))
}
