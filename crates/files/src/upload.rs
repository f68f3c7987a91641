//! An upload: the bytes of a file on their way into the storage.

use std::sync::Arc;

use bytes::Bytes;
use marmota_model::rule::violation;
use marmota_model::{Error, ErrorKind, File, Kind, Result, Table, Timestamp, Uuid, ValueRef};

use crate::guard::StagedFiles;
use crate::media_type::{self, HEAD_BYTES};
use crate::object_writer::{ObjectWriter, OnDrop};
use crate::signature::hex;
use crate::space::{Space, file_object};

/// The field that a file is uploaded for, with its limits.
#[derive(Clone, Debug)]
pub struct FileLimits {
    table: String,
    position: usize,
    field: marmota_model::Field,
}

impl FileLimits {
    /// Returns the limits of a field.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the table has no field of this name, or one of another kind.
    pub fn new(table: &Table, field: &str) -> Result<Self> {
        let found = table.find(field).map(|position| (position, &table.fields()[position]));
        match found {
            Some((position, of)) if matches!(of.kind, Kind::File { .. }) => {
                Ok(Self { table: table.name().to_owned(), position, field: of.clone() })
            }
            _ => {
                let (table, field) = (table.name(), marmota_model::text::excerpt(field));
                let message = format!("`{table}` has no file field `{field}`");
                Err(Error::new(ErrorKind::NotFound, message))
            }
        }
    }

    /// Returns the maximum size of the file in bytes.
    #[must_use]
    pub const fn bytes_max(&self) -> u64 {
        match self.field.kind {
            Kind::File { bytes_max, .. } => bytes_max,
            _ => 0,
        }
    }

    /// Checks the size of a file, before it is received or while it arrives.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the rule `bytes_max`.
    pub fn check_bytes(&self, bytes: u64) -> Result<()> {
        let most = self.bytes_max();
        match bytes <= most {
            true => Ok(()),
            false => Err(self.refused("bytes_max", format!("must have at most {most} bytes"))),
        }
    }

    /// Returns the table's name and the position of the field.
    pub(crate) fn place(&self) -> (&str, usize) {
        (&self.table, self.position)
    }

    fn check_type(&self, media_type: &str) -> Result<()> {
        match &self.field.kind {
            kind if kind.accepts_type(media_type) => Ok(()),
            Kind::File { types, .. } => {
                let message = format!("is {media_type}; must be of type {}", types.join(", "));
                Err(self.refused("types", message))
            }
            _ => Ok(()),
        }
    }

    fn refused(&self, rule: &str, message: String) -> Error {
        Error::invalid(vec![violation(&self.field, ValueRef::Null, rule, message)])
    }
}

/// A file that is being uploaded, at constant memory. If it is dropped before
/// [`FileUpload::finish`], its bytes are removed.
///
/// ```
/// # use marmota_files::{FileLimits, FileStorage};
/// # fn example(storage: &FileStorage, table: &marmota_model::Table) {
/// # let future = async {
/// let limits = FileLimits::new(table, "attachment")?;
/// let mut upload = storage.upload(limits, "report.csv", "text/csv")?;
/// upload.write("id,name\n").await?;
/// let file = upload.finish().await?;
/// println!("{} bytes of type {}", file.bytes, file.content_type);
/// # Ok::<(), marmota_model::Error>(())
/// # };
/// # }
/// ```
#[derive(Debug)]
pub struct FileUpload {
    staged: Arc<StagedFiles>,
    limits: FileLimits,
    writer: ObjectWriter,
    id: Uuid,
    name: String,
    declared: String,
    /// The type, once enough bytes have arrived.
    media_type: Option<String>,
    /// The first bytes, until they determine the type.
    head: Vec<u8>,
    bytes: u64,
}

impl FileUpload {
    pub(crate) fn new(
        space: &Arc<Space>,
        staged: &Arc<StagedFiles>,
        limits: FileLimits,
        name: &str,
        declared: &str,
    ) -> Result<Self> {
        let id = random_id()?;
        Ok(Self {
            staged: Arc::clone(staged),
            limits,
            writer: ObjectWriter::new(space, file_object(id), OnDrop::Discard)?,
            id,
            name: clean_name(name),
            declared: declared.to_owned(),
            media_type: None,
            head: Vec::new(),
            bytes: 0,
        })
    }

    /// Writes bytes, as soon as the storage has taken earlier ones.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the rule `bytes_max` or `types`; an error of the storage. The
    /// upload is then to be dropped.
    pub async fn write(&mut self, bytes: impl Into<Bytes>) -> Result<()> {
        let bytes = bytes.into();
        self.bytes += bytes.len() as u64;
        self.limits.check_bytes(self.bytes)?;
        if self.media_type.is_some() {
            return self.writer.write(bytes).await;
        }
        self.head.extend_from_slice(&bytes);
        match self.head.len() < HEAD_BYTES {
            true => Ok(()),
            false => self.write_head().await,
        }
    }

    /// Determines the type by the first bytes, and writes these.
    async fn write_head(&mut self) -> Result<()> {
        let media_type = media_type::of(&self.head, &self.declared);
        self.limits.check_type(&media_type)?;
        self.media_type = Some(media_type);
        match std::mem::take(&mut self.head) {
            head if head.is_empty() => Ok(()),
            head => self.writer.write(head.into()).await,
        }
    }

    /// Completes the upload: the bytes are on the disk. The file has to be written to its row next.
    ///
    /// # Errors
    /// As for [`FileUpload::write`].
    pub async fn finish(mut self) -> Result<File> {
        if self.media_type.is_none() {
            self.write_head().await?;
        }
        let written = self.writer.finish(None).await?;
        let file = File {
            id: self.id,
            name: self.name,
            content_type: self.media_type.unwrap_or_default(),
            bytes: written.bytes,
            sha256: hex(&written.sha256),
            created: Timestamp::now(),
        };
        let (table, field) = self.limits.place();
        self.staged.stage(table, field, &file);
        Ok(file)
    }
}

/// Returns a random id: who does not know it cannot guess it.
pub(crate) fn random_id() -> Result<Uuid> {
    let mut bytes = [0; 16];
    let failed = |error| Error::new(ErrorKind::Io, format!("no random numbers: {error}"));
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(Uuid::from_bytes(bytes))
}

/// The maximum length of a file's name in bytes, as file systems have it.
const NAME_BYTES_MAX: usize = 255;

/// Returns the name of a file as it is stored: without folders and control characters, which no
/// client needs, and of limited length. Its end is kept, which has the file's extension.
fn clean_name(name: &str) -> String {
    let base = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let clean: String = base.chars().filter(|letter| !letter.is_control()).collect();
    let clean = clean.trim();
    let from = clean.len().saturating_sub(NAME_BYTES_MAX);
    let from = (from..=clean.len()).find(|at| clean.is_char_boundary(*at)).unwrap_or(0);
    match &clean[from..] {
        "" | "." | ".." => "file".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::clean_name;

    #[test]
    fn names_are_harmless() {
        for (name, clean) in [
            ("photo.jpg", "photo.jpg"),
            ("../../etc/passwd", "passwd"),
            ("C:\\Users\\ada\\a.txt", "a.txt"),
            ("..", "file"),
            ("", "file"),
            ("a\0b\r\nc.txt", "abc.txt"),
            ("Ärger 🦫.png", "Ärger 🦫.png"),
        ] {
            assert_eq!(clean_name(name), clean, "{name:?}");
        }
        let long = clean_name(&format!("{}.txt", "é".repeat(300)));
        assert!(long.len() <= 255 && long.ends_with("é.txt"), "{long}");
    }
}
