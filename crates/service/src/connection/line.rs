//! A client's successive connections to services of another process. One thread carries all links
//! of a process; connecting, which blocks, runs on a separate thread.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_executor::Executor;
use futures_lite::future::block_on;
use marmota_model::{Error, ErrorKind, Result};
use marmota_remote::Channel;
use marmota_store::backoff::Backoff;
use marmota_store::engine::Watch;

use crate::link::{LEAVE, Link, PATH, UPGRADE};
use crate::services::carrier::Carrier;

const CONNECTING_MAX: Duration = Duration::from_secs(5);
/// How long the client waits for the server to close a connection that the client leaves.
const LEAVING_MAX: Duration = Duration::from_secs(10);
/// The shortest and the longest pause between attempts to reconnect.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The parameters for connecting.
pub(crate) struct Line {
    pub(crate) url: String,
    pub(crate) credential: Vec<u8>,
    /// The CA certificates for the server, as PEM.
    pub(crate) ca_file: Option<PathBuf>,
    /// The first message of each connection.
    pub(crate) hello: Vec<u8>,
    /// How long the client tries to reconnect.
    pub(crate) reconnect_for: Option<Duration>,
}

/// Connects, and runs the link until it is ended.
pub(crate) fn keep(
    line: Line,
    link: &Link,
    carrier: impl Fn(&Link) -> Carrier + Send + 'static,
) -> Result<()> {
    let mut channel = line.connect()?;
    let (line, link) = (Arc::new(line), link.clone());
    let carried = async move {
        let mut backoff = Backoff::new(PAUSE, PAUSE_MAX);
        loop {
            link.connected(line.hello.clone());
            let (ended, has_heard) = carry(channel, carrier(&link)).await;
            match ended {
                Ok(()) => return,
                Err(error) => log::info!("a connection to services has ended: {error}"),
            }
            if has_heard {
                backoff.reset();
            }
            channel = match reconnected(&line, &link, &mut backoff).await {
                Some(channel) => channel,
                None => return link.end(),
            };
        }
    };
    executor()?.spawn(carried).detach();
    Ok(())
}

/// Runs a link until the link or the connection ends; also returns true if the peer has sent
/// anything.
async fn carry(mut channel: Channel, mut carrier: Carrier) -> (Result<()>, bool) {
    let (mut has_heard, mut leaving_until) = (false, None);
    let carried = std::future::poll_fn(|context| {
        loop {
            for message in carrier.go_on(context) {
                channel.send(&message)?;
            }
            if carrier.link.is_ended() {
                let leave = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{LEAVE}\",\"params\":[]}}");
                let until = *leaving_until.get_or_insert_with(|| {
                    // If it cannot be sent, the end of the connection has nearly the same meaning.
                    let _ = channel.send(leave.as_bytes());
                    Instant::now() + LEAVING_MAX
                });
                // The peer closes the connection. If this side closed it with unread data, it could
                // be reset before the peer reads the message.
                return match channel.poll(context, Some(until)) {
                    Poll::Ready(Ok(_)) => continue,
                    Poll::Pending if Instant::now() < until => Poll::Pending,
                    _ => Poll::Ready(Ok(())),
                };
            }
            match channel.poll(context, carrier.link.deadline()) {
                Poll::Ready(message) => carrier.take(&message?)?,
                Poll::Pending => return Poll::Pending,
            }
            has_heard = true;
        }
    });
    (carried.await, has_heard)
}

/// Tries to reconnect until it succeeds; returns `None` if the link has ended or the time is over.
async fn reconnected(line: &Arc<Line>, link: &Link, backoff: &mut Backoff) -> Option<Channel> {
    let watch = Arc::new(Watch::default());
    let until = line.reconnect_for.and_then(|time| Instant::now().checked_add(time));
    loop {
        let at = Instant::now() + backoff.pause();
        let paused = |_: &mut Context<'_>| match Instant::now() >= at {
            true => Poll::Ready(()),
            false => Poll::Pending,
        };
        meanwhile(link, &watch, Some(at), paused).await?;
        if until.is_some_and(|until| until <= Instant::now()) {
            let time = line.reconnect_for.unwrap_or_default();
            log::warn!("no server was found at {} within {time:?}", line.url);
            return None;
        }
        let mut connecting = Box::pin(line.connect_elsewhere());
        let connected = |context: &mut Context<'_>| connecting.as_mut().poll(context);
        match meanwhile(link, &watch, None, connected).await? {
            Ok(channel) => return Some(channel),
            Err(error) => {
                log::debug!("{} is not reached: {error}", line.url);
                link.unreached(error);
            }
        }
    }
}

/// Waits for something while disconnected; returns `None` if the link has ended.
async fn meanwhile<T>(
    link: &Link,
    watch: &Arc<Watch>,
    at: Option<Instant>,
    mut wanted: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    std::future::poll_fn(|context| {
        watch.look();
        if link.is_ended() {
            return Poll::Ready(None);
        }
        if let Poll::Ready(found) = wanted(context) {
            return Poll::Ready(Some(found));
        }
        link.expire();
        let next = link.carried_by(context.waker());
        watch.wake(context.waker());
        if let Some(next) = [next, at].into_iter().flatten().min() {
            watch.wake_at(next);
        }
        Poll::Pending
    })
    .await
}

impl Line {
    fn connect(&self) -> Result<Channel> {
        let ca_file = self.ca_file.as_deref();
        Channel::connect(&self.url, PATH, UPGRADE, &self.credential, ca_file, CONNECTING_MAX)
    }

    async fn connect_elsewhere(self: &Arc<Self>) -> Result<Channel> {
        let (tell, told) = async_channel::bounded(1);
        let line = Arc::clone(self);
        let connect = move || drop(tell.send_blocking(line.connect()));
        let thread = std::thread::Builder::new().name("marmota-connect".to_owned());
        let begun = thread.spawn(connect);
        let no_thread = |why: String| {
            let message = format!("the system gives no thread for connecting: {why}");
            Error::new(ErrorKind::Busy, message)
        };
        begun.map_err(|error| no_thread(error.to_string()))?;
        told.recv().await.unwrap_or_else(|error| Err(no_thread(error.to_string())))
    }
}

fn executor() -> Result<&'static Arc<Executor<'static>>> {
    static EXECUTOR: OnceLock<Option<Arc<Executor<'static>>>> = OnceLock::new();
    let executor = EXECUTOR.get_or_init(|| {
        let executor = Arc::new(Executor::new());
        let own = Arc::clone(&executor);
        let work = move || block_on(own.run(std::future::pending::<()>()));
        let thread = std::thread::Builder::new().name("marmota-services".to_owned());
        thread.spawn(work).is_ok().then_some(executor)
    });
    executor.as_ref().ok_or_else(|| {
        Error::new(ErrorKind::Busy, "the system gives no thread for connections; try again")
    })
}
