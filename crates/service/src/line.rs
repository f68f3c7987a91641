//! A client's connection to services of another process: one thread carries
//! all of a process' links.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use async_executor::Executor;
use futures_lite::future::block_on;
use marmota_model::{Error, ErrorKind, Result};
use marmota_remote::Channel;

use crate::carried::{PATH, UPGRADE};
use crate::link::{Carrier, Link};

const CONNECTING_MAX: Duration = Duration::from_secs(5);

/// Connects, and has the link carried until its end.
pub(crate) fn connect(
    url: &str,
    credential: &[u8],
    carrier: impl FnOnce(Link) -> Carrier,
) -> Result<Link> {
    let mut channel = Channel::connect(url, PATH, UPGRADE, credential, CONNECTING_MAX)?;
    let link = Link::new();
    let mut carrier = carrier(link.clone());
    let carrying = async move {
        std::future::poll_fn(|context| {
            loop {
                for message in carrier.go_on(context) {
                    channel.send(&message)?;
                }
                if carrier.link.is_ended() {
                    return Poll::Ready(Ok(()));
                }
                match channel.poll(context, carrier.link.deadline()) {
                    Poll::Ready(message) => carrier.take(&message?)?,
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    };
    executor()?
        .spawn(async move {
            let ended: Result<()> = pin!(carrying).await;
            if let Err(error) = ended {
                log::info!("a connection to services has ended: {error}");
            }
        })
        .detach();
    Ok(link)
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
