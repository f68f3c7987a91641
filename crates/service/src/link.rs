//! Calls both ways over one connection, as JSON-RPC 2.0: what is called on the
//! other side and waits, and what the other side calls here. It owns no socket;
//! whoever carries the bytes hands in messages and takes them out.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::call::Origin;
use crate::client::Known;
use crate::failure::Failure;
use crate::json_rpc::{Exchange, present, put_answer};
use crate::services::Settings;

/// Asks for a service's contract.
pub(crate) const CONTRACT: &str = "-.contract";
/// Gives up what a stub owns; never answered.
pub(crate) const RELEASE: &str = "-.release";
/// Calls that may wait for their answer.
const WAITING_MAX: usize = 1_024;
/// Calls of the other side's that are under way at once.
const RUNNING_MAX: usize = 256;

/// See the module.
#[derive(Clone)]
pub(crate) struct Link(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    outbox: Vec<Vec<u8>>,
    /// Of who carries.
    carrier: Option<Waker>,
    waiting: HashMap<u64, Waiting>,
    last: u64,
    ended: bool,
}

struct Waiting {
    answer: Option<Result<Vec<u8>>>,
    waker: Option<Waker>,
    until: Instant,
}

/// An answer that came, as far as it is read here.
#[derive(Deserialize)]
struct Answered<'a> {
    /// Not there in an answer.
    method: Option<serde::de::IgnoredAny>,
    /// A number, where it answers a call of this side's.
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    /// Also `null`, which is what nothing comes back as.
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct AskedFor<'a> {
    method: &'a str,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

type Answering = Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send>>;

/// What carries a link: the calls of the other side that are under way here.
pub(crate) struct Carrier {
    pub(crate) link: Link,
    settings: Arc<Settings>,
    origin: Origin,
    running: Vec<Answering>,
}

impl Link {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    /// Calls the other side.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: &[u8],
        stub: Option<u64>,
        deadline: Duration,
    ) -> Result<Vec<u8>> {
        let number = self.send(method, params, stub, deadline)?;
        let given_up = GivenUp { link: self, number };
        let answer = std::future::poll_fn(|context| {
            let mut state = self.0.lock();
            let Some(waiting) = state.waiting.get_mut(&number) else {
                return Poll::Ready(Err(lost()));
            };
            match waiting.answer.take() {
                Some(answer) => Poll::Ready(answer),
                None => {
                    waiting.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        });
        let answer = answer.await;
        drop(given_up);
        answer
    }

    fn send(
        &self,
        method: &str,
        params: &[u8],
        stub: Option<u64>,
        deadline: Duration,
    ) -> Result<u64> {
        let mut state = self.0.lock();
        if state.ended {
            let message = "the connection has ended; nothing was done";
            return Err(Error::new(ErrorKind::Refused, message));
        }
        if state.waiting.len() >= WAITING_MAX {
            let message = format!("{WAITING_MAX} calls wait for their answers; wait for some");
            return Err(Error::new(ErrorKind::Busy, message));
        }
        state.last += 1;
        let number = state.last;
        let mut message = b"{\"jsonrpc\":\"2.0\",\"method\":".to_vec();
        marmota_model::json::write_string(&mut message, method);
        message.extend_from_slice(b",\"params\":");
        message.extend_from_slice(params);
        if let Some(stub) = stub {
            message.extend_from_slice(format!(",\"stub\":{stub}").as_bytes());
        }
        message.extend_from_slice(format!(",\"id\":{number}}}").as_bytes());
        state.outbox.push(message);
        let until = Instant::now() + deadline;
        state.waiting.insert(number, Waiting { answer: None, waker: None, until });
        let carrier = state.carrier.take();
        drop(state);
        carrier.into_iter().for_each(Waker::wake);
        Ok(number)
    }

    /// Says that a stub has ended.
    pub(crate) fn release(&self, service: &str, stub: u64) {
        let mut state = self.0.lock();
        if state.ended {
            return;
        }
        let mut message = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{RELEASE}\",\"params\":[");
        message.push_str(&format!("\"{service}\",{stub}]}}"));
        state.outbox.push(message.into_bytes());
        let carrier = state.carrier.take();
        drop(state);
        carrier.into_iter().for_each(Waker::wake);
    }

    fn settle(&self, number: u64, answer: Result<Vec<u8>>) {
        let mut state = self.0.lock();
        // One that was given up waits no more.
        let Some(waiting) = state.waiting.get_mut(&number) else { return };
        waiting.answer = Some(answer);
        let waker = waiting.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// True once nothing more goes over it.
    pub(crate) fn is_ended(&self) -> bool {
        self.0.lock().ended
    }

    /// Answers all that wait, and refuses what is called from here on.
    pub(crate) fn end(&self) {
        let mut state = self.0.lock();
        state.ended = true;
        let numbers: Vec<u64> = state.waiting.keys().copied().collect();
        let carrier = state.carrier.take();
        drop(state);
        carrier.into_iter().for_each(Waker::wake);
        numbers.into_iter().for_each(|number| self.settle(number, Err(lost())));
    }

    /// When the next call will have taken too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let state = self.0.lock();
        let waits = state.waiting.values().filter(|one| one.answer.is_none());
        waits.map(|one| one.until).min()
    }

    /// Gives up what has taken too long.
    pub(crate) fn expire(&self) {
        let now = Instant::now();
        let state = self.0.lock();
        let late = |(number, one): (&u64, &Waiting)| {
            (one.until <= now && one.answer.is_none()).then_some(*number)
        };
        let late: Vec<u64> = state.waiting.iter().filter_map(late).collect();
        drop(state);
        for number in late {
            let message = "the call was not answered in time; it may have taken place";
            self.settle(number, Err(Error::new(ErrorKind::Timeout, message)));
        }
    }
}

/// A call that is not waited for any more.
struct GivenUp<'l> {
    link: &'l Link,
    number: u64,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        self.link.0.lock().waiting.remove(&self.number);
    }
}

#[cold]
fn lost() -> Error {
    let message = "the connection broke before the answer came; the call may have taken place";
    Error::new(ErrorKind::Lost, message)
}

impl Carrier {
    pub(crate) fn new(link: Link, settings: Arc<Settings>, origin: Origin) -> Self {
        Self { link, settings, origin, running: Vec::new() }
    }

    /// Bytes of a message at most.
    pub(crate) fn bytes_max(&self) -> usize {
        // A call's name and number stand beside its arguments.
        self.settings.body_bytes_max.saturating_add(4_096)
    }

    /// True if it takes another message.
    pub(crate) fn is_hungry(&self) -> bool {
        self.running.len() < RUNNING_MAX
    }

    /// True if nothing of the other side's is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Takes a message that has come.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] for an answer that is none.
    pub(crate) fn take(&mut self, message: &[u8]) -> Result<()> {
        if let Ok(Answered { method: None, id, result, error }) = serde_json::from_slice(message)
            && (result.is_some() || error.is_some())
        {
            let number = id.and_then(|id| id.get().parse().ok());
            let answer = match (result, error) {
                (Some(result), None) => Ok(result.get().as_bytes().to_vec()),
                (_, error) => Err(error.map_or_else(lost, Failure::into_error)),
            };
            // What answers nothing is not answered in its turn, which would go on for ever.
            if let Some(number) = number {
                self.link.settle(number, answer);
            }
            return Ok(());
        }
        // What links ask each other beside calls; all else is a call.
        if let Ok(AskedFor { method, params: Some(params), id }) = serde_json::from_slice(message) {
            match (method, id) {
                (CONTRACT, Some(id)) => {
                    if let Ok([name]) = serde_json::from_str::<[&str; 1]>(params.get()) {
                        self.tell_contract(name, id);
                        return Ok(());
                    }
                }
                (RELEASE, _) => {
                    if let Ok((service, stub)) = serde_json::from_str::<(&str, u64)>(params.get()) {
                        self.origin.owned.iter().for_each(|owned| owned.release(service, stub));
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        let exchange = Exchange::begin(&self.settings, &self.origin, message);
        self.running.push(Box::pin(exchange.answer()));
        Ok(())
    }

    fn tell_contract(&self, name: &str, id: &RawValue) {
        let known = self.settings.service(name).map(|hosted| Known::of(hosted));
        // Texts and numbers: they can be written.
        let done = known.map(|known| serde_json::to_vec(&known).unwrap_or_default());
        let done = done.map_err(|error| Failure::of(&error, CONTRACT));
        let mut answer = Vec::new();
        put_answer(&mut answer, id.get(), done);
        self.link.0.lock().outbox.push(answer);
    }

    /// Goes on with what is under way, and gives the messages that are to be
    /// sent.
    pub(crate) fn go_on(&mut self, context: &mut Context<'_>) -> Vec<Vec<u8>> {
        let mut done = Vec::new();
        self.running.retain_mut(|one| match one.as_mut().poll(context) {
            Poll::Ready(answer) => {
                done.extend(answer);
                false
            }
            Poll::Pending => true,
        });
        self.link.expire();
        let mut state = self.link.0.lock();
        state.carrier = Some(context.waker().clone());
        done.append(&mut state.outbox);
        done
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.link.end();
    }
}
