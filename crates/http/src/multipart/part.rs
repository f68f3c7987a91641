//! One part of a form: its head, and its data in pieces, as text or in a file.

use std::fs::File;
use std::future::poll_fn;
use std::io::Write;
use std::path::Path;
use std::pin::Pin;
use std::task::{Poll, ready};

use bytes::Bytes;
use futures_core::Stream;

use crate::multipart::Multipart;
use crate::multipart::error::MultipartError;

/// Bytes of a part's data that are passed to the parser at once: as much as a connection keeps
/// for a handler.
const PIECE_BYTES: usize = 64 * 1024;

/// A part of a form; see [`Multipart::next`]. It borrows the form: its data is read before the
/// next part is requested, or skipped then.
#[derive(Debug)]
pub struct Part<'a> {
    form: &'a mut Multipart,
    /// Bytes of data that were returned so far.
    read: u64,
}

impl Multipart {
    /// Returns the next piece of the current part's data; `None` at its end, and if no part was
    /// requested yet.
    pub(super) async fn next_data(&mut self) -> Result<Option<Bytes>, MultipartError> {
        let Self { field, feed, .. } = self;
        let Some(field) = field else { return Ok(None) };
        poll_fn(|context| {
            loop {
                match Pin::new(&mut *field).poll_next(context) {
                    Poll::Ready(Some(Ok(bytes))) if bytes.is_empty() => continue,
                    Poll::Ready(next) => {
                        return Poll::Ready(next.transpose().map_err(MultipartError::of_parser));
                    }
                    Poll::Pending => {}
                }
                ready!(feed.poll_feed(context, PIECE_BYTES))?;
            }
        })
        .await
    }
}

impl<'a> Part<'a> {
    /// Returns the form's current part.
    pub(super) fn new(form: &'a mut Multipart) -> Self {
        Self { form, read: 0 }
    }

    /// Returns the name of the field.
    pub fn name(&self) -> &str {
        self.form.field.as_ref().and_then(|field| field.name()).unwrap_or_default()
    }

    /// Returns the client's name of the file, without folders; `None` if the part is not a file. A
    /// browser sends an empty name for a field in which no file was chosen.
    ///
    /// The name comes from the client, so do not use it as the name of a file on the server.
    pub fn file_name(&self) -> Option<&str> {
        // Some clients send the whole path.
        let name = self.form.field.as_ref()?.file_name()?;
        name.rsplit(['/', '\\']).next()
    }

    /// Returns the media type that the client declares; empty if it declares none. It may differ
    /// from the content.
    pub fn content_type(&self) -> &str {
        let field = self.form.field.as_ref();
        let value = field.and_then(|field| field.headers().get("content-type"));
        value.and_then(|value| std::str::from_utf8(value.as_bytes()).ok()).unwrap_or_default()
    }

    /// Appends the data that has arrived to `out`, and returns the number of bytes; 0 at the end
    /// of the part. Waits until there is some.
    ///
    /// ```
    /// use marmota_http::{Multipart, MultipartError, Request};
    ///
    /// /// Returns the sum of all bytes of all files.
    /// async fn checksum(request: Request) -> Result<String, MultipartError> {
    ///     let mut form = Multipart::of(&request)?;
    ///     let (mut sum, mut piece) = (0_u64, Vec::new());
    ///     while let Some(mut part) = form.next().await? {
    ///         while part.read(&mut piece).await? > 0 {
    ///             sum += piece.drain(..).map(u64::from).sum::<u64>();
    ///         }
    ///     }
    ///     Ok(sum.to_string())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`MultipartError::TooLarge`] if the part is longer than
    /// [`MultipartLimits::part_bytes_max`](crate::MultipartLimits::part_bytes_max),
    /// [`MultipartError::Body`] and [`MultipartError::Malformed`].
    pub async fn read(&mut self, out: &mut Vec<u8>) -> Result<usize, MultipartError> {
        let Some(data) = self.form.next_data().await? else { return Ok(0) };
        self.read += data.len() as u64;
        out.extend_from_slice(&data);
        Ok(data.len())
    }

    /// Reads the rest of the part as UTF-8 text, up to
    /// [`MultipartLimits::text_bytes_max`](crate::MultipartLimits::text_bytes_max). A charset that
    /// the part declares is ignored: browsers send forms in UTF-8 (RFC 7578, 5.1).
    ///
    /// # Errors
    /// [`MultipartError::NoText`] if it is not UTF-8, [`MultipartError::TooLarge`] if it is longer
    /// than the limit, and those of [`Part::read`].
    pub async fn text(&mut self) -> Result<String, MultipartError> {
        let mut bytes = Vec::new();
        while self.read(&mut bytes).await? > 0 {
            if bytes.len() as u64 > self.form.limits.text_bytes_max {
                return Err(MultipartError::TooLarge(self.name().to_owned()));
            }
        }
        String::from_utf8(bytes).map_err(|_| MultipartError::NoText(self.name().to_owned()))
    }

    /// Saves the part in a new file, and returns its length in bytes. A file that does not arrive
    /// completely is removed, also if the handler's future is dropped.
    ///
    /// The file is written by the thread that serves the connection, as the pieces arrive.
    ///
    /// ```
    /// use marmota_http::{Multipart, MultipartError, Request};
    ///
    /// /// Saves each file under a name that the server chooses.
    /// async fn store(request: Request) -> Result<String, MultipartError> {
    ///     let mut form = Multipart::of(&request)?;
    ///     let (mut files, mut bytes) = (0, 0);
    ///     while let Some(mut part) = form.next().await? {
    ///         if part.file_name().is_some_and(|name| !name.is_empty()) {
    ///             bytes += part.save(format!("/srv/uploads/{}-{files}", request.id())).await?;
    ///             files += 1;
    ///         }
    ///     }
    ///     Ok(format!("{files} files, {bytes} bytes"))
    /// }
    /// ```
    ///
    /// # Errors
    /// [`MultipartError::Io`], also if there is already a file of this name, and those of
    /// [`Part::read`].
    pub async fn save(&mut self, path: impl AsRef<Path>) -> Result<u64, MultipartError> {
        let path = path.as_ref();
        let file = File::create_new(path)?;
        let unfinished = UnfinishedFile(Some(path));
        let mut piece = Vec::new();
        while self.read(&mut piece).await? > 0 {
            (&file).write_all(&piece)?;
            piece.clear();
        }
        unfinished.keep();
        Ok(self.read)
    }
}

/// A file that is removed when this is dropped, unless it is kept.
struct UnfinishedFile<'a>(Option<&'a Path>);

impl UnfinishedFile<'_> {
    /// Keeps the file, which is complete.
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for UnfinishedFile<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0
            && let Err(error) = std::fs::remove_file(path)
        {
            log::warn!(
                "the temporary file {} of an upload could not be removed: {error}",
                path.display()
            );
        }
    }
}
