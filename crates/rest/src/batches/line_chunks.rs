//! The lines of a body, grouped into chunks as they arrive. A chunk is executed as one unit.
//!
//! ```text
//! {"insert":"person","row":{"name":"Mary Ward"}}     line 1 ┐
//!                                                    line 2 │ a chunk: at most 1,000 lines
//! {"delete":"person","key":99}                       line 3 ┘ or about 256 KiB
//! {"delete":"person","key":7}                        line 4   the next chunk
//! ```
//!
//! Empty lines are counted, so that errors name the line that an editor shows, but they are not
//! part of a chunk.
//!
//! With [`Cut::Full`] the boundaries depend only on the bytes of the body. A repeated request with
//! an idempotency key then has the same chunks as the first one, even if its packets arrive
//! differently.
//!
//! All limits are on bytes in memory: the length of a line, the lines of a chunk, and empty lines
//! between two others. A body of any length needs the memory of one chunk and one incomplete line.

use std::ops::Range;
use std::task::Poll;

use marmota_http::{BodyReader, Request, Status};
use marmota_model::{Error, ErrorKind};
use marmota_web::{ApiError, ApiResult};

use crate::protocol::ndjson::{Line, Lines, TooLong};
use crate::protocol::refusal::at_line;

/// The maximum number of lines in a chunk.
pub(crate) const CHUNK_LINES: usize = 1_000;
/// A chunk ends when its lines have this size, even if they are few.
const CHUNK_BYTES: usize = 256 * 1024;
/// The maximum size of empty lines that are kept after those of a chunk while more may arrive.
const EMPTY_BYTES_MAX: usize = 1024 * 1024;
/// The maximum size of consecutive empty lines while the chunk is empty.
const BLANK_BYTES_MAX: usize = 1024 * 1024;

/// The condition that ends a chunk, in addition to its number of lines and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// None: the same body always has the same chunks, independent of its timing.
    Full,
    /// No more data is available: the client may be waiting for a response.
    Idle,
}

/// The chunks of a body, one at a time.
///
/// The lines stay in the buffer into which they are read; a chunk is a list of ranges of it. The
/// bytes of a chunk are removed when the next one is requested.
pub(crate) struct LineChunks {
    reader: BodyReader,
    /// The bytes that were read and not removed: the chunk, and the beginning of the next one.
    bytes: Vec<u8>,
    lines: Lines,
    line_bytes_max: usize,
    /// The lines of the current chunk.
    chunk: Vec<Line>,
    cut: Cut,
    /// True if the body has no more bytes.
    ended: bool,
    /// The size of the empty lines since the last non-empty one.
    blank: usize,
}

impl LineChunks {
    /// Creates the chunks of a request's body, with the maximum length of a line in bytes.
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

    /// Reads the next chunk, which replaces the current one; returns false after the last. A chunk
    /// has at least one line.
    ///
    /// # Errors
    /// If the body is truncated, or 413 with the line's number if a line is too long. A line that
    /// is too long is reported after all earlier lines were returned, so that they are executed.
    pub(crate) async fn next(&mut self) -> ApiResult<bool> {
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
                        return Err(at_line(self.too_long(), number));
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

    /// Reads available data and returns its length, 0 at the end of the body. Returns `None` if the
    /// chunk must end now: nothing has arrived, and the client may be waiting for the chunk's
    /// response.
    async fn read(&mut self) -> Option<ApiResult<usize>> {
        let Self { reader, bytes, chunk, cut, .. } = self;
        let may_wait = *cut == Cut::Full || chunk.is_empty();
        std::future::poll_fn(|context| match reader.poll_read(context, bytes) {
            Poll::Pending if !may_wait => Poll::Ready(None),
            read => read.map(|read| Some(read.map_err(ApiError::from))),
        })
        .await
    }

    /// Returns true if the chunk is complete. This depends on its lines, not on their timing; many
    /// empty lines complete it, too.
    fn is_full(&self) -> bool {
        let Some(last) = self.chunk.last() else { return false };
        self.chunk.len() == CHUNK_LINES
            || last.end >= CHUNK_BYTES
            || self.lines.taken() >= last.end + EMPTY_BYTES_MAX
    }

    /// Discards the rest of the body: no chunk follows. A batch in lines stops when it fails as a
    /// whole.
    pub(crate) fn stop(&mut self) {
        self.bytes.clear();
        self.lines = Lines::new(self.line_bytes_max);
        self.ended = true;
    }

    /// Returns the number of lines in the chunk.
    pub(crate) const fn len(&self) -> usize {
        self.chunk.len()
    }

    /// Returns the line number of a line of the chunk, from 1, in the whole body.
    ///
    /// # Panics
    /// If the chunk has no line with this index.
    pub(crate) fn number(&self, index: usize) -> u64 {
        self.chunk[index].number
    }

    /// Returns lines of the chunk, without their newlines.
    ///
    /// # Panics
    /// If the range exceeds the chunk.
    pub(crate) fn texts(&self, of: Range<usize>) -> Vec<&[u8]> {
        self.chunk[of].iter().map(|line| &self.bytes[line.start..line.end]).collect()
    }

    /// Returns the 413 error for a line, with the permitted length.
    fn too_long(&self) -> ApiError {
        let message = format!("a line may have at most {} bytes", self.line_bytes_max);
        ApiError::from(Error::new(ErrorKind::Invalid, message))
            .with_status(Status::CONTENT_TOO_LARGE)
    }
}

/// Returns the 413 error for too many empty lines. They are limited because they extend neither a
/// chunk nor a line, and would keep a request busy without any operation.
#[cold]
fn too_blank() -> ApiError {
    let message = format!("there are more than {BLANK_BYTES_MAX} bytes of empty lines in a row");
    ApiError::from(Error::new(ErrorKind::Invalid, message)).with_status(Status::CONTENT_TOO_LARGE)
}
