//! Forms with files (`multipart/form-data`), part by part while they come: nothing of a file is
//! held in memory but the piece that is on its way.

mod parser;

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

pub use parser::{Parser, PartHead, Piece};

use crate::body::body_buffer::BodyError;
use crate::message::body_reader::BodyReader;
use crate::message::request::Request;
use crate::message::response::{IntoResponse, Response};
use crate::proto::status::Status;

/// What a form may have; how long all of it may be is the route's own limit
/// ([`crate::Endpoint::streamed`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MultipartLimits {
    /// Parts of a form. 100.
    pub parts_max: usize,
    /// Bytes of a part that is taken into memory ([`Part::text`]). 1 MiB.
    pub text_bytes_max: u64,
    /// Bytes of a part that is read or saved. 1 GiB.
    pub part_bytes_max: u64,
}

impl Default for MultipartLimits {
    fn default() -> Self {
        Self { parts_max: 100, text_bytes_max: 1 << 20, part_bytes_max: 1 << 30 }
    }
}

/// Why a form cannot be taken. It is an answer too.
#[derive(Debug)]
#[non_exhaustive]
pub enum MultipartError {
    /// The request's media type is no `multipart/form-data` with a boundary (415).
    NoForm,
    /// The body does not come to its end.
    Body(BodyError),
    /// It is broken in this way (400).
    Malformed(&'static str),
    /// There are more parts than allowed (413).
    TooMany,
    /// The part of this name is longer than allowed (413).
    TooLarge(String),
    /// The part of this name is no text (400).
    NoText(String),
    /// A file cannot be written (500).
    Io(io::Error),
}

impl fmt::Display for MultipartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoForm => f.write_str("send multipart/form-data with a boundary"),
            Self::Body(error) => error.fmt(f),
            Self::Malformed(how) => write!(f, "the form is malformed: {how}"),
            Self::TooMany => f.write_str("the form has too many parts"),
            Self::TooLarge(name) => write!(f, "the part {name:?} is too large"),
            Self::NoText(name) => write!(f, "the part {name:?} is not UTF-8"),
            Self::Io(_) => f.write_str("the file cannot be stored"),
        }
    }
}

impl std::error::Error for MultipartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Body(error) => Some(error),
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<BodyError> for MultipartError {
    fn from(error: BodyError) -> Self {
        Self::Body(error)
    }
}

impl From<io::Error> for MultipartError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl IntoResponse for MultipartError {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::NoForm => Status::UNSUPPORTED_MEDIA_TYPE,
            Self::Body(error) => error.status(),
            Self::Malformed(_) | Self::NoText(_) => Status::BAD_REQUEST,
            Self::TooMany | Self::TooLarge(_) => Status::CONTENT_TOO_LARGE,
            Self::Io(error) => {
                log::error!("an upload cannot be stored: {error}");
                Status::INTERNAL_SERVER_ERROR
            }
        };
        Response::problem(status, &self.to_string())
    }
}

/// A form that comes part by part.
///
/// ```
/// use marmota_http::{Endpoint, Method, Multipart, MultipartError, Request, Router};
/// async fn upload(request: Request) -> Result<String, MultipartError> {
///     let mut form = Multipart::of(&request)?;
///     let mut told = String::new();
///     while let Some(mut part) = form.next().await? {
///         if part.file_name().is_some() {
///             let bytes = part.save("/tmp/upload.bin").await?;
///             told += &format!("a file of {bytes} bytes\n");
///         } else {
///             told += &format!("{} = {}\n", part.name().to_owned(), part.text().await?);
///         }
///     }
///     Ok(told)
/// }
/// let router = Router::new()
///     .on(Method::Post, "/upload", Endpoint::future(upload).streamed(1 << 30));
/// ```
#[derive(Debug)]
pub struct Multipart {
    reader: BodyReader,
    parser: Parser,
    limits: MultipartLimits,
    buffer: Vec<u8>,
    /// Everything before this is used up.
    at: usize,
    parts: usize,
    /// A part has begun and not ended.
    inside: bool,
}

impl Multipart {
    /// The form in a request's body. On a route that is not streamed the body is in memory
    /// already.
    ///
    /// # Errors
    /// [`MultipartError::NoForm`], [`MultipartError::Malformed`] for a boundary that is none.
    pub fn of(request: &Request) -> Result<Self, MultipartError> {
        Self::with_limits(request, MultipartLimits::default())
    }

    /// As [`Multipart::of`], with limits of one's own.
    ///
    /// # Errors
    /// As there.
    pub fn with_limits(request: &Request, limits: MultipartLimits) -> Result<Self, MultipartError> {
        let media_type = request.header_text("content-type").unwrap_or_default();
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("multipart/form-data") {
            return Err(MultipartError::NoForm);
        }
        let parameters = parser::parameters(media_type);
        let boundary = parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case("boundary"));
        let (_, boundary) = boundary.ok_or(MultipartError::NoForm)?;
        Ok(Self {
            reader: request.reader(),
            parser: Parser::new(boundary).map_err(MultipartError::Malformed)?,
            limits,
            buffer: Vec::new(),
            at: 0,
            parts: 0,
            inside: false,
        })
    }

    /// The next part, once its head has come; `None` at the end of the form. What was not read of
    /// the part before is passed over.
    ///
    /// # Errors
    /// [`MultipartError`].
    pub async fn next(&mut self) -> Result<Option<Part<'_>>, MultipartError> {
        loop {
            let (used, piece) =
                self.parser.parse(&self.buffer[self.at..]).map_err(MultipartError::Malformed)?;
            self.at += used;
            match piece {
                Piece::Head(head) => {
                    self.parts += 1;
                    self.inside = true;
                    if self.parts > self.limits.parts_max {
                        return Err(MultipartError::TooMany);
                    }
                    return Ok(Some(Part { form: self, head, read: 0 }));
                }
                Piece::Data(_) => {}
                Piece::PartEnd => self.inside = false,
                Piece::More => self.fill().await?,
                Piece::End => {
                    // What follows means nothing, but the next request is behind it.
                    self.buffer.clear();
                    self.at = 0;
                    while self.reader.read(&mut self.buffer).await? > 0 {
                        self.buffer.clear();
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// Waits for more bytes.
    async fn fill(&mut self) -> Result<(), MultipartError> {
        self.buffer.drain(..self.at);
        self.at = 0;
        match self.reader.read(&mut self.buffer).await? {
            0 => Err(MultipartError::Malformed("it ends inside of a part")),
            _ => Ok(()),
        }
    }
}

/// A part of a form.
#[derive(Debug)]
pub struct Part<'a> {
    form: &'a mut Multipart,
    head: PartHead,
    read: u64,
}

impl Part<'_> {
    /// The field's name.
    pub fn name(&self) -> &str {
        &self.head.name
    }

    /// What the client calls the file, without folders; `None` where it is none. It is a
    /// stranger's word: no name for a file here.
    pub fn file_name(&self) -> Option<&str> {
        self.head.file_name.as_deref()
    }

    /// The media type that the client says, empty when it does not.
    pub fn content_type(&self) -> &str {
        &self.head.content_type
    }

    /// Appends what has come to `out`, waiting until something has; gives how many bytes, 0 at
    /// the end of the part.
    ///
    /// # Errors
    /// [`MultipartError`].
    pub async fn read(&mut self, out: &mut Vec<u8>) -> Result<usize, MultipartError> {
        while self.form.inside {
            let form = &mut *self.form;
            let (used, piece) =
                form.parser.parse(&form.buffer[form.at..]).map_err(MultipartError::Malformed)?;
            form.at += used;
            match piece {
                Piece::Data(data) => {
                    self.read += data.len() as u64;
                    if self.read > form.limits.part_bytes_max {
                        return Err(MultipartError::TooLarge(self.head.name.clone()));
                    }
                    out.extend_from_slice(data);
                    return Ok(data.len());
                }
                Piece::More => form.fill().await?,
                Piece::PartEnd | Piece::Head(_) | Piece::End => form.inside = false,
            }
        }
        Ok(0)
    }

    /// The whole part as text.
    ///
    /// # Errors
    /// [`MultipartError::NoText`] where it is not UTF-8, and as [`Part::read`].
    pub async fn text(&mut self) -> Result<String, MultipartError> {
        let mut bytes = Vec::new();
        while self.read(&mut bytes).await? > 0 {
            if bytes.len() as u64 > self.form.limits.text_bytes_max {
                return Err(MultipartError::TooLarge(self.head.name.clone()));
            }
        }
        String::from_utf8(bytes).map_err(|_| MultipartError::NoText(self.head.name.clone()))
    }

    /// Saves the part in a new file, and gives its length. A file that did not come whole is
    /// removed.
    ///
    /// # Errors
    /// [`MultipartError::Io`], also when there is a file of this name already; and as
    /// [`Part::read`].
    pub async fn save(&mut self, path: impl AsRef<Path>) -> Result<u64, MultipartError> {
        let path = path.as_ref();
        let file = File::create_new(path)?;
        let unfinished = Unfinished(Some(path));
        let mut piece = Vec::new();
        while self.read(&mut piece).await? > 0 {
            (&file).write_all(&piece)?;
            piece.clear();
        }
        unfinished.keep();
        Ok(self.read)
    }
}

/// A file that is removed unless it is kept, also when its future is dropped.
struct Unfinished<'a>(Option<&'a Path>);

impl Unfinished<'_> {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0
            && let Err(error) = std::fs::remove_file(path)
        {
            log::warn!("{} is left of an upload: {error}", path.display());
        }
    }
}
