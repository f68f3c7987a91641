//! The arguments that a stub writes.

use marmota_model::{Error, ErrorKind, Result};

use crate::transfer::{ChunkStream, Reply, Transfer};

/// The arguments written by a stub: a JSON object, by name.
#[derive(Debug)]
pub struct Written {
    json: Vec<u8>,
    streams: Vec<ChunkStream>,
    fault: Option<Error>,
}

impl Default for Written {
    fn default() -> Self {
        Self::new()
    }
}

impl Written {
    /// Creates an empty list of arguments.
    #[must_use]
    pub fn new() -> Self {
        Self { json: b"{".to_vec(), streams: Vec::new(), fault: None }
    }

    /// Adds an argument.
    #[must_use]
    pub fn put<T: Transfer>(mut self, name: &str, value: T) -> Self {
        if self.json.len() > 1 {
            self.json.push(b',');
        }
        marmota_model::json::write_string(&mut self.json, name);
        self.json.push(b':');
        match value.into_reply() {
            Ok(Reply::Value(json)) => self.json.extend_from_slice(&json),
            Ok(Reply::Stream(pieces)) => {
                self.json.extend_from_slice(self.streams.len().to_string().as_bytes());
                self.streams.push(pieces);
            }
            Err(error) => {
                let message = format!("parameter `{name}` cannot be written as JSON: {error}");
                self.fault.get_or_insert(Error::new(ErrorKind::Invalid, message));
            }
        }
        self
    }

    /// Returns the arguments as JSON, and the streams that the numbers in it refer to.
    ///
    /// # Errors
    /// If an argument could not be serialized.
    pub(crate) fn into_parts(mut self) -> Result<(Vec<u8>, Vec<ChunkStream>)> {
        match self.fault {
            Some(error) => Err(error),
            None => {
                self.json.push(b'}');
                Ok((self.json, self.streams))
            }
        }
    }
}
