//! The public stream types: bytes and items, as parameters and results.

use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_lite::stream::{self, Stream, StreamExt as _};
use marmota_model::{Error, ErrorKind, Result};

/// The number of bytes per read.
const READ_BYTES: usize = 16 * 1024;

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T>> + Send>>;

/// A stream of items, transferred as the receiver reads them: a parameter or the result of a
/// service's method.
///
/// It is a `futures_core::Stream` of [`Result`]s, and is created from one. The first error is its
/// last item. If the receiver drops it, the sender's end is dropped as well.
///
/// ```
/// use marmota_service::ItemStream;
///
/// # futures_lite::future::block_on(async {
/// let mut squares = ItemStream::iter((1..=3).map(|n| n * n));
/// let mut sum = 0;
/// while let Some(square) = squares.try_next().await? {
///     sum += square;
/// }
/// assert_eq!(sum, 14);
/// # Ok::<(), marmota_model::Error>(())
/// # })?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[must_use = "a stream does nothing unless it is passed on or read"]
pub struct ItemStream<T>(Option<Boxed<T>>);

impl<T> ItemStream<T> {
    /// Creates a stream from another. It is polled when there is room for an item.
    pub fn new(stream: impl Stream<Item = Result<T>> + Send + 'static) -> Self {
        Self(Some(Box::pin(stream)))
    }

    /// Creates a stream from an iterator. An iterator that blocks delays the sending thread: on a
    /// server the thread that executes the service, on a client the one that awaits the call.
    pub fn iter<I>(items: I) -> Self
    where
        I: IntoIterator<Item = T>,
        I::IntoIter: Send + 'static,
        T: 'static,
    {
        Self::try_iter(items.into_iter().map(Ok))
    }

    /// Creates a stream from an iterator that may fail.
    pub fn try_iter<I>(items: I) -> Self
    where
        I: IntoIterator<Item = Result<T>>,
        I::IntoIter: Send + 'static,
    {
        Self::new(stream::iter(items))
    }

    /// Creates a stream with a sender, and a buffer for up to `items` items.
    ///
    /// ```
    /// use marmota_service::ItemStream;
    ///
    /// # futures_lite::future::block_on(async {
    /// let (sender, items) = ItemStream::channel(8);
    /// std::thread::spawn(move || {
    ///     futures_lite::future::block_on(async {
    ///         for number in 0..100 {
    ///             sender.send(number).await?; // an error: nobody takes any more
    ///         }
    ///         sender.finish().await
    ///     })
    /// });
    /// assert_eq!(items.collect(100).await?, Vec::from_iter(0..100));
    /// # Ok::<(), marmota_model::Error>(())
    /// # })?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn channel(items: usize) -> (ItemSender<T>, Self)
    where
        T: Send + 'static,
    {
        let (sender, receiver) = async_channel::bounded(items.max(1));
        (
            ItemSender { sender },
            Self::new(Received { receiver: Box::pin(receiver), has_end: false }),
        )
    }

    /// Ends the stream: it returns nothing more.
    pub(crate) fn end(&mut self) {
        self.0 = None;
    }

    /// Returns the next item; `None` after the last.
    ///
    /// # Errors
    /// The sender's error, [`ErrorKind::Lost`] if the connection broke, [`ErrorKind::Timeout`] if
    /// nothing arrived in time. An error ends the stream.
    pub async fn try_next(&mut self) -> Result<Option<T>> {
        self.next().await.transpose()
    }

    /// Collects all items, up to `items_max`.
    ///
    /// # Errors
    /// As [`ItemStream::try_next`], and [`ErrorKind::Invalid`] if there are more.
    pub async fn collect(mut self, items_max: usize) -> Result<Vec<T>> {
        let mut items = Vec::new();
        while let Some(item) = self.try_next().await? {
            if items.len() >= items_max {
                let message = format!("the stream has more than {items_max} items");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            items.push(item);
        }
        Ok(items)
    }
}

impl<T> Stream for ItemStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        polled(&mut self.0, context)
    }
}

/// Polls a stream, and drops it as soon as it has ended.
fn polled<T>(stream: &mut Option<Boxed<T>>, context: &mut Context<'_>) -> Poll<Option<Result<T>>> {
    let Some(inner) = stream else { return Poll::Ready(None) };
    let polled = inner.as_mut().poll_next(context);
    if let Poll::Ready(None | Some(Err(_))) = polled {
        *stream = None;
    }
    polled
}

impl<T> std::fmt::Debug for ItemStream<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ItemStream")
    }
}

/// The sender of an [`ItemStream`]; see [`ItemStream::channel`]. If it is dropped without
/// [`ItemSender::finish`], the stream ends with an error.
pub struct ItemSender<T> {
    sender: async_channel::Sender<Sent<T>>,
}

enum Sent<T> {
    Item(T),
    End(Result<()>),
}

impl<T> ItemSender<T> {
    /// Sends an item, once there is room for it.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if the receiver was dropped.
    pub async fn send(&self, item: T) -> Result<()> {
        self.put(Sent::Item(item)).await
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// As [`ItemSender::send`].
    pub async fn finish(self) -> Result<()> {
        self.put(Sent::End(Ok(()))).await
    }

    /// Ends the stream with an error.
    ///
    /// # Errors
    /// As [`ItemSender::send`].
    pub async fn fail(self, error: Error) -> Result<()> {
        self.put(Sent::End(Err(error))).await
    }

    async fn put(&self, sent: Sent<T>) -> Result<()> {
        let gone = |_| Error::new(ErrorKind::Closed, "the receiver of the stream is closed");
        self.sender.send(sent).await.map_err(gone)
    }
}

impl<T> std::fmt::Debug for ItemSender<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ItemSender")
    }
}

struct Received<T> {
    receiver: Pin<Box<async_channel::Receiver<Sent<T>>>>,
    has_end: bool,
}

impl<T> Stream for Received<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_end {
            return Poll::Ready(None);
        }
        self.receiver.as_mut().poll_next(context).map(|sent| match sent {
            Some(Sent::Item(item)) => Some(Ok(item)),
            Some(Sent::End(end)) => {
                self.has_end = true;
                end.err().map(Err)
            }
            None => {
                self.has_end = true;
                let message = "the stream's sender was dropped before its end";
                Some(Err(Error::new(ErrorKind::Bug, message)))
            }
        })
    }
}

/// A stream of bytes, transferred as the receiver reads them: a parameter or the result of a
/// service's method, for example a file. The boundaries of its pieces have no meaning.
///
/// It is a `futures_core::Stream` of [`Result`]s, and is created from one. The first error is its
/// last item. If the receiver drops it, the sender's end is dropped as well.
///
/// ```
/// use marmota_service::ByteStream;
///
/// # futures_lite::future::block_on(async {
/// let bytes = ByteStream::from("some text");
/// assert_eq!(bytes.collect(1_000).await?, b"some text");
/// # Ok::<(), marmota_model::Error>(())
/// # })?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[must_use = "a stream does nothing unless it is passed on or read"]
pub struct ByteStream(Option<Boxed<Vec<u8>>>);

impl ByteStream {
    /// Creates a stream from a stream of pieces.
    pub fn new(stream: impl Stream<Item = Result<Vec<u8>>> + Send + 'static) -> Self {
        Self(Some(Box::pin(stream)))
    }

    /// Creates a stream from a blocking reader, for example a file. Reading delays the sending
    /// thread: on a server the thread that executes the service, on a client the one that awaits
    /// the call.
    pub fn read(mut from: impl Read + Send + 'static) -> Self {
        let pieces = std::iter::from_fn(move || {
            let mut piece = vec![0; READ_BYTES];
            loop {
                match from.read(&mut piece) {
                    Ok(0) => return None,
                    Ok(count) => {
                        piece.truncate(count);
                        return Some(Ok(piece));
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Some(Err(error.into())),
                }
            }
        });
        Self::new(stream::iter(pieces))
    }

    /// Returns the next piece, which is not empty; `None` after the last.
    ///
    /// # Errors
    /// As [`ItemStream::try_next`].
    pub async fn try_next(&mut self) -> Result<Option<Vec<u8>>> {
        self.next().await.transpose()
    }

    /// Collects all bytes, up to `bytes_max`.
    ///
    /// # Errors
    /// As [`ItemStream::try_next`], and [`ErrorKind::Invalid`] if there are more.
    pub async fn collect(mut self, bytes_max: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.try_next().await? {
            if piece.len() > bytes_max - bytes.len() {
                let message = format!("the stream has more than {bytes_max} bytes");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }
}

impl Stream for ByteStream {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match polled(&mut self.0, context) {
                Poll::Ready(Some(Ok(piece))) if piece.is_empty() => {}
                polled => return polled,
            }
        }
    }
}

impl From<Vec<u8>> for ByteStream {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(stream::once(Ok(bytes)))
    }
}

impl From<&[u8]> for ByteStream {
    fn from(bytes: &[u8]) -> Self {
        bytes.to_vec().into()
    }
}

impl From<String> for ByteStream {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<&str> for ByteStream {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl std::fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ByteStream")
    }
}
