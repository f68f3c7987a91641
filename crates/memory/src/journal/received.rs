//! The log of a replica: bytes of its primary's log, of which complete records become payloads.
//!
//! The bytes come in pieces that may end within a record. They are written to the log of the replica as
//! they are, so that a replica has the same files as its primary.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result};

use super::log_file::unseal;
use super::record::{self, Head, HeadFault, Identity, LogBytes};
use super::replay::Replay;
use crate::data_file::replace::failed;
use crate::encryption::file_encryption::{Cipher, FileEncryption};
use crate::encryption::seal::Use;

/// A payload that was received: the bytes that have it, and its place in them.
type ReceivedPayload = (Arc<Vec<u8>>, Range<usize>);

/// The log that is received.
pub(crate) struct ReceivedLog {
    identity: Identity,
    /// The head, once it is complete, and the cipher of sealed records.
    head: Option<(Head, Option<Cipher>)>,
    /// The bytes that are not complete records, and their position.
    rest: Vec<u8>,
    begin: u64,
    /// The payloads that were not applied yet.
    pub(crate) payloads: VecDeque<ReceivedPayload>,
    /// The tables of the records, and the changes of tables that no model has.
    pub(crate) replay: Replay,
}

impl ReceivedLog {
    /// Creates a log of which nothing was received.
    pub(super) fn new(identity: Identity, replay: Replay) -> Self {
        let (rest, payloads) = (Vec::new(), VecDeque::new());
        Self { identity, head: None, rest, begin: 0, payloads, replay }
    }

    /// Creates a log that is continued at a position, after a record of the file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if its head cannot be read; that of the key.
    pub(super) fn after(
        path: &Path,
        identity: Identity,
        position: u64,
        replay: Replay,
        encryption: &FileEncryption,
    ) -> Result<Self> {
        let mut bytes = Vec::new();
        let head = File::open(path)
            .and_then(|file| file.take(record::SEALED_HEAD_BYTES as u64).read_to_end(&mut bytes));
        head.map_err(|error| failed("read", path, error))?;
        let mut log = Self { rest: bytes, ..Self::new(identity, replay) };
        log.read_head(path, encryption)?;
        (log.rest, log.begin) = (Vec::new(), position);
        Ok(log)
    }

    /// Begins the next log of the primary.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] if the current one is not complete.
    pub(crate) fn begin(&mut self, log: u64) -> Result<()> {
        if !self.rest.is_empty() || !self.payloads.is_empty() {
            return Err(self.damaged(self.begin));
        }
        let identity = Identity { generation: log, ..self.identity };
        *self = Self::new(identity, std::mem::take(&mut self.replay));
        Ok(())
    }

    /// Adds bytes, whose complete records become payloads.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] for bytes that are not records of this log; that of the key.
    pub(crate) fn add(
        &mut self,
        path: &Path,
        bytes: &[u8],
        encryption: &FileEncryption,
    ) -> Result<()> {
        self.rest.extend_from_slice(bytes);
        if self.head.is_none() && !self.read_head(path, encryption)? {
            return Ok(());
        }
        let log = LogBytes { bytes: &self.rest, begin: self.begin };
        let Some((found, end)) = record::received(log, self.identity) else {
            return Err(self.damaged(self.begin));
        };
        let rest = self.rest.split_off(end);
        let mut complete = std::mem::replace(&mut self.rest, rest);
        let begin = self.begin;
        self.begin += end as u64;
        let mut payloads = Vec::with_capacity(found.len());
        for payload in found {
            let cipher = self.head.as_ref().and_then(|(_, cipher)| cipher.as_ref());
            let opened = match cipher {
                None => Some(payload.clone()),
                Some(cipher) => unseal(&mut complete, begin, &payload, cipher),
            };
            payloads.push(opened.ok_or_else(|| self.damaged(begin + payload.start as u64))?);
        }
        let complete = Arc::new(complete);
        self.payloads.extend(payloads.into_iter().map(|at| (Arc::clone(&complete), at)));
        Ok(())
    }

    /// Reads the head from the first bytes. Returns false if they are too few.
    fn read_head(&mut self, path: &Path, encryption: &FileEncryption) -> Result<bool> {
        let head = match record::read_head(&self.rest) {
            Ok(head) if head.identity == self.identity => head,
            Err(HeadFault::Torn) => return Ok(false),
            _ => return Err(self.damaged(0)),
        };
        let cipher = match head.is_sealed {
            true => {
                let sealed = &self.rest[..head.sealed_bytes()];
                Some(encryption.open(path, Use::Log, sealed)?)
            }
            false => encryption.check_plain(path).map(|()| None)?,
        };
        self.rest.drain(..head.bytes);
        self.begin = head.bytes as u64;
        self.head = Some((head, cipher));
        Ok(true)
    }

    #[cold]
    fn damaged(&self, at: u64) -> Error {
        let message = format!(
            "log {} of the primary has bytes at {at} that are not its next record",
            self.identity.generation
        );
        Error::new(ErrorKind::Engine, message)
    }
}
