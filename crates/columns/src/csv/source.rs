//! The input of CSV: a file or bytes in memory, read at any offset by several threads.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};

/// A file, or bytes.
pub(crate) enum Source<'a> {
    File { file: File, name: String, length: u64 },
    Bytes(&'a [u8]),
}

impl Source<'_> {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let opened = File::open(path).and_then(|file| {
            let metadata = file.metadata()?;
            Ok((file, metadata))
        });
        let (file, metadata) = opened.map_err(|error| failed(&name, error))?;
        if !metadata.is_file() {
            // A pipe has no length and can be read only once.
            let message = format!(
                "{name} is not a regular file; read the content and use \
                                   `csv::read`"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(Self::File { file, name, length: metadata.len() })
    }

    /// Returns the name for error messages.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::File { name, .. } => name,
            Self::Bytes(_) => "CSV",
        }
    }

    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::File { length, .. } => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Reads up to `into.len()` bytes; fewer only at the end. A file that grows meanwhile is read
    /// up to its original length.
    pub(crate) fn read(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        let left = self.length().saturating_sub(offset);
        let wanted = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let into = &mut into[..wanted];
        match self {
            Self::Bytes(bytes) => {
                let start = bytes.len().min(offset as usize);
                into.copy_from_slice(&bytes[start..start + wanted]);
                Ok(wanted)
            }
            Self::File { file, name, .. } => {
                let mut done = 0;
                while done < wanted {
                    match file.read_at(&mut into[done..], offset + done as u64) {
                        Ok(0) => {
                            let message = format!("{name} was truncated while it was read");
                            return Err(Error::new(ErrorKind::Io, message));
                        }
                        Ok(read) => done += read,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(failed(name, error)),
                    }
                }
                Ok(wanted)
            }
        }
    }

    /// Returns the line of an offset and the character within the line, both from 1.
    pub(crate) fn place(&self, offset: u64) -> (u64, usize) {
        let (mut line, mut line_start, mut at) = (1, 0, 0);
        let mut buffer = vec![0; 1 << 16];
        while at < offset {
            let Ok(read @ 1..) = self.read(&mut buffer, at) else { break };
            let before = read.min(usize::try_from(offset - at).unwrap_or(read));
            for end in memchr::memchr_iter(b'\n', &buffer[..before]) {
                (line, line_start) = (line + 1, at + end as u64 + 1);
            }
            at += before as u64;
        }
        // Characters are counted only up to 64 kB into a line.
        buffer.truncate(usize::try_from(offset - line_start).map_or(0, |bytes| bytes.min(1 << 16)));
        let read = self.read(&mut buffer, line_start).unwrap_or_default();
        let text = String::from_utf8_lossy(&buffer[..read]);
        let text = text.strip_prefix('\u{feff}').filter(|_| line_start == 0).unwrap_or(&text);
        (line, text.chars().count() + 1)
    }
}

#[cold]
fn failed(name: &str, error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("cannot read {name}: {error}")).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_lines_and_characters() {
        let source = Source::Bytes("\u{feff}a,b\nçà,d\n".as_bytes());
        assert_eq!(source.place(3), (1, 1));
        assert_eq!(source.place(5), (1, 3));
        assert_eq!(source.place(7), (2, 1));
        assert_eq!(source.place(12), (2, 4));
    }
}
