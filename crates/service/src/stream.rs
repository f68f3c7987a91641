//! Streams as users have them: of bytes and of items, as parameters and results.

use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_lite::stream::{self, Stream, StreamExt as _};
use marmota_model::{Error, ErrorKind, Result};

/// Bytes that are read at once.
const READ_BYTES: usize = 16 * 1024;

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T>> + Send>>;

/// Items that pass one after the other, as the receiver takes them: a parameter or the result of
/// a service's method.
///
/// It is a `futures_core::Stream` of [`Result`]s, and made of one. The first error is its last item.
/// A receiver that drops it has the sender's end dropped as well.
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
#[must_use = "it does nothing unless it is given or taken"]
pub struct ItemStream<T>(Option<Boxed<T>>);

impl<T> ItemStream<T> {
    /// Of a stream. It is asked for an item when there is room for one on the way.
    pub fn new(stream: impl Stream<Item = Result<T>> + Send + 'static) -> Self {
        Self(Some(Box::pin(stream)))
    }

    /// Of what an iterator gives. One that blocks holds up the thread that sends: on a server that
    /// of its service's execution, on a client the one that awaits the call.
    pub fn iter<I>(items: I) -> Self
    where
        I: IntoIterator<Item = T>,
        I::IntoIter: Send + 'static,
        T: 'static,
    {
        Self::try_iter(items.into_iter().map(Ok))
    }

    /// The same of an iterator that may fail.
    pub fn try_iter<I>(items: I) -> Self
    where
        I: IntoIterator<Item = Result<T>>,
        I::IntoIter: Send + 'static,
    {
        Self::new(stream::iter(items))
    }

    /// One that is written to from elsewhere, and holds up to so many items.
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

    /// Gives nothing more.
    pub(crate) fn end(&mut self) {
        self.0 = None;
    }

    /// The next item; none behind the last.
    ///
    /// # Errors
    /// What the sender ended it with, [`ErrorKind::Lost`] where the connection broke,
    /// [`ErrorKind::Timeout`] where nothing came in time. Nothing comes behind an error.
    pub async fn try_next(&mut self) -> Result<Option<T>> {
        self.next().await.transpose()
    }

    /// All items, up to a number.
    ///
    /// # Errors
    /// As [`ItemStream::try_next`], and [`ErrorKind::Invalid`] where there are more.
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

/// Polls a stream that is dropped as soon as it has ended.
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

/// Writes what an [`ItemStream`] gives; see [`ItemStream::channel`]. Dropped before
/// [`ItemSender::finish`], it ends the stream by an error.
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
    /// [`ErrorKind::Closed`] when nobody takes it.
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

    /// Ends the stream by an error.
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

/// Bytes that pass piece by piece, as the receiver takes them: a parameter or the result of a
/// service's method, a file for instance. How they are cut into pieces says nothing.
///
/// It is a `futures_core::Stream` of [`Result`]s, and made of one. The first error is its last item.
/// A receiver that drops it has the sender's end dropped as well.
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
#[must_use = "it does nothing unless it is given or taken"]
pub struct ByteStream(Option<Boxed<Vec<u8>>>);

impl ByteStream {
    /// Of a stream of pieces.
    pub fn new(stream: impl Stream<Item = Result<Vec<u8>>> + Send + 'static) -> Self {
        Self(Some(Box::pin(stream)))
    }

    /// Of what blocks while it is read, a file for instance: that holds up the thread that sends, on
    /// a server that of its service's execution, on a client the one that awaits the call.
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

    /// The next piece, which has at least a byte; none behind the last.
    ///
    /// # Errors
    /// As [`ItemStream::try_next`].
    pub async fn try_next(&mut self) -> Result<Option<Vec<u8>>> {
        self.next().await.transpose()
    }

    /// All bytes, up to a number.
    ///
    /// # Errors
    /// As [`ItemStream::try_next`], and [`ErrorKind::Invalid`] where there are more.
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
