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

use crate::peer::{Peer, leave};
use crate::services::peer_calls::PeerCalls;

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
    /// Connects, and runs one connection after the other until the peer is ended.
    pub(crate) fn keep(
        self,
        peer: &Peer,
        calls: impl Fn(&Peer) -> PeerCalls + Send + 'static,
    ) -> Result<()> {
        let mut connection = self.connector.connect(&[], CONNECTING_MAX)?;
        let peer = peer.clone();
        let kept = async move {
            let threads = Arc::default();
            let mut reconnect = Reconnect::new(PAUSES, self.reconnect_for);
            loop {
                peer.connected(self.hello.clone());
                let (ended, has_received) = run(connection, calls(&peer)).await;
                match ended {
                    Ok(()) => break,
                    Err(error) => log::info!("a connection to services was closed: {error}"),
                }
                if has_received {
                    reconnect.reset();
                }
                reconnect.begin(Instant::now());
                connection = match self.reconnected(&threads, &peer, &mut reconnect).await {
                    Some(connection) => connection,
                    None => {
                        peer.end();
                        break;
                    }
                };
            }
            threads.dismiss();
        };
        executor()?.spawn(kept).detach();
        Ok(())
    }

    /// Tries to reconnect until it succeeds; returns `None` if the peer has ended or the time is
    /// over.
    async fn reconnected(
        &self,
        threads: &Arc<ConnectThreads<Connection>>,
        peer: &Peer,
        reconnect: &mut Reconnect,
    ) -> Option<Connection> {
        let watch = Arc::new(Watch::default());
        loop {
            let at = reconnect.pause();
            let paused = |_: &mut Context<'_>| match Instant::now() >= at {
                true => Poll::Ready(()),
                false => Poll::Pending,
            };
            meanwhile(peer, &watch, Some(at), paused).await?;
            let address = self.connector.address();
            if reconnect.is_over() {
                let time = self.reconnect_for.unwrap_or_default();
                log::warn!("no server answered at {address:?} within {time:?}");
                return None;
            }
            let connector = self.connector.clone();
            let attempt = threads.start(&watch, move || connector.connect(&[], CONNECTING_MAX));
            let connected = |_: &mut Context<'_>| attempt.take().map_or(Poll::Pending, Poll::Ready);
            match meanwhile(peer, &watch, None, connected).await? {
                Ok(connection) => return Some(connection),
                Err(error) => {
                    log::debug!("cannot connect to {address:?}: {error}");
                    peer.unreached(error);
                }
            }
        }
    }
}

/// Runs a connection until it or the peer ends; also returns true if the peer has sent
/// anything.
async fn run(mut connection: Connection, mut calls: PeerCalls) -> (Result<()>, bool) {
    let (mut has_received, mut leaving_until) = (false, None);
    let ended = std::future::poll_fn(|context| {
        loop {
            for message in calls.go_on(context) {
                connection.queue(&message)?;
            }
            if calls.peer.is_ended() {
                let until = *leaving_until.get_or_insert_with(|| {
                    // If it cannot be sent, the end of the connection has nearly the same meaning.
                    let _ = connection.queue(&leave());
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
            match connection.poll_packet(context, calls.peer.deadline()) {
                Poll::Ready(message) => calls.take(&message?)?,
                Poll::Pending => return Poll::Pending,
            }
            has_received = true;
            if calls.has_left() {
                let message = "the server shuts down, or replaces its routes";
                return Poll::Ready(Err(Error::new(ErrorKind::Lost, message)));
            }
        }
    });
    (ended.await, has_received)
}

/// Waits for something while disconnected; returns `None` if the peer has ended.
async fn meanwhile<T>(
    peer: &Peer,
    watch: &Arc<Watch>,
    at: Option<Instant>,
    mut wanted: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    std::future::poll_fn(|context| {
        watch.look();
        if peer.is_ended() {
            return Poll::Ready(None);
        }
        if let Poll::Ready(found) = wanted(context) {
            return Poll::Ready(Some(found));
        }
        peer.expire();
        let next = peer.run_by(context.waker());
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
