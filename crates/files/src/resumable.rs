//! Uploads in several requests, which continue after a lost connection or a restart.
//!
//! All state is in the storage: `uploads/ID/info` describes the upload, `uploads/ID/OFFSET` has the
//! bytes of one request. The offset of an upload is the end of its last object.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use marmota_model::{Error, ErrorKind, Result, Timestamp, Uuid};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::object_writer::{ObjectWriter, OnDrop};
use crate::options::FileOptions;
use crate::reader::FileReader;
use crate::space::{Space, joined};
use crate::upload::{FileUpload, random_id};

const FOLDER: &str = "uploads";
/// Objects of one upload; a client that sends a few bytes in each request reaches it.
const PARTS_MAX: usize = 10_000;

/// An unfinished upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialUpload {
    /// The random name.
    pub id: Uuid,
    /// The field of the row that the file is for, in a form that the creator chooses.
    pub resource: String,
    /// The size of the file in bytes.
    pub length: u64,
    /// The name of the file.
    pub name: String,
    /// The media type that the client has declared.
    pub content_type: String,
    /// The time at which the upload was created.
    pub created: Timestamp,
}

impl PartialUpload {
    /// Returns an upload that is to be created.
    #[must_use]
    pub fn new(resource: String, length: u64, name: &str, content_type: &str) -> Self {
        let (name, content_type) = (name.to_owned(), content_type.to_owned());
        let (id, created) = (Uuid::nil(), Timestamp::default());
        Self { id, resource, length, name, content_type, created }
    }

    /// Returns the time at which the upload is removed if it is not finished.
    #[must_use]
    pub fn expires(&self, options: &FileOptions) -> Timestamp {
        let age = i64::try_from(options.upload_age_max.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.created.micros().saturating_add(age)).unwrap_or(self.created)
    }
}

/// The unfinished uploads of a storage.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    known: Mutex<HashMap<Uuid, PartialUpload>>,
    /// Those that a request appends to.
    busy: Mutex<HashSet<Uuid>>,
}

impl Uploads {
    /// Reads the uploads that earlier processes have left.
    pub(crate) fn load(&self, space: &Arc<Space>) -> Result<()> {
        let of_task = Arc::clone(space);
        let found = space.wait(async move {
            let mut ids = HashSet::new();
            of_task
                .list(FOLDER, |name, _| {
                    ids.extend(name.split('/').next().and_then(|id| Uuid::try_parse(id).ok()));
                })
                .await?;
            let mut found = HashMap::new();
            for id in ids {
                let info = of_task.get(&info_object(id)).await?;
                match info.and_then(|info| serde_json::from_slice::<PartialUpload>(&info).ok()) {
                    Some(upload) => {
                        found.insert(id, upload);
                    }
                    // The process ended while it created or removed the upload.
                    None => of_task.delete_folder(&folder(id)).await?,
                }
            }
            Ok(found)
        })?;
        self.known.lock().extend(found);
        Ok(())
    }

    /// Creates an upload. Its `id` and `created` are set.
    pub(crate) async fn create(
        &self,
        space: &Arc<Space>,
        options: &FileOptions,
        mut upload: PartialUpload,
    ) -> Result<PartialUpload> {
        upload.id = random_id()?;
        upload.created = Timestamp::now();
        {
            let mut known = self.known.lock();
            let bytes = known.values().map(|upload| upload.length).fold(0, u64::saturating_add);
            if known.len() >= options.uploads_max
                || bytes.saturating_add(upload.length) > options.uploads_bytes_max
            {
                let message =
                    "too many uploads are unfinished; finish or delete some, or try again later";
                return Err(Error::new(ErrorKind::Busy, message));
            }
            known.insert(upload.id, upload.clone());
        }
        let json = serde_json::to_vec(&upload).unwrap_or_default();
        let (of_task, name) = (Arc::clone(space), info_object(upload.id));
        let put = joined(space.spawn(async move { of_task.put(&name, json).await })?).await;
        if put.is_err() {
            self.known.lock().remove(&upload.id);
        }
        put.map(|()| upload)
    }

    /// Returns an upload.
    pub(crate) async fn find(&self, space: &Arc<Space>, id: Uuid) -> Result<PartialUpload> {
        if let Some(upload) = self.known.lock().get(&id) {
            return Ok(upload.clone());
        }
        // Another process may have created it.
        let (of_task, name) = (Arc::clone(space), info_object(id));
        let info = joined(space.spawn(async move { of_task.get(&name).await })?).await?;
        let upload = info.and_then(|info| serde_json::from_slice::<PartialUpload>(&info).ok());
        let upload = upload.ok_or_else(|| {
            let message = "there is no such upload; it may be finished, deleted or expired";
            Error::new(ErrorKind::NotFound, message)
        })?;
        self.known.lock().insert(id, upload.clone());
        Ok(upload)
    }

    /// Removes an upload with its bytes.
    pub(crate) async fn remove(&self, space: &Arc<Space>, id: Uuid) -> Result<()> {
        self.known.lock().remove(&id);
        let of_task = Arc::clone(space);
        joined(space.spawn(async move {
            // The description goes first: bytes without one are removed at the next start.
            of_task.delete(&info_object(id)).await?;
            of_task.delete_folder(&folder(id)).await
        })?)
        .await
    }

    /// Removes the uploads that are too old. Returns their number.
    pub(crate) fn remove_expired(&self, space: &Arc<Space>, age_max: Duration) -> Result<u64> {
        let age_max = i64::try_from(age_max.as_micros()).unwrap_or(i64::MAX);
        let limit = Timestamp::now().micros().saturating_sub(age_max);
        let is_expired = |upload: &&PartialUpload| upload.created.micros() < limit;
        let expired: Vec<Uuid> =
            self.known.lock().values().filter(is_expired).map(|upload| upload.id).collect();
        let mut removed = 0;
        for id in expired {
            if let Ok(_lock) = self.lock(id) {
                marmota_store::action::block_on(self.remove(space, id))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Reserves an upload for one request.
    fn lock(&self, id: Uuid) -> Result<BusyUpload<'_>> {
        match self.busy.lock().insert(id) {
            true => Ok(BusyUpload { uploads: self, id }),
            false => {
                let message = "another request is writing to this upload; wait for its end";
                Err(Error::new(ErrorKind::Conflict, message))
            }
        }
    }

    /// Begins to append bytes at an offset.
    pub(crate) async fn append(
        self: &Arc<Self>,
        space: &Arc<Space>,
        upload: PartialUpload,
        on_drop: OnDrop,
    ) -> Result<UploadPart> {
        let lock = self.lock(upload.id)?;
        let parts = parts(space, upload.id).await?;
        if parts.len() >= PARTS_MAX {
            let message = format!("an upload may have at most {PARTS_MAX} parts; send larger ones");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        std::mem::forget(lock);
        let offset = end_of(&parts);
        Ok(UploadPart {
            uploads: Arc::clone(self),
            space: Arc::clone(space),
            writer: None,
            on_drop,
            offset,
            upload,
        })
    }
}

/// The reservation of an upload.
struct BusyUpload<'u> {
    uploads: &'u Uploads,
    id: Uuid,
}

impl Drop for BusyUpload<'_> {
    fn drop(&mut self) {
        self.uploads.busy.lock().remove(&self.id);
    }
}

/// A part of a resumable upload, which one request appends.
#[derive(Debug)]
pub struct UploadPart {
    uploads: Arc<Uploads>,
    space: Arc<Space>,
    /// `None` until the first bytes.
    writer: Option<ObjectWriter>,
    on_drop: OnDrop,
    /// The end of the upload with the bytes written so far.
    offset: u64,
    upload: PartialUpload,
}

impl UploadPart {
    /// Returns the end of the upload, with the bytes written so far.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Writes bytes, as soon as the storage has taken earlier ones.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the upload becomes longer than announced; an error of the storage.
    pub async fn write(&mut self, bytes: impl Into<Bytes>) -> Result<()> {
        let bytes = bytes.into();
        let end = self.offset.saturating_add(bytes.len() as u64);
        if end > self.upload.length {
            let message = format!(
                "the upload has {end} bytes, but {} were announced (`Upload-Length`)",
                self.upload.length
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            slot => {
                let name = part_object(self.upload.id, self.offset);
                slot.insert(ObjectWriter::new(&self.space, name, self.on_drop)?)
            }
        };
        writer.write(bytes).await?;
        self.offset = end;
        Ok(())
    }

    /// Completes the part: its bytes are on the disk. Returns the end of the upload.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the bytes do not have the announced digest (SHA-256).
    pub async fn finish(&mut self, sha256: Option<[u8; 32]>) -> Result<u64> {
        if let Some(writer) = self.writer.take() {
            writer.finish(sha256).await?;
        }
        Ok(self.offset)
    }

    /// Passes the bytes of the complete upload to the upload of a file.
    ///
    /// # Errors
    /// As for [`FileUpload::write`].
    pub async fn pass_on(&self, to: &mut FileUpload) -> Result<()> {
        let id = self.upload.id;
        for (start, bytes) in parts(&self.space, id).await? {
            let name = part_object(id, start);
            let mut reader = FileReader::open_object(&self.space, name, 0..bytes).await?;
            while let Some(piece) = reader.next().await? {
                to.write(piece).await?;
            }
        }
        Ok(())
    }
}

impl Drop for UploadPart {
    /// Frees the upload for the next request, once the bytes that have arrived are stored.
    fn drop(&mut self) {
        let (uploads, id) = (Arc::clone(&self.uploads), self.upload.id);
        match self.writer.take() {
            None => drop(BusyUpload { uploads: &uploads, id }),
            Some(writer) => {
                let _ = self.space.spawn(async move {
                    writer.close().await;
                    drop(BusyUpload { uploads: &uploads, id });
                });
            }
        }
    }
}

/// Returns the parts of an upload, each with its offset and its length, up to the first gap.
async fn parts(space: &Arc<Space>, id: Uuid) -> Result<Vec<(u64, u64)>> {
    let of_task = Arc::clone(space);
    let mut parts = joined(space.spawn(async move {
        let mut parts = Vec::new();
        of_task
            .list(&folder(id), |name, object| {
                parts.extend(name.parse::<u64>().ok().map(|offset| (offset, object.size)));
            })
            .await?;
        Ok(parts)
    })?)
    .await?;
    parts.sort_unstable();
    let mut end = 0;
    parts.retain(|(offset, bytes)| {
        let follows = *offset == end;
        end += if follows { *bytes } else { 0 };
        follows
    });
    Ok(parts)
}

fn end_of(parts: &[(u64, u64)]) -> u64 {
    parts.last().map_or(0, |(offset, bytes)| offset + bytes)
}

/// Returns the end of an upload: the offset at which a client continues.
pub(crate) async fn offset(space: &Arc<Space>, id: Uuid) -> Result<u64> {
    Ok(end_of(&parts(space, id).await?))
}

fn folder(id: Uuid) -> String {
    format!("{FOLDER}/{}", id.simple())
}

fn info_object(id: Uuid) -> String {
    format!("{}/info", folder(id))
}

fn part_object(id: Uuid, offset: u64) -> String {
    format!("{}/{offset:020}", folder(id))
}
