//! Items as lines of JSON, each terminated by a newline (NDJSON): the encoding of streams of items
//! on every transport.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_lite::stream::Stream;
use marmota_model::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::chunk_stream::ChunkStream;
use super::expected::Expected;
use super::lines::{Lines, put};
use super::stream::ItemStream;

/// The size of buffered lines at which they are sent.
const GATHERED_BYTES: usize = 16 * 1024;
/// How long lines are buffered: slow items are sent one by one.
const GATHERED_FOR: Duration = Duration::from_millis(1);

/// An encoder of items to lines.
pub(crate) struct Encoding<T> {
    items: ItemStream<T>,
    /// The error to return after the lines that were already returned.
    fault: Option<Error>,
}

impl<T> Encoding<T> {
    pub(crate) fn new(items: ItemStream<T>) -> Self {
        Self { items, fault: None }
    }
}

impl<T: Serialize> Stream for Encoding<T> {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(error) = self.fault.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let (mut lines, mut begun) = (Vec::new(), None::<Instant>);
        let ended = loop {
            match Pin::new(&mut self.items).poll_next(context) {
                Poll::Ready(Some(Ok(item))) => match serde_json::to_vec(&item) {
                    Ok(json) => put(&mut lines, &json),
                    Err(error) => {
                        // The error ends the stream.
                        self.items.end();
                        let message = format!("an item cannot be written as JSON: {error}");
                        break Poll::Ready(Some(Err(Error::new(ErrorKind::Bug, message))));
                    }
                },
                Poll::Ready(Some(Err(error))) => break Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => break Poll::Ready(None),
                Poll::Pending => break Poll::Pending,
            }
            let is_due = begun.get_or_insert_with(Instant::now).elapsed() >= GATHERED_FOR;
            if is_due || lines.len() >= GATHERED_BYTES {
                return Poll::Ready(Some(Ok(lines)));
            }
        };
        if lines.is_empty() {
            return ended;
        }
        // An ended stream returns its end again, but an error must be kept.
        if let Poll::Ready(Some(Err(error))) = ended {
            self.fault = Some(error);
        }
        Poll::Ready(Some(Ok(lines)))
    }
}

/// A decoder of lines to items.
pub(crate) struct Decoding<T> {
    pieces: ChunkStream,
    lines: Lines,
    /// The number of items so far.
    count: u64,
    has_ended: bool,
    expected: Expected,
    item: std::marker::PhantomData<fn() -> T>,
}

impl<T> Decoding<T> {
    pub(crate) fn new(pieces: ChunkStream, expected: Expected) -> Self {
        let (lines, item) = (Lines::default(), std::marker::PhantomData);
        Self { pieces, lines, count: 0, has_ended: false, expected, item }
    }
}

impl<T: DeserializeOwned> Stream for Decoding<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { pieces, lines, count, has_ended, expected, .. } = &mut *self;
        loop {
            let line = if lines.has_line() {
                lines.next()
            } else if *has_ended {
                if lines.begun() == 0 {
                    return Poll::Ready(None);
                }
                lines.last()
            } else if lines.begun() > expected.item_bytes_max {
                return Poll::Ready(Some(Err(expected.too_large(*count + 1))));
            } else {
                match Pin::new(&mut *pieces).poll_next(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(None) => *has_ended = true,
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                    Poll::Ready(Some(Ok(piece))) => lines.push(&piece),
                }
                continue;
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            *count += 1;
            if line.len() > expected.item_bytes_max {
                return Poll::Ready(Some(Err(expected.too_large(*count))));
            }
            let text = std::str::from_utf8(line).map_err(|error| error.to_string());
            let item = text
                .and_then(|text| serde_json::from_str(text).map_err(|error| without_place(&error)));
            return Poll::Ready(Some(item.map_err(|why| expected.misfit(*count, line, &why))));
        }
    }
}

/// The position in the text is omitted: the message shows the value.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::block_on;
    use futures_lite::stream;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    fn expected(item_bytes_max: usize) -> Expected {
        let (what, stream_bytes_max) = ("it".to_owned(), u64::MAX);
        Expected { what, fault: ErrorKind::Invalid, item_bytes_max, stream_bytes_max }
    }

    /// Decodes bytes that are cut into pieces of a given length.
    fn decoded<T>(bytes: &[u8], length: usize, item_bytes_max: usize) -> (Vec<T>, Option<Error>)
    where
        T: DeserializeOwned + Serialize,
    {
        let pieces: Vec<_> = bytes.chunks(length).map(|piece| Ok(piece.to_vec())).collect();
        let pieces = ChunkStream::new(stream::iter(pieces));
        let mut decoding = Decoding::new(pieces, expected(item_bytes_max));
        let mut items = Vec::new();
        loop {
            let next = |context: &mut Context<'_>| Pin::new(&mut decoding).poll_next(context);
            match block_on(std::future::poll_fn(next)) {
                Some(Ok(item)) => items.push(item),
                Some(Err(error)) => return (items, Some(error)),
                None => return (items, None),
            }
        }
    }

    fn encoded<T: Serialize + Clone + Send + 'static>(items: &[T]) -> Vec<u8> {
        let mut encoding = Encoding::new(ItemStream::iter(items.to_vec()));
        let mut bytes = Vec::new();
        let mut next =
            || block_on(std::future::poll_fn(|context| Pin::new(&mut encoding).poll_next(context)));
        while let Some(piece) = next() {
            bytes.extend(piece.unwrap());
        }
        bytes
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_however_it_is_cut(
            items in proptest::collection::vec(any::<(i64, Option<String>)>(), 0..40),
            length in 1_usize..300,
        ) {
            let bytes = encoded(&items);
            prop_assert_eq!(bytes.iter().filter(|&&byte| byte == b'\n').count(), items.len());
            let (read, error) = decoded::<(i64, Option<String>)>(&bytes, length, 1 << 20);
            prop_assert!(error.is_none(), "{:?}", error);
            prop_assert_eq!(read, items);
        }

        #[test]
        fn strangers_do_no_harm(bytes: Vec<u8>, length in 1_usize..20, item_bytes_max in 0_usize..40) {
            let (items, error) = decoded::<serde_json::Value>(&bytes, length, item_bytes_max);
            // Refused items were reported; accepted items respect the limit.
            let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
            let lines: Vec<&[u8]> = lines.collect();
            prop_assert!(error.is_some() || items.len() == lines.len());
            prop_assert!(lines.iter().take(items.len()).all(|line| line.len() <= item_bytes_max));
        }
    }

    #[test]
    fn an_item_is_a_line_whatever_is_in_it() {
        let raw = RawValue::from_string("{\n  \"a\": \"x\\n\"\n}".to_owned()).unwrap();
        let bytes = encoded(&[raw.clone(), raw]);
        assert_eq!(bytes, b"{   \"a\": \"x\\n\" }\n{   \"a\": \"x\\n\" }\n");
        let (read, error) = decoded::<Box<RawValue>>(&bytes, 3, 100);
        assert!(error.is_none() && read.len() == 2);
    }
}
