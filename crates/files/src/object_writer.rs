//! Writing an object while its bytes arrive, at constant memory.

use std::sync::Arc;

use bytes::Bytes;
use marmota_model::{Error, ErrorKind, Result};
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::space::{Space, joined};

/// Pieces that may wait for the disk or the network.
const PIECES_MAX: usize = 4;
/// Bytes that are written at once to a folder.
const FOLDER_PART_BYTES: usize = 1 << 20;
/// Bytes of a part of a bucket's object: at least 5 MiB (except the last), and at most 10,000 parts.
const BUCKET_PART_BYTES: usize = 8 << 20;

/// What is left of an object whose writer is dropped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDrop {
    /// Nothing.
    Discard,
    /// The bytes that have arrived.
    Keep,
}

/// The bytes that were written.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    pub(crate) sha256: [u8; 32],
}

enum Message {
    Piece(Bytes),
    /// The object is complete, if it has this digest.
    End(Option<[u8; 32]>),
}

/// A writer of one object. [`ObjectWriter::finish`] makes it visible, after it is on the disk.
#[derive(Debug)]
pub(crate) struct ObjectWriter {
    pieces: mpsc::Sender<Message>,
    task: Option<JoinHandle<Result<Written>>>,
}

impl ObjectWriter {
    /// Begins to write an object.
    pub(crate) fn new(space: &Arc<Space>, name: String, on_drop: OnDrop) -> Result<Self> {
        let (pieces, receiver) = mpsc::channel(PIECES_MAX);
        let task = space.spawn(write(Arc::clone(space), name, receiver, on_drop))?;
        Ok(Self { pieces, task: Some(task) })
    }

    /// Writes a piece, as soon as earlier ones leave room for it.
    pub(crate) async fn write(&mut self, piece: Bytes) -> Result<()> {
        match self.pieces.send(Message::Piece(piece)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.failure().await),
        }
    }

    /// Completes the object. If a digest is given and the bytes have another one, the object is
    /// discarded.
    pub(crate) async fn finish(mut self, digest: Option<[u8; 32]>) -> Result<Written> {
        // If the task has failed, its result has the error.
        let _ = self.pieces.send(Message::End(digest)).await;
        match self.task.take() {
            Some(task) => joined(task).await,
            None => Err(self.failure().await),
        }
    }

    /// Drops the writer, and returns once its task has ended.
    pub(crate) async fn close(mut self) {
        let task = self.task.take();
        drop(self);
        if let Some(task) = task {
            let _ = joined(task).await;
        }
    }

    async fn failure(&mut self) -> Error {
        let failed = match self.task.take() {
            Some(task) => joined(task).await.err(),
            None => None,
        };
        failed.unwrap_or_else(|| Error::new(ErrorKind::Io, "the upload has failed before"))
    }
}

/// The task of a writer.
async fn write(
    space: Arc<Space>,
    name: String,
    mut pieces: mpsc::Receiver<Message>,
    on_drop: OnDrop,
) -> Result<Written> {
    let mut parts = Parts::new(&space, name);
    let mut hash = Sha256::new();
    loop {
        match pieces.recv().await {
            Some(Message::Piece(piece)) => {
                hash.update(&piece);
                if let Err(error) = parts.write(&piece).await {
                    parts.abort().await;
                    return Err(error);
                }
            }
            Some(Message::End(digest)) => {
                let sha256: [u8; 32] = hash.finalize().into();
                if digest.is_some_and(|digest| digest != sha256) {
                    parts.abort().await;
                    let message =
                        "the bytes do not have the digest that was announced: send them again";
                    return Err(Error::new(ErrorKind::Invalid, message));
                }
                return Ok(Written { bytes: parts.finish().await?, sha256 });
            }
            None if on_drop == OnDrop::Keep && parts.bytes > 0 => {
                return Ok(Written {
                    bytes: parts.finish().await?,
                    sha256: hash.finalize().into(),
                });
            }
            None => {
                parts.abort().await;
                return Err(Error::new(ErrorKind::Closed, "the upload was cancelled"));
            }
        }
    }
}

/// The parts of an object that is being written.
struct Parts<'s> {
    space: &'s Space,
    name: String,
    part_bytes: usize,
    buffer: Vec<u8>,
    /// `None` while all bytes fit into one part.
    upload: Option<Box<dyn MultipartUpload>>,
    bytes: u64,
}

impl<'s> Parts<'s> {
    fn new(space: &'s Space, name: String) -> Self {
        let part_bytes = match space.place.folder() {
            Some(_) => FOLDER_PART_BYTES,
            None => BUCKET_PART_BYTES,
        };
        Self { space, name, part_bytes, buffer: Vec::new(), upload: None, bytes: 0 }
    }

    async fn write(&mut self, mut piece: &[u8]) -> Result<()> {
        self.bytes += piece.len() as u64;
        // A part is sent when the next byte arrives, so that the last one is never empty.
        while !piece.is_empty() {
            if self.buffer.len() == self.part_bytes {
                self.send_part().await?;
            }
            let room = (self.part_bytes - self.buffer.len()).min(piece.len());
            self.buffer.extend_from_slice(&piece[..room]);
            piece = &piece[room..];
        }
        Ok(())
    }

    async fn send_part(&mut self) -> Result<()> {
        let part = PutPayload::from(std::mem::take(&mut self.buffer));
        let place = &self.space.place;
        let failed = |error| place.error("written", &self.name, error);
        let upload = match &mut self.upload {
            Some(upload) => upload,
            slot => {
                let path = place.path(&self.name);
                slot.insert(place.store().put_multipart(&path).await.map_err(failed)?)
            }
        };
        upload.put_part(part).await.map_err(failed)
    }

    async fn finish(mut self) -> Result<u64> {
        if self.upload.is_none() {
            self.space.put(&self.name, std::mem::take(&mut self.buffer)).await?;
            return Ok(self.bytes);
        }
        let finished = async {
            self.send_part().await?;
            match &mut self.upload {
                Some(upload) => {
                    let completed = upload.complete().await;
                    completed
                        .map(drop)
                        .map_err(|error| self.space.place.error("written", &self.name, error))
                }
                None => Ok(()),
            }
        };
        match finished.await {
            Ok(()) => Ok(self.bytes),
            Err(error) => {
                self.abort().await;
                Err(error)
            }
        }
    }

    /// Removes what was written. A failure is not reported: a sweep, or a rule of the bucket for
    /// incomplete uploads, removes the rest.
    async fn abort(mut self) {
        if let Some(mut upload) = self.upload.take() {
            let _ = upload.abort().await;
        }
    }
}
