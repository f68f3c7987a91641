//! A client's successive connections to services of another process. One thread carries all
//! connections of a process; connecting, which blocks, runs on helper threads.

use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_executor::Executor;
use futures_lite::future::block_on;
use marmota_model::{Error, ErrorKind, Result};
use marmota_rpc::{ConnectThreads, Connection, Connector, Reconnect};
use marmota_store::engine::Watch;

use crate::link::{LEAVE, Link};
use crate::services::carrier::Carrier;

const CONNECTING_MAX: Duration = Duration::from_secs(5);
/// How long the client waits for the server to close a connection that the client leaves.
const LEAVING_MAX: Duration = Duration::from_secs(10);
/// The shortest and the longest pause between attempts to reconnect.
const PAUSES: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(2);

/// The parameters of a client's connections.
pub(crate) struct Connections {
    pub(crate) connector: Connector,
    /// The first message of each connection.
    pub(crate) hello: Vec<u8>,
    /// How long the client tries to reconnect.
    pub(crate) reconnect_for: Option<Duration>,
}

impl Connections {
    /// Connects, and runs the link on one connection after the other until it is ended.
    pub(crate) fn keep(
        self,
        link: &Link,
        carrier: impl Fn(&Link) -> Carrier + Send + 'static,
    ) -> Result<()> {
        let mut connection = self.connector.connect(&[], CONNECTING_MAX)?;
        let link = link.clone();
        let kept = async move {
            let threads = Arc::default();
            let mut reconnect = Reconnect::new(PAUSES, self.reconnect_for);
            loop {
                link.connected(self.hello.clone());
                let (ended, has_received) = carry(connection, carrier(&link)).await;
                match ended {
                    Ok(()) => break,
                    Err(error) => log::info!("a connection to services was closed: {error}"),
                }
                if has_received {
                    reconnect.reset();
                }
                reconnect.begin(Instant::now());
                connection = match self.reconnected(&threads, &link, &mut reconnect).await {
                    Some(connection) => connection,
                    None => {
                        link.end();
                        break;
                    }
                };
            }
            threads.dismiss();
        };
        executor()?.spawn(kept).detach();
        Ok(())
    }

    /// Tries to reconnect until it succeeds; returns `None` if the link has ended or the time is
    /// over.
    async fn reconnected(
        &self,
        threads: &Arc<ConnectThreads<Connection>>,
        link: &Link,
        reconnect: &mut Reconnect,
    ) -> Option<Connection> {
        let watch = Arc::new(Watch::default());
        loop {
            let at = reconnect.pause();
            let paused = |_: &mut Context<'_>| match Instant::now() >= at {
                true => Poll::Ready(()),
                false => Poll::Pending,
            };
            meanwhile(link, &watch, Some(at), paused).await?;
            let address = self.connector.address();
            if reconnect.is_over() {
                let time = self.reconnect_for.unwrap_or_default();
                log::warn!("no server answered at {address:?} within {time:?}");
                return None;
            }
            let connector = self.connector.clone();
            let attempt = threads.start(&watch, move || connector.connect(&[], CONNECTING_MAX));
            let connected = |_: &mut Context<'_>| attempt.take().map_or(Poll::Pending, Poll::Ready);
            match meanwhile(link, &watch, None, connected).await? {
                Ok(connection) => return Some(connection),
                Err(error) => {
                    log::debug!("cannot connect to {address:?}: {error}");
                    link.unreached(error);
                }
            }
        }
    }
}

/// Runs a link until the link or the connection ends; also returns true if the peer has sent
/// anything.
async fn carry(mut connection: Connection, mut carrier: Carrier) -> (Result<()>, bool) {
    let (mut has_received, mut leaving_until) = (false, None);
    let carried = std::future::poll_fn(|context| {
        loop {
            for message in carrier.go_on(context) {
                connection.queue(&message)?;
            }
            if carrier.link.is_ended() {
                let leave = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{LEAVE}\",\"params\":[]}}");
                let until = *leaving_until.get_or_insert_with(|| {
                    // If it cannot be sent, the end of the connection has nearly the same meaning.
                    let _ = connection.queue(leave.as_bytes());
                    Instant::now() + LEAVING_MAX
                });
                // The peer closes the connection. If this side closed it with unread data, it could
                // be reset before the peer reads the message.
                return match connection.poll_packet(context, Some(until)) {
                    Poll::Ready(Ok(_)) => continue,
                    Poll::Pending if Instant::now() < until => Poll::Pending,
                    _ => Poll::Ready(Ok(())),
                };
            }
            match connection.poll_packet(context, carrier.link.deadline()) {
                Poll::Ready(message) => carrier.take(&message?)?,
                Poll::Pending => return Poll::Pending,
            }
            has_received = true;
        }
    });
    (carried.await, has_received)
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
        Error::new(ErrorKind::Busy, "a thread for connections could not be started; try again")
    })
}
