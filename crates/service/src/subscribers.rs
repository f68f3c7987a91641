//! Lists of clients to notify: their members, the disconnected ones and when they are removed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_executor::Executor;
use marmota_auth::{Auth, Identity};
use marmota_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::call::Call;
use crate::client::Subscriber;
use crate::client::stub::{Stub, Stubbed};

/// A list of callers of a service that can be called back.
///
/// A client is in the list once, however often it was added. A client that loses its connection
/// stays in the list while it is disconnected. It reconnects automatically and repeats the call by
/// which it was added last, so that it is in the list again, also of a restarted server. Clients
/// that do not come back in time ([`Subscribers::retain_for`]) are removed; clients that disconnect
/// on purpose are removed at once. So the method that adds a client should be idempotent. A
/// disconnected client misses notifications.
///
/// ```
/// use marmota_derive::service;
/// use marmota_model::Result;
/// use marmota_service::{Client, Services, Subscribers};
///
/// #[service]
/// trait Reader {
///     async fn read(&self, text: String) -> Result<()>;
/// }
///
/// #[service]
/// trait Paper {
///     async fn subscribe(&self) -> Result<()>;
///     async fn print(&self, text: String) -> Result<usize>;
/// }
///
/// #[derive(Default)]
/// struct Press(Subscribers<ReaderClient>);
///
/// impl Paper for Press {
///     async fn subscribe(&self) -> Result<()> {
///         self.0.add().await.map(drop)
///     }
///
///     async fn print(&self, text: String) -> Result<usize> {
///         let text = &text;
///         let told = self.0.notify_all(|reader| async move { reader.read(text.clone()).await }).await;
///         Ok(told)
///     }
/// }
///
/// struct Aloud;
///
/// impl Reader for Aloud {
///     async fn read(&self, text: String) -> Result<()> {
///         println!("{text}");
///         Ok(())
///     }
/// }
///
/// # futures_lite::future::block_on(async {
/// let services = Services::new().service(PaperService::shared(Press::default()))?;
/// let reader = Services::new().service(ReaderService::shared(Aloud))?;
/// let client = Client::in_process_offering(&services, &reader);
/// let paper = PaperClient::new(&client).await?;
/// paper.subscribe().await?;
/// paper.subscribe().await?;
/// assert_eq!(paper.print("news".to_owned()).await?, 1);
/// # Ok::<(), marmota_model::Error>(())
/// # })?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub struct Subscribers<C> {
    /// Identifies the list to its members.
    number: u64,
    listed: Mutex<HashMap<Key, Listed<C>>>,
    retain_for: Duration,
    subscribers_max: usize,
    deadline: Duration,
}

/// A client and its logged-in user.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    client: Arc<str>,
    user: Option<String>,
}

struct Listed<C> {
    stub: C,
    subscriber: Arc<Subscriber>,
    /// The authenticator and the identity with which it was added.
    known: Option<(Auth, Arc<Identity>)>,
}

impl<C: Stubbed> Default for Subscribers<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> std::fmt::Debug for Subscribers<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subscribers({})", self.listed.lock().len())
    }
}

impl<C: Stubbed> Subscribers<C> {
    /// Creates an empty list.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            listed: Mutex::default(),
            retain_for: Duration::from_secs(300),
            subscribers_max: 10_000,
            deadline: Duration::from_secs(30),
        }
    }

    /// Sets how long a disconnected client is kept. Default: 5 minutes.
    #[must_use]
    pub const fn retain_for(mut self, time: Duration) -> Self {
        self.retain_for = time;
        self
    }

    /// Sets the maximum number of members, including disconnected ones. Default: 10,000.
    #[must_use]
    pub const fn subscribers_max(mut self, count: usize) -> Self {
        self.subscribers_max = count;
        self
    }

    /// Sets how long a subscriber's answer is awaited. Default: 30 s.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Adds the caller of the current method; returns false if it was already in the list.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] outside of a method, and if the caller cannot be called back: a
    /// single request, or a client that does not offer the service. [`ErrorKind::Busy`] if the list
    /// is full.
    pub async fn add(&self) -> Result<bool> {
        let (call, subscriber) = caller()?;
        let client = call.client().ok_or_else(|| not_to_be_called(&call))?.deadline(self.deadline);
        let stub = C::of(Stub::new::<C::Service>(&client).await?);
        let key = key_of(&call, &subscriber);
        let mut listed = self.listed.lock();
        if listed.len() >= self.subscribers_max && !listed.contains_key(&key) {
            self.forget(&mut listed);
            if listed.len() >= self.subscribers_max {
                let message = format!(
                    "there are {} subscribers, the limit (`subscribers_max`); try again later",
                    self.subscribers_max
                );
                return Err(Error::new(ErrorKind::Busy, message));
            }
        }
        subscriber.send_subscribed(call.call_number(), self.number);
        Ok(listed.insert(key, Listed { stub, subscriber, known: call.known() }).is_none())
    }

    /// Removes the caller of the current method; returns false if it was not in the list.
    pub fn remove(&self) -> bool {
        let Ok((call, subscriber)) = caller() else { return false };
        let removed = self.listed.lock().remove(&key_of(&call, &subscriber));
        subscriber.send_unsubscribed(self.number);
        removed.is_some()
    }

    /// Returns the connected subscribers. Those that have logged out, or whose login has expired,
    /// are removed.
    pub async fn present(&self) -> Vec<C> {
        let there: Vec<_> = {
            let mut listed = self.listed.lock();
            self.forget(&mut listed);
            let of = |(key, one): (&Key, &Listed<C>)| (key.clone(), one.known.clone());
            listed.iter().map(of).collect()
        };
        for (key, known) in there {
            let Some((auth, known)) = known else { continue };
            // If the store fails to respond, the login may still be valid.
            let is_over = auth
                .revalidate(&known)
                .await
                .is_err_and(|error| error.kind() == ErrorKind::Unauthenticated);
            if is_over {
                let mut listed = self.listed.lock();
                let same = |one: &Listed<C>| {
                    one.known.as_ref().is_some_and(|(_, now)| Arc::ptr_eq(now, &known))
                };
                if listed.get(&key).is_some_and(same) {
                    listed.remove(&key);
                }
            }
        }
        let listed = self.listed.lock();
        let present = listed.values().filter(|one| one.subscriber.gone().is_none());
        present.map(|one| one.stub.clone()).collect()
    }

    /// Returns the number of disconnected subscribers that may come back.
    #[must_use]
    pub fn away(&self) -> usize {
        let mut listed = self.listed.lock();
        self.forget(&mut listed);
        listed.values().filter(|one| one.subscriber.gone().is_some()).count()
    }

    /// Calls all connected subscribers concurrently and waits for their answers. Returns the number
    /// of successful calls; errors of the others are logged.
    pub async fn notify_all<F: Future<Output = Result<()>> + Send>(
        &self,
        say: impl Fn(C) -> F + Send,
    ) -> usize {
        let present = self.present().await;
        let executor = Executor::new();
        let said: Vec<_> = present.into_iter().map(|stub| executor.spawn(say(stub))).collect();
        let all = async {
            let mut heard = 0;
            for one in said {
                match one.await {
                    Ok(()) => heard += 1,
                    Err(error) => log::info!("a subscriber was not notified: {error}"),
                }
            }
            heard
        };
        executor.run(all).await
    }

    /// Removes the subscribers that do not come back.
    fn forget(&self, listed: &mut HashMap<Key, Listed<C>>) {
        let now = Instant::now();
        let stays = |one: &Listed<C>| match one.subscriber.gone() {
            Some(since) => {
                let is_late = now.saturating_duration_since(since) >= self.retain_for;
                !is_late && !one.subscriber.is_passing()
            }
            None => true,
        };
        listed.retain(|_, one| stays(one));
    }
}

fn caller() -> Result<(Call, Arc<Subscriber>)> {
    let call = Call::current().ok_or_else(|| {
        let message = "no call is running whose caller could be the subscriber: subscribe inside a \
                       method";
        Error::new(ErrorKind::Unsupported, message)
    })?;
    let subscriber = call.subscriber().ok_or_else(|| not_to_be_called(&call))?;
    Ok((call, subscriber))
}

fn key_of(call: &Call, subscriber: &Arc<Subscriber>) -> Key {
    let user = call.caller().map(|caller| caller.id.clone());
    let client = subscriber.name.clone().unwrap_or_else(|| {
        // A client without a name is identified by its connection, as long as it is kept here.
        format!("connection at {:p}", Arc::as_ptr(subscriber)).into()
    });
    Key { client, user }
}

#[cold]
fn not_to_be_called(call: &Call) -> Error {
    let message = format!(
        "the caller of {call:?} has no callbacks: connect over a socket, and register the callback \
         service (`callbacks`)"
    );
    Error::new(ErrorKind::Unsupported, message)
}
