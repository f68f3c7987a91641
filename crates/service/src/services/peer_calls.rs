//! The calls of a peer that are executed here, and the messages of one connection in both
//! directions. No socket is owned here.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_auth::Authenticating;
use marmota_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Settings;
use super::json_rpc::{Done, Exchange, present, put_answer};
use crate::call::CallOrigin;
use crate::client::Subscriber;
use crate::failure::Failure;
use crate::peer::{
    Answer, CLIENT, CONTRACT, FRAME_BYTES_MAX, LEAVE, Message, Peer, RELEASE, SUBSCRIBED,
    StreamPump, UNSUBSCRIBED, is_frame, lost,
};

/// The maximum number of concurrent calls of the peer.
const RUNNING_MAX: usize = 256;
/// The number of concurrent calls above which calls are refused, if open streams keep messages
/// coming.
const REFUSED_AT: usize = 2 * RUNNING_MAX;

/// The parts of a received response that are read here.
#[derive(Deserialize)]
struct Answered<'a> {
    /// Absent in a response.
    method: Option<serde::de::IgnoredAny>,
    /// A number if it responds to a call of this side.
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    /// May also be `null`: the result of a method that returns no value.
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    /// The number of the stream that is the result.
    stream: Option<u64>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct ContractRequest<'a> {
    method: &'a str,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

type Answering = Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send>>;

/// The executor of the peer's calls on one connection, and the source of the messages to it.
pub(crate) struct PeerCalls {
    pub(crate) peer: Peer,
    settings: Arc<Settings>,
    origin: CallOrigin,
    running: Vec<Answering>,
    /// The streamed results of calls.
    pumps: Vec<StreamPump>,
    has_left: bool,
    /// The revalidation of the caller, while it runs.
    finding: Option<Authenticating>,
    /// Messages received during the revalidation, starting with the call that triggered it.
    held: VecDeque<Vec<u8>>,
}

impl PeerCalls {
    pub(crate) fn new(peer: Peer, settings: Arc<Settings>, mut origin: CallOrigin) -> Self {
        origin.peer = Some(peer.clone());
        let (running, pumps) = (Vec::new(), Vec::new());
        let (finding, held) = (None, VecDeque::new());
        Self { peer, settings, origin, running, pumps, has_left: false, finding, held }
    }

    /// Returns the maximum size of a message in bytes.
    pub(crate) fn bytes_max(&self) -> usize {
        // A message holds the name and number of a call in addition to its arguments.
        self.settings.body_bytes_max.max(FRAME_BYTES_MAX).saturating_add(4_096)
    }

    /// Returns true if another message can be taken.
    pub(crate) fn is_hungry(&self) -> bool {
        // Running calls may wait for stream frames, so with open streams messages are always taken.
        self.finding.is_none() && (self.running.len() < RUNNING_MAX || self.peer.has_streams())
    }

    /// Returns true if no call of the peer is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.pumps.is_empty() && self.finding.is_none()
    }

    /// Returns true once the peer has announced that it disconnects. A server has then executed no
    /// call that it has not answered.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left
    }

    /// Processes a received message.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Protocol`] if the message is not valid.
    pub(crate) fn take(&mut self, message: &[u8]) -> Result<()> {
        // Messages after a call may refer to it, so their order is kept.
        if self.finding.is_some() {
            self.held.push_back(message.to_vec());
            return Ok(());
        }
        if is_frame(message) {
            return self.peer.take_frame(message);
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
            // A response without a valid number is dropped: responding to it could loop forever.
            if let Some(number) = number {
                self.peer.settle(number, answer);
            }
            return Ok(());
        }
        // Control messages between peers; every other message is a call.
        if let Ok(ContractRequest { method, params: Some(params), id }) =
            serde_json::from_slice(message)
            && method.starts_with("-.")
            && self.handle_control(method, params.get(), id)
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
                Some(found) => Settings::renew_caller(&mut self.origin, found),
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

    /// Processes the held messages once the caller is revalidated.
    fn take_held(&mut self, context: &mut Context<'_>) {
        while let Some(finding) = &mut self.finding {
            let Poll::Ready(found) = Pin::new(finding).poll(context) else { return };
            self.finding = None;
            Settings::renew_caller(&mut self.origin, found);
            let mut held = std::mem::take(&mut self.held).into_iter();
            if let Some(message) = held.next() {
                self.begin(&message);
            }
            for message in held {
                if let Err(error) = self.take(&message) {
                    log::info!("a client of services was disconnected: {error}");
                    self.has_left = true;
                    return;
                }
            }
        }
    }

    /// Responds with an error to a call above the limit.
    fn refuse(&self, message: &[u8]) {
        let asked = serde_json::from_slice::<ContractRequest<'_>>(message);
        let id = match &asked {
            Ok(ContractRequest { id: Some(id), .. }) => id.get(),
            // A notification gets no response.
            Ok(ContractRequest { id: None, .. }) => return,
            Err(_) => "null",
        };
        let why = format!(
            "{REFUSED_AT} calls of this connection are running, the limit; wait \
                           until some are answered"
        );
        let failure = Failure::of(&Error::new(ErrorKind::Busy, why), "a call");
        let mut answer = Vec::new();
        put_answer(&mut answer, id, Err(failure));
        self.peer.answer(answer);
    }

    /// Processes a control message; returns false if it is not one.
    fn handle_control(&mut self, method: &str, params: &str, id: Option<&RawValue>) -> bool {
        fn read<'p, T: Deserialize<'p>>(params: &'p str) -> Option<T> {
            serde_json::from_str(params).ok()
        }
        match (method, id) {
            (CONTRACT, Some(id)) => read::<[&str; 1]>(params).map(|[name]| {
                self.send_contract(name, id);
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
                self.peer.subscribed(call, list);
            }),
            (UNSUBSCRIBED, None) => {
                read::<[u64; 1]>(params).map(|[list]| self.peer.unsubscribed(list))
            }
            _ => None,
        }
        .is_some()
    }

    /// Sets the identity of the client from the secret that only this client knows.
    fn name(&mut self, secret: &str) {
        let Some(Subscriber { name: None, .. }) = self.origin.subscriber.as_deref() else { return };
        let Some(named) = Subscriber::named(&self.peer, secret) else { return };
        // Without a login, the session belongs to the client, across all of its connections.
        if !self.origin.is_known() {
            self.origin.session = named.name.clone();
        }
        self.origin.subscriber = Some(Arc::new(named));
    }

    fn send_contract(&self, name: &str, id: &RawValue) {
        let known = self.settings.service(name).map(|hosted| hosted.known());
        // The contract holds only strings and numbers: serializing cannot fail.
        let done = known.map(|known| Done::Value(serde_json::to_vec(&known).unwrap_or_default()));
        let done = done.map_err(|error| Failure::of(&error, CONTRACT));
        let mut answer = Vec::new();
        put_answer(&mut answer, id.get(), done);
        self.peer.answer(answer);
    }

    /// Polls the running calls, and returns the messages to send.
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
        self.pumps.extend(self.peer.take_opened());
        self.pumps.retain_mut(|pump| pump.poll(context).is_pending());
        self.peer.expire();
        self.peer.run_by(context.waker());
        // Messages that a call sent while it ran precede its response.
        let mut messages = self.peer.take_messages();
        messages.append(&mut done);
        messages
    }
}

impl Drop for PeerCalls {
    fn drop(&mut self) {
        self.peer.cut(self.has_left);
    }
}
