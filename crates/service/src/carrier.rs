//! What carries a link on one connection: the calls of the other side that are
//! under way here, and the messages both ways. It owns no socket.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_auth::Authenticating;
use marmota_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::call::CallOrigin;
use crate::client::Known;
use crate::failure::Failure;
use crate::frame;
use crate::json_rpc::{Done, Exchange, present, put_answer};
use crate::link::{
    Answer, CLIENT, CONTRACT, LEAVE, Link, Message, RELEASE, SUBSCRIBED, UNSUBSCRIBED, lost,
};
use crate::pump::Pump;
use crate::services::Settings;
use crate::subscriber::Subscriber;

/// Calls of the other side's that are under way at once.
const RUNNING_MAX: usize = 256;
/// More are refused, where messages are taken because of streams.
const REFUSED_AT: usize = 2 * RUNNING_MAX;

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
    /// The number of the stream that is the result.
    stream: Option<u64>,
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

/// See the module.
pub(crate) struct Carrier {
    pub(crate) link: Link,
    settings: Arc<Settings>,
    origin: CallOrigin,
    running: Vec<Answering>,
    /// What comes of calls piece by piece.
    pumps: Vec<Pump>,
    has_left: bool,
    /// The caller, while they are looked up again.
    finding: Option<Authenticating>,
    /// Messages that have come meanwhile, from the call on that asked for it.
    held: VecDeque<Vec<u8>>,
}

impl Carrier {
    pub(crate) fn new(link: Link, settings: Arc<Settings>, mut origin: CallOrigin) -> Self {
        origin.link = Some(link.clone());
        let (running, pumps) = (Vec::new(), Vec::new());
        let (finding, held) = (None, VecDeque::new());
        Self { link, settings, origin, running, pumps, has_left: false, finding, held }
    }

    /// Bytes of a message at most.
    pub(crate) fn bytes_max(&self) -> usize {
        // A call's name and number stand beside its arguments.
        self.settings.body_bytes_max.max(frame::FRAME_BYTES_MAX).saturating_add(4_096)
    }

    /// True if it takes another message.
    pub(crate) fn is_hungry(&self) -> bool {
        // Calls may wait for what comes by streams.
        self.finding.is_none() && (self.running.len() < RUNNING_MAX || self.link.has_streams())
    }

    /// True if nothing of the other side's is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.pumps.is_empty() && self.finding.is_none()
    }

    /// True once the other side has said that it goes.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left
    }

    /// Takes a message that has come.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Protocol`] for what no link says.
    pub(crate) fn take(&mut self, message: &[u8]) -> Result<()> {
        // What comes behind a call may concern it.
        if self.finding.is_some() {
            self.held.push_back(message.to_vec());
            return Ok(());
        }
        if frame::is_frame(message) {
            return self.link.take_frame(message);
        }
        if let Ok(Answered { method: None, id, result, stream, error }) =
            serde_json::from_slice(message)
            && (result.is_some() || error.is_some())
        {
            let number = id.and_then(|id| id.get().parse().ok());
            let answer = match (result, error) {
                (Some(result), None) => Ok(match stream {
                    Some(stream) => Answer::Stream(stream),
                    None => Answer::Value(result.get().as_bytes().to_vec()),
                }),
                (_, error) => Err(error.map_or_else(lost, Failure::into_error)),
            };
            // What answers nothing is not answered in its turn, which would go on for ever.
            if let Some(number) = number {
                self.link.settle(number, answer);
            }
            return Ok(());
        }
        // What links tell each other beside calls; all else is a call.
        if let Ok(AskedFor { method, params: Some(params), id }) = serde_json::from_slice(message)
            && method.starts_with("-.")
            && self.told(method, params.get(), id)
        {
            return Ok(());
        }
        if self.running.len() >= REFUSED_AT {
            self.refuse(message);
            return Ok(());
        }
        if let Some((auth, known)) = &self.origin.known {
            let mut finding = auth.revalidate(known);
            match finding.ready() {
                Some(found) => Settings::look_again(&mut self.origin, found),
                None => {
                    self.finding = Some(finding);
                    self.held.push_back(message.to_vec());
                    return Ok(());
                }
            }
        }
        self.begin(message);
        Ok(())
    }

    fn begin(&mut self, message: &[u8]) {
        let exchange = Exchange::begin(&self.settings, &self.origin, message);
        self.running.push(Box::pin(exchange.answer()));
    }

    /// Goes on with the messages that wait for who the caller is.
    fn take_held(&mut self, context: &mut Context<'_>) {
        while let Some(finding) = &mut self.finding {
            let Poll::Ready(found) = Pin::new(finding).poll(context) else { return };
            self.finding = None;
            Settings::look_again(&mut self.origin, found);
            let mut held = std::mem::take(&mut self.held).into_iter();
            if let Some(message) = held.next() {
                self.begin(&message);
            }
            for message in held {
                if let Err(error) = self.take(&message) {
                    log::info!("a client of services is cut off: {error}");
                    self.has_left = true;
                    return;
                }
            }
        }
    }

    /// Answers a call that is one too many.
    fn refuse(&self, message: &[u8]) {
        let asked = serde_json::from_slice::<AskedFor<'_>>(message);
        let id = match &asked {
            Ok(AskedFor { id: Some(id), .. }) => id.get(),
            // Nobody waits for an answer.
            Ok(AskedFor { id: None, .. }) => return,
            Err(_) => "null",
        };
        let why = format!("{REFUSED_AT} calls of this connection are under way; wait for some");
        let failure = Failure::of(&Error::new(ErrorKind::Busy, why), "a call");
        let mut answer = Vec::new();
        put_answer(&mut answer, id, Err(failure));
        self.link.answer(answer);
    }

    /// Takes what is no call; false if it is not that either.
    fn told(&mut self, method: &str, params: &str, id: Option<&RawValue>) -> bool {
        fn read<'p, T: Deserialize<'p>>(params: &'p str) -> Option<T> {
            serde_json::from_str(params).ok()
        }
        match (method, id) {
            (CONTRACT, Some(id)) => read::<[&str; 1]>(params).map(|[name]| {
                self.tell_contract(name, id);
            }),
            (RELEASE, _) => read::<(&str, u64)>(params).map(|(service, stub)| {
                self.origin.owned.iter().for_each(|owned| owned.release(service, stub));
            }),
            (CLIENT, None) => read::<[&str; 1]>(params).map(|[secret]| self.name(secret)),
            (LEAVE, None) => {
                self.origin.subscriber.iter().for_each(|one| one.leave());
                self.has_left = true;
                Some(())
            }
            (SUBSCRIBED, None) => read::<(u64, u64)>(params).map(|(call, list)| {
                self.link.subscribed(call, list);
            }),
            (UNSUBSCRIBED, None) => {
                read::<[u64; 1]>(params).map(|[list]| self.link.unsubscribed(list))
            }
            _ => None,
        }
        .is_some()
    }

    /// The other side has said who it is, by a text that nobody else knows.
    fn name(&mut self, secret: &str) {
        let Some(Subscriber { name: None, .. }) = self.origin.subscriber.as_deref() else { return };
        let Some(named) = Subscriber::named(&self.link, secret) else { return };
        // Where nobody logs in, a session is the client's, by whatever connection.
        if !self.origin.is_known() {
            self.origin.session = named.name.clone();
        }
        self.origin.subscriber = Some(Arc::new(named));
    }

    fn tell_contract(&self, name: &str, id: &RawValue) {
        let known = self.settings.service(name).map(|hosted| Known::of(hosted));
        // Texts and numbers: they can be written.
        let done = known.map(|known| Done::Value(serde_json::to_vec(&known).unwrap_or_default()));
        let done = done.map_err(|error| Failure::of(&error, CONTRACT));
        let mut answer = Vec::new();
        put_answer(&mut answer, id.get(), done);
        self.link.answer(answer);
    }

    /// Goes on with what is under way, and gives the messages that are to be
    /// sent.
    pub(crate) fn go_on(&mut self, context: &mut Context<'_>) -> Vec<Message> {
        let mut done = Vec::new();
        self.take_held(context);
        self.running.retain_mut(|one| match one.as_mut().poll(context) {
            Poll::Ready(answer) => {
                done.extend(answer.map(Arc::new));
                false
            }
            Poll::Pending => true,
        });
        self.pumps.extend(self.link.take_opened());
        self.pumps.retain_mut(|pump| pump.poll(context).is_pending());
        self.link.expire();
        self.link.carried_by(context.waker());
        // What a call has said on its way goes before its answer.
        let mut messages = self.link.take_messages();
        messages.append(&mut done);
        messages
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.link.cut();
    }
}
