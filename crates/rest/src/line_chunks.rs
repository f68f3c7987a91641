//! The lines of a body, gathered to chunks as they come: what is carried out together.

use std::ops::Range;
use std::task::Poll;

use marmota_http::{BodyReader, Request, Status};
use marmota_model::{Error, ErrorKind};

use crate::ndjson::{Line, Lines, TooLong};
use crate::problem::{ApiError, Result};

/// Lines in a chunk.
pub(crate) const CHUNK_LINES: usize = 1_000;
/// A chunk ends when its lines take this much, however few they are.
const CHUNK_BYTES: usize = 256 * 1024;
/// Bytes of empty lines behind those of a chunk that are kept while more may come.
const EMPTY_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of empty lines that may follow one another where no line is waited for.
const BLANK_BYTES_MAX: usize = 1024 * 1024;

/// What ends a chunk beside its lines and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nothing: the same body has the same chunks, however it comes.
    Full,
    /// That nothing more has come: who sends waits for an answer perhaps.
    Idle,
}

/// A chunk at a time.
pub(crate) struct LineChunks {
    reader: BodyReader,
    bytes: Vec<u8>,
    lines: Lines,
    line_bytes_max: usize,
    chunk: Vec<Line>,
    cut: Cut,
    ended: bool,
    /// Bytes of empty lines since the last one with something in it.
    blank: usize,
}

impl LineChunks {
    pub(crate) fn new(request: &Request, line_bytes_max: usize, cut: Cut) -> Self {
        Self {
            reader: request.reader(),
            bytes: Vec::new(),
            lines: Lines::new(line_bytes_max),
            line_bytes_max,
            chunk: Vec::new(),
            cut,
            ended: false,
            blank: 0,
        }
    }

    /// Gathers the next chunk, in the place of the one before; false if there is none.
    ///
    /// # Errors
    /// A body that breaks off, or a line that is too long, once all lines before it were given.
    pub(crate) async fn next(&mut self) -> Result<bool> {
        self.chunk.clear();
        self.blank = 0;
        self.lines.cut(&mut self.bytes);
        loop {
            loop {
                if self.is_full() {
                    return Ok(true);
                }
                match self.lines.next(&self.bytes, self.ended) {
                    Ok(Some(line)) => self.chunk.push(line),
                    Ok(None) => break,
                    Err(TooLong(number)) if self.chunk.is_empty() => {
                        return Err(self.too_long().at_line(number));
                    }
                    Err(TooLong(_)) => return Ok(true),
                }
            }
            if self.chunk.is_empty() {
                self.blank += self.lines.taken();
                self.lines.cut(&mut self.bytes);
                if self.blank > BLANK_BYTES_MAX {
                    return Err(too_blank());
                }
            }
            if self.ended {
                return Ok(!self.chunk.is_empty());
            }
            match self.read().await {
                Some(read) => self.ended = read? == 0,
                None => return Ok(true),
            }
        }
    }

    /// Takes what has come; none if it is time for what is there already.
    async fn read(&mut self) -> Option<Result<usize>> {
        let Self { reader, bytes, chunk, cut, .. } = self;
        let may_wait = *cut == Cut::Full || chunk.is_empty();
        std::future::poll_fn(|context| match reader.poll_read(context, bytes) {
            Poll::Pending if !may_wait => Poll::Ready(None),
            read => read.map(|read| Some(read.map_err(ApiError::from))),
        })
        .await
    }

    /// Judged by the lines that it has, so that it does not depend on how they come; but lines
    /// without an end that have nothing in them end it too.
    fn is_full(&self) -> bool {
        let Some(last) = self.chunk.last() else { return false };
        self.chunk.len() == CHUNK_LINES
            || last.end >= CHUNK_BYTES
            || self.lines.taken() >= last.end + EMPTY_BYTES_MAX
    }

    /// Has no chunk follow.
    pub(crate) fn stop(&mut self) {
        self.bytes.clear();
        self.lines = Lines::new(self.line_bytes_max);
        self.ended = true;
    }

    /// Lines in the chunk.
    pub(crate) const fn len(&self) -> usize {
        self.chunk.len()
    }

    /// The number of a line of the chunk.
    pub(crate) fn number(&self, index: usize) -> u64 {
        self.chunk[index].number
    }

    /// Lines of the chunk.
    pub(crate) fn texts(&self, of: Range<usize>) -> Vec<&[u8]> {
        self.chunk[of].iter().map(|line| &self.bytes[line.start..line.end]).collect()
    }

    fn too_long(&self) -> ApiError {
        let message = format!("a line takes {} bytes at most", self.line_bytes_max);
        ApiError::from(Error::new(ErrorKind::Invalid, message))
            .with_status(Status::CONTENT_TOO_LARGE)
    }
}

#[cold]
fn too_blank() -> ApiError {
    let message = format!("more than {BLANK_BYTES_MAX} bytes of empty lines follow one another");
    ApiError::from(Error::new(ErrorKind::Invalid, message)).with_status(Status::CONTENT_TOO_LARGE)
}
