//! Persistent connections of the HTTP server to peers: clients of Marmota upgrade to their
//! protocol, other clients to a WebSocket.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use marmota_http::{
    BoxError, Endpoint, Flow, IntoResponse, Message, Request, Response, ResponseWriter, Status,
    WebSocket, WebSocketOptions,
};
use marmota_model::Result;
use marmota_rpc::{ConnectionEnd, ServerProtocol, packet, upgraded};

use crate::call::CallOrigin;
use crate::client::{Client, Subscriber};
use crate::peer::{Peer, UPGRADE, is_frame, leave};
use crate::services::Settings;
use crate::services::origin::OriginOf;
use crate::services::peer_calls::PeerCalls;

pub(crate) fn endpoint(settings: &Arc<Settings>) -> Endpoint {
    let settings = Arc::clone(settings);
    let answer = move |request: &Request, out: &mut ResponseWriter<'_>| {
        let accepted = match settings.origin_of(request) {
            Ok(OriginOf::Now(origin)) => accept(&settings, request, origin),
            Ok(OriginOf::Later(knowing)) => {
                let (settings, request) = (Arc::clone(&settings), request.clone());
                return Flow::Later(Box::pin(async move {
                    match settings.origin_later(knowing).await {
                        Ok(origin) => accept(&settings, &request, origin),
                        Err(error) => error.into_response(),
                    }
                }));
            }
            Err(error) => error.into_response(),
        };
        out.respond(accepted);
        Flow::Done
    };
    Endpoint::direct(answer).with_runtime()
}

fn accept(settings: &Arc<Settings>, request: &Request, mut origin: CallOrigin) -> Response {
    // A login's session is the same on all of its connections; other callers have one per
    // connection.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    origin.session.get_or_insert_with(|| format!("connection {number}").into());
    origin.owned = Some(Arc::default());
    let peer = Peer::of_one_connection();
    origin.back = Some(Client::of_peer(&peer));
    origin.subscriber = Some(Arc::new(Subscriber::of_peer(&peer)));
    let calls = PeerCalls::new(peer, Arc::clone(settings), origin);
    let packets = CallProtocol { calls, is_closing: false };
    let calls = match upgraded(request, UPGRADE, packets) {
        Ok(response) => return response,
        Err(packets) => packets.calls,
    };
    let upgrades = request.header_text("upgrade").unwrap_or_default();
    if upgrades.eq_ignore_ascii_case("websocket") {
        let mut options = WebSocketOptions::default();
        options.message_bytes_max = calls.bytes_max();
        return Response::websocket(request, &options, |socket| run_web_socket(socket, calls));
    }
    let text = "Call services here with JSON-RPC over a WebSocket, or without one at `-/rpc`.\n";
    Response::text(text).with_status(Status::UPGRADE_REQUIRED)
}

/// The calls of a peer on a connection that carries packets.
struct CallProtocol {
    calls: PeerCalls,
    /// True once this side ends the connection: the peer has sent something invalid, or the server
    /// shuts down or replaces its routes.
    is_closing: bool,
}

impl ServerProtocol for CallProtocol {
    fn run(&mut self, input: &[u8], output: &mut Vec<u8>, context: &mut Context<'_>) -> usize {
        let mut used = 0;
        loop {
            if let Err(error) = self.take(input, &mut used) {
                log::info!("a client of services was disconnected: {error}");
                self.is_closing = true;
                return used;
            }
            let was_full = !self.calls.is_hungry();
            for message in self.calls.go_on(context) {
                packet::put(output, &message);
            }
            // Ended calls free room for messages already received.
            if !was_full || !self.calls.is_hungry() {
                return used;
            }
        }
    }

    fn end(&self) -> Option<ConnectionEnd> {
        match self.is_closing {
            true => Some(ConnectionEnd::Refused),
            false => self.calls.has_left().then_some(ConnectionEnd::Left),
        }
    }

    fn is_hungry(&self) -> bool {
        self.calls.is_hungry()
    }

    fn is_idle(&self) -> bool {
        self.calls.is_idle()
    }

    /// Notifies the client that its other calls were not executed, so that it sends them again.
    fn leave(&mut self, output: &mut Vec<u8>) {
        packet::put(output, &leave());
        self.is_closing = true;
    }

    fn deadline(&self) -> Option<Instant> {
        self.calls.peer.deadline()
    }
}

impl CallProtocol {
    /// Takes all complete packets, as far as there is room.
    fn take(&mut self, input: &[u8], used: &mut usize) -> Result<()> {
        let bytes_max = self.calls.bytes_max();
        while self.calls.is_hungry()
            && let Some(packet) = packet::first(&input[*used..], bytes_max)?
        {
            self.calls.take(packet.body)?;
            *used += packet.bytes();
        }
        Ok(())
    }
}

/// Runs a WebSocket with a peer. Each message is one text frame; stream frames are binary.
async fn run_web_socket(socket: WebSocket, calls: PeerCalls) -> Result<(), BoxError> {
    let calls = Rc::new(RefCell::new(calls));
    let sending = send_messages(&socket, &calls);
    let receiving = async {
        while let Some(message) = socket.receive().await {
            let is_free = |_: &mut Context<'_>| match calls.borrow().is_hungry() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            };
            std::future::poll_fn(is_free).await;
            calls.borrow_mut().take(message.as_bytes())?;
            if calls.borrow().has_left() {
                break;
            }
        }
        Ok(())
    };
    futures_lite::future::or(receiving, sending).await
}

/// Sends the messages to the peer. All futures of a socket share one waker, so every event polls both
/// the reading and the writing one.
async fn send_messages(socket: &WebSocket, calls: &RefCell<PeerCalls>) -> Result<(), BoxError> {
    loop {
        let messages = std::future::poll_fn(|context| {
            let mut calls = calls.borrow_mut();
            let was_full = !calls.is_hungry();
            let messages = calls.go_on(context);
            if was_full && calls.is_hungry() {
                // The reading future was polled before there was room.
                context.waker().wake_by_ref();
            }
            if messages.is_empty() { Poll::Pending } else { Poll::Ready(messages) }
        });
        for message in messages.await {
            let message = match is_frame(&message) {
                true => Message::Binary(message.to_vec()),
                // Other messages that are sent here are JSON.
                false => Message::Text(String::from_utf8_lossy(&message).into_owned()),
            };
            socket.send(message).await?;
        }
    }
}
