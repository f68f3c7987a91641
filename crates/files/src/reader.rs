//! Reading the bytes of a file, piece by piece.

use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use marmota_model::{Error, ErrorKind, File, Result};
use object_store::{GetResultPayload, ObjectStoreExt};
use tokio::task::JoinHandle;

use crate::space::{Space, file_object, joined};

/// Bytes that are read from a folder at once.
const FOLDER_PIECE_BYTES: u64 = 256 * 1024;
/// Bytes that one request reads from a bucket. The request ends before a slow client has taken
/// them, so that no timeout depends on the client.
const BUCKET_PIECE_BYTES: u64 = 2 << 20;

/// A reader of a part of a file. One piece is read ahead.
///
/// ```
/// # fn example(storage: &marmota_files::FileStorage, file: &marmota_files::File) {
/// # let future = async {
/// let mut reader = storage.reader(file, 0..file.bytes).await?;
/// while let Some(piece) = reader.next().await? {
///     println!("{} bytes", piece.len());
/// }
/// # Ok::<(), marmota_model::Error>(())
/// # };
/// # }
/// ```
#[derive(Debug)]
pub struct FileReader {
    space: Arc<Space>,
    source: Source,
    name: String,
    /// The bytes that are not requested yet.
    rest: Range<u64>,
    ahead: Option<JoinHandle<Result<Bytes>>>,
}

#[derive(Clone, Debug)]
enum Source {
    Folder(Arc<std::fs::File>),
    Bucket,
}

impl FileReader {
    /// Opens a file.
    pub(crate) async fn open(space: &Arc<Space>, file: &File, range: Range<u64>) -> Result<Self> {
        Self::open_object(space, file_object(file.id), range).await
    }

    /// Opens an object.
    pub(crate) async fn open_object(
        space: &Arc<Space>,
        name: String,
        range: Range<u64>,
    ) -> Result<Self> {
        let source = match space.place.folder() {
            None => Source::Bucket,
            Some(_) => {
                let (of_task, name) = (Arc::clone(space), name.clone());
                joined(space.spawn(async move { opened(&of_task, &name).await })?).await?
            }
        };
        let mut reader = Self { space: Arc::clone(space), source, name, rest: range, ahead: None };
        reader.read_ahead()?;
        Ok(reader)
    }

    /// Returns the next piece, or `None` at the end.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the bytes are missing or fewer than described, [`ErrorKind::Refused`]
    /// if the folder or bucket cannot be read.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let Some(ahead) = self.ahead.take() else { return Ok(None) };
        let piece = joined(ahead).await?;
        self.read_ahead()?;
        Ok(Some(piece))
    }

    fn read_ahead(&mut self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let piece_bytes = match self.source {
            Source::Folder(_) => FOLDER_PIECE_BYTES,
            Source::Bucket => BUCKET_PIECE_BYTES,
        };
        let piece = self.rest.start..self.rest.end.min(self.rest.start + piece_bytes);
        self.rest.start = piece.end;
        let (space, name) = (Arc::clone(&self.space), self.name.clone());
        self.ahead = Some(match self.source.clone() {
            Source::Folder(file) => self.space.spawn_blocking(move || {
                let mut bytes = vec![0; (piece.end - piece.start) as usize];
                let read = file.read_exact_at(&mut bytes, piece.start);
                read.map_err(|error| incomplete(&space, &name, error))?;
                Ok(Bytes::from(bytes))
            })?,
            Source::Bucket => self.space.spawn(async move {
                let path = space.place.path(&name);
                match space.place.store().get_range(&path, piece.clone()).await {
                    Ok(bytes) if bytes.len() as u64 == piece.end - piece.start => Ok(bytes),
                    Ok(_) => Err(incomplete(&space, &name, "it is too short")),
                    Err(error @ object_store::Error::NotFound { .. }) => {
                        Err(incomplete(&space, &name, error))
                    }
                    Err(error) => Err(space.place.error("read", &name, error)),
                }
            })?,
        });
        Ok(())
    }
}

impl Drop for FileReader {
    fn drop(&mut self) {
        if let Some(ahead) = &self.ahead {
            ahead.abort();
        }
    }
}

async fn opened(space: &Space, name: &str) -> Result<Source> {
    match space.place.store().get(&space.place.path(name)).await {
        Ok(found) => match found.payload {
            GetResultPayload::File(file, _) => Ok(Source::Folder(Arc::new(file))),
            _ => Ok(Source::Bucket),
        },
        Err(error @ object_store::Error::NotFound { .. }) => Err(incomplete(space, name, error)),
        Err(error) => Err(space.place.error("read", name, error)),
    }
}

/// Returns the error for bytes that a row describes but the storage does not have.
#[cold]
fn incomplete(space: &Space, name: &str, why: impl std::fmt::Display) -> Error {
    let message = format!(
        "{}: the bytes of a file are missing (`{name}`: {why}): restore the folder or the bucket \
         from its backup",
        space.place.url()
    );
    Error::new(ErrorKind::Io, message)
}
