//! `GET /api` with `Upgrade: websocket`: many live queries over one WebSocket. The messages are in
//! `message.rs`.
//!
//! A client that does not read its messages holds back the handler, so that its updates wait in the
//! queues of its subscriptions, which are limited.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::{AbortHandle, Abortable, Aborted, LocalBoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use marmota_http::websocket::Close;
use marmota_http::{
    BoxError, Flow, IntoResponse, Message, QueryParams, Request, Response, WebSocket,
    WebSocketOptions,
};
use marmota_store::live::{LiveUpdate, ResumePoint};
use marmota_web::{ApiError, ApiResult};

use super::message::{self, ClientMessage};
use super::page_url::PageUrl;
use super::socket_caller::SocketCaller;
use super::subscription::LiveSubscription;
use crate::protocol::refusal::of_url;
use crate::request::state::ApiState;

/// The maximum number of subscriptions of one WebSocket.
const SUBSCRIPTIONS_MAX: usize = 100;
/// The maximum length of a client's message.
const MESSAGE_BYTES_MAX: usize = 32 << 10;

/// Returns true if a request opens a WebSocket.
pub(crate) fn is_requested(request: &Request) -> bool {
    request.header_text("upgrade").is_some_and(|name| name.eq_ignore_ascii_case("websocket"))
}

/// Opens the WebSocket. An anonymous caller may send a token later.
pub(crate) fn open(api: &Arc<ApiState>, request: &Request) -> Flow {
    let (api, request) = (Arc::clone(api), request.clone());
    Flow::Later(Box::pin(async move {
        let caller = match SocketCaller::of(&api, &request).await {
            Ok(caller) => caller,
            Err(error) => return error.into_response(),
        };
        let mut options = WebSocketOptions::default();
        options.message_bytes_max = MESSAGE_BYTES_MAX;
        let root = request.path().trim_end_matches('/').into();
        Response::websocket(&request, &options, |socket| async move {
            let (ids, steps) = (Vec::new(), FuturesUnordered::new());
            LiveSocket { socket, api, root, caller, ids, steps }.run().await
        })
    }))
}

/// A WebSocket with its subscriptions.
struct LiveSocket {
    socket: WebSocket,
    api: Arc<ApiState>,
    /// The path of the API.
    root: Box<str>,
    caller: SocketCaller,
    /// The ids of all subscriptions, with the handles that end them.
    ids: Vec<(Rc<str>, AbortHandle)>,
    /// The next step of each subscription.
    steps: FuturesUnordered<Abortable<LocalBoxFuture<'static, Step>>>,
}

/// The end of a step of a subscription.
struct Step {
    id: Rc<str>,
    end: ApiResult<(Box<LiveSubscription>, Arc<LiveUpdate>)>,
}

/// What a socket does next.
enum Turn {
    Message(Option<Message>),
    Step(Result<Step, Aborted>),
}

impl LiveSocket {
    /// Handles messages and updates until the client or the server closes the WebSocket.
    async fn run(mut self) -> Result<(), BoxError> {
        loop {
            let answer = match self.next().await {
                Turn::Message(None) => return Ok(()),
                Turn::Message(Some(Message::Binary(_))) => {
                    self.socket.close(Close::POLICY, "send JSON texts");
                    return Ok(());
                }
                Turn::Message(Some(Message::Text(text))) => self.handle(&text),
                // The subscription was ended by its client.
                Turn::Step(Err(Aborted)) => None,
                Turn::Step(Ok(step)) => Some(self.take(step)),
            };
            if let Some(answer) = answer {
                self.socket.send(answer).await?;
            }
        }
    }

    /// Waits for a message or an update. Messages come first, so that a client can end
    /// subscriptions which have many updates.
    async fn next(&mut self) -> Turn {
        let Self { socket, steps, .. } = self;
        poll_fn(|context| {
            if let Poll::Ready(message) = pin!(socket.receive()).poll(context) {
                return Poll::Ready(Turn::Message(message));
            }
            match steps.poll_next_unpin(context) {
                Poll::Ready(Some(step)) => Poll::Ready(Turn::Step(step)),
                // There is no subscription, or none has an update.
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Handles a message, and returns the answer if it has one.
    fn handle(&mut self, text: &str) -> Option<String> {
        match ClientMessage::parse(text) {
            Ok(ClientMessage::Subscribe { id, url, after }) => {
                let failed = self.subscribe(&id, &url, after.as_deref()).err()?;
                Some(message::error(Some(&id), &failed))
            }
            Ok(ClientMessage::Unsubscribe { id }) => Some(match self.remove(&id) {
                Some(handle) => {
                    handle.abort();
                    message::unsubscribed(&id)
                }
                None => {
                    let unknown = format!("there is no subscription with the id `{id}`");
                    message::error(Some(&id), &ApiError::bad_request(unknown))
                }
            }),
            Ok(ClientMessage::Token { token }) => {
                self.caller.set_token(token);
                None
            }
            Err(error) => Some(message::error(None, &error)),
        }
    }

    /// Begins a subscription.
    ///
    /// # Errors
    /// 400 for an id in use, an invalid URL or position, and for too many subscriptions.
    fn subscribe(&mut self, id: &str, url: &str, after: Option<&str>) -> ApiResult<()> {
        if self.ids.iter().any(|(known, _)| **known == *id) {
            let message = format!("the id `{id}` is in use; unsubscribe first, or choose another");
            return Err(ApiError::bad_request(message));
        }
        if self.ids.len() >= SUBSCRIPTIONS_MAX {
            let message = format!(
                "a WebSocket has at most {SUBSCRIPTIONS_MAX} subscriptions; end one, or open \
                 another WebSocket"
            );
            return Err(ApiError::bad_request(message));
        }
        let from = after.map(str::parse::<ResumePoint>).transpose().map_err(of_url)?;
        let path = self.path_in_api(url)?.to_owned();
        let id: Rc<str> = id.into();
        let (api, root) = (Arc::clone(&self.api), self.root.clone());
        let (check, caller) = (self.caller.check(&self.api), self.caller.clone());
        let subscribed = {
            let id = Rc::clone(&id);
            async move {
                let subscription = async {
                    let store = caller.store(&api).await?;
                    let name = path.split('?').next().unwrap_or_default();
                    let decoded = QueryParams::new(name).next().map(|(name, _)| name);
                    let table = decoded.unwrap_or_default().into();
                    let target = format!("{root}/{path}").into();
                    LiveSubscription::new(&store, PageUrl { api, table, target }, from, check).await
                };
                match subscription.await {
                    Ok(subscription) => next_step(id, Box::new(subscription)).await,
                    Err(error) => Step { id, end: Err(error) },
                }
            }
        };
        self.start(id, Box::pin(subscribed));
        Ok(())
    }

    /// Returns the part of a URL after the path of the API.
    ///
    /// # Errors
    /// 400 for the URL of something else than a list.
    fn path_in_api<'u>(&self, url: &'u str) -> ApiResult<&'u str> {
        let relative = match url.strip_prefix('/') {
            Some(_) => url.strip_prefix(&*self.root).and_then(|rest| rest.strip_prefix('/')),
            None => Some(url),
        };
        let is_list = |rest: &&str| {
            let path = rest.split('?').next().unwrap_or_default();
            !path.is_empty() && !path.contains(['/', '#', '&', '='])
        };
        relative.filter(is_list).ok_or_else(|| {
            let url = marmota_model::text::excerpt(url);
            let message = format!(
                "`{url}` is not the URL of a list; send `{}/TABLE`, with parameters after `?`",
                self.root
            );
            ApiError::bad_request(message)
        })
    }

    /// Adds the first step of a subscription.
    fn start(&mut self, id: Rc<str>, step: LocalBoxFuture<'static, Step>) {
        let (handle, registration) = AbortHandle::new_pair();
        self.ids.push((id, handle));
        self.steps.push(Abortable::new(step, registration));
    }

    /// Removes the id of a subscription.
    fn remove(&mut self, id: &str) -> Option<AbortHandle> {
        let at = self.ids.iter().position(|(known, _)| **known == *id)?;
        Some(self.ids.swap_remove(at).1)
    }

    /// Takes the end of a step, begins the next one, and returns the message.
    fn take(&mut self, Step { id, end }: Step) -> String {
        self.remove(&id);
        match end {
            Ok((subscription, update)) => {
                let (position, document) =
                    (subscription.resume_point(&update), &subscription.document);
                let name = ["websocket ", document.target()].concat();
                let end = update.rendered(&name, |update| {
                    let (name, data) = document.render(update);
                    message::update_end(name, position, &data)
                });
                let text = message::update(&id, &end);
                self.start(Rc::clone(&id), Box::pin(next_step(id, subscription)));
                text
            }
            Err(error) => message::error(Some(&id), &error),
        }
    }
}

/// Waits for the next update of a subscription.
async fn next_step(id: Rc<str>, mut subscription: Box<LiveSubscription>) -> Step {
    let update = poll_fn(|context| subscription.poll_next(context)).await;
    let end = match update {
        Ok(Some(update)) => Ok((subscription, update)),
        Ok(None) => Err(message::closed()),
        Err(error) => Err(error),
    };
    Step { id, end }
}
