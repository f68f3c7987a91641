//! WebSockets (RFC 6455; over HTTP/2 by RFC 8441; with permessage-deflate by RFC 7692).
//!
//! A handler gets a [`WebSocket`] and reads and writes [`Message`]s. Everything else is done for
//! it: the handshake, pings and pongs, fragments, the closing handshake, limits and back-pressure.
//!
//! This file has the handshake, which ends with an answer that hands the connection to one of two
//! protocols: `talk.rs` runs the handler, `tunnel.rs` passes bytes to another protocol. Both use
//! the codec: `frame.rs` (headers and masks), `decoder.rs` (messages from bytes), `deflate.rs`.
//! `socket.rs` is the handler's side; `broadcast.rs` sends one message to many sockets.
//!
//! Data pass as follows: bytes of the connection → [`Decoder`] → inbox of the socket → handler →
//! outbox, in frames → output of the connection. Each step has a limit, and a full one stops the
//! step before it, down to the client's TCP window.

mod broadcast;
pub mod client;
mod decoder;
#[cfg(feature = "compression")]
mod deflate;
mod frame;
mod message;
mod socket;
mod talk;
mod tunnel;

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha1::{Digest, Sha1};

pub use broadcast::Broadcast;
pub use decoder::{Decoder, Incoming};
pub use frame::FrameError;
pub use message::{Close, Message};
pub use socket::WebSocket;

use socket::State;
use talk::WebSocketProtocol;
use tunnel::Tunnel;

use crate::body::producer::BoxError;
use crate::message::protocol::{Protocol, UpgradedProtocol};
use crate::message::request::Request;
use crate::message::response::{IntoResponse, Response};
use crate::proto::head::Version;
use crate::proto::method::Method;
use crate::proto::status::Status;
use crate::routing::endpoint::Endpoint;
use crate::routing::handler::Flow;
use crate::routing::router::Router;

/// The text that is hashed together with the client's key (RFC 6455, 1.3).
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Settings and limits of a WebSocket; see [`Response::websocket`].
///
/// ```
/// use marmota_http::WebSocketOptions;
///
/// let mut options = WebSocketOptions::default();
/// assert_eq!((options.message_bytes_max, options.ping_after_ms), (1 << 20, 30_000));
/// options.message_bytes_max = 64 * 1024;
/// options.subprotocols = vec!["chat.v2".to_owned(), "chat".to_owned()];
/// options.origins = Some(vec!["https://app.example.org".to_owned()]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebSocketOptions {
    /// Maximum bytes of a received message, after decompression. Default: 1 MiB. A longer one ends
    /// the connection (1009).
    pub message_bytes_max: usize,
    /// How long a client may be silent before it gets a ping, in ms. Default: 30 s.
    pub ping_after_ms: u64,
    /// How long the answer to a ping may take, in ms; then the client is assumed to be gone (1006).
    /// Default: 20 s.
    pub pong_timeout_ms: u64,
    /// Whether messages are compressed if the client offers it (needs the feature `compression`).
    /// Default: false. If a message contains both a secret and text from another person, its length
    /// reveals the secret.
    pub compression: bool,
    /// The supported subprotocols, in order of preference. The first one that the client offers too
    /// is selected; see [`WebSocket::subprotocol`]. Default: none.
    pub subprotocols: Vec<String>,
    /// The pages from which browsers may connect, by their `Origin`: `https://example.org`, or `*`
    /// for any. Others are refused (403). Clients that are not browsers send no `Origin`, and are
    /// not restricted.
    ///
    /// Default: `None`, pages of the server's own origin and of those that
    /// [`crate::Server::allowed_origins`] names. The check is needed because browsers send a site's
    /// cookies from any page, and reach servers on their own machine.
    pub origins: Option<Vec<String>>,
}

impl Default for WebSocketOptions {
    fn default() -> Self {
        Self {
            message_bytes_max: 1 << 20,
            ping_after_ms: 30_000,
            pong_timeout_ms: 20_000,
            compression: false,
            subprotocols: Vec::new(),
            origins: None,
        }
    }
}

impl Router {
    /// Opens a WebSocket for each GET of this pattern (over HTTP/2, each CONNECT with `:protocol`),
    /// with default [`WebSocketOptions`]. The handler gets the socket; when it returns, the socket
    /// is closed, with 1000 or, after an error, with 1011.
    ///
    /// For options, and checks of the request, call [`Response::websocket`] in a handler.
    ///
    /// ```
    /// use marmota_http::Router;
    /// let router = Router::new().websocket("/echo", |socket| async move {
    ///     while let Some(message) = socket.receive().await {
    ///         socket.send(message).await?;
    ///     }
    ///     Ok(())
    /// });
    /// ```
    #[must_use]
    pub fn websocket<F, T>(self, pattern: &str, handler: F) -> Self
    where
        F: Fn(WebSocket) -> T + Send + Sync + 'static,
        T: Future<Output = Result<(), BoxError>> + 'static,
    {
        let options = WebSocketOptions::default();
        let endpoint = Endpoint::direct(move |request, out| {
            out.respond(Response::websocket(request, &options, &handler));
            Flow::Done
        });
        self.on(Method::Get, pattern, endpoint.with_runtime())
    }
}

impl Response {
    /// Opens a WebSocket, if the request is a handshake; otherwise returns an answer with the
    /// reason (400, 403, 426).
    ///
    /// The handler runs on the connection's own thread, so it need not be `Send` and must not
    /// block. It is dropped some seconds after its client has gone, if it has not returned.
    ///
    /// ```
    /// use marmota_http::{Request, Response, Status, WebSocketOptions};
    /// async fn room(request: Request) -> Result<Response, Status> {
    ///     let name = request.query_param("name").ok_or(Status::UNAUTHORIZED)?.into_owned();
    ///     let mut options = WebSocketOptions::default();
    ///     options.message_bytes_max = 4096;
    ///     Ok(Response::websocket(&request, &options, |socket| async move {
    ///         socket.send(format!("Hello, {name}!")).await?;
    ///         Ok(())
    ///     }))
    /// }
    /// ```
    pub fn websocket<F, T>(request: &Request, options: &WebSocketOptions, handler: F) -> Self
    where
        F: FnOnce(WebSocket) -> T,
        T: Future<Output = Result<(), BoxError>> + 'static,
    {
        let key = match check(request, options) {
            Ok(key) => key,
            Err(refusal) => return refusal,
        };
        let subprotocol = subprotocol(request, &options.subprotocols);
        let agreed = agree(request, options);
        let window_bits = agreed.as_ref().map(|(bits, _)| *bits);
        let state = Rc::new(RefCell::new(State::new(window_bits, subprotocol.clone())));
        let run = Box::pin(handler(WebSocket { state: Rc::clone(&state) }));
        let decoder = Decoder::new(options.message_bytes_max, window_bits.is_some());
        let protocol = WebSocketProtocol::new(
            decoder,
            state,
            run,
            (options.ping_after_ms, options.pong_timeout_ms),
        );
        let agreed = agreed.map(|(_, answer)| ("Sec-WebSocket-Extensions", answer));
        opened(key, subprotocol, agreed, UpgradedProtocol(Box::new(protocol)))
    }

    /// Opens a WebSocket as [`Response::websocket`] does, for another protocol: the payloads of
    /// binary messages are its bytes, one after the other; where a message begins or ends has no
    /// meaning. Nothing is compressed. A text message ends the connection (1003).
    ///
    /// ```
    /// # use marmota_http::{Protocol, ProtocolStep, Turn};
    /// use marmota_http::{Request, Response, WebSocketOptions};
    /// # struct Echo;
    /// # impl Protocol for Echo {
    /// #     fn advance(&mut self, turn: &mut Turn<'_>) -> ProtocolStep {
    /// #         ProtocolStep::Close { linger: false }
    /// #     }
    /// # }
    /// fn tunnel(request: &Request) -> Response {
    ///     let mut options = WebSocketOptions::default();
    ///     options.subprotocols = vec!["echo".to_owned()];
    ///     Response::websocket_tunnel(request, &options, Echo)
    /// }
    /// ```
    pub fn websocket_tunnel(
        request: &Request,
        options: &WebSocketOptions,
        protocol: impl Protocol,
    ) -> Self {
        let key = match check(request, options) {
            Ok(key) => key,
            Err(refusal) => return refusal,
        };
        let tunnel = Tunnel::new(Box::new(protocol), options);
        let subprotocol = subprotocol(request, &options.subprotocols);
        opened(key, subprotocol, None, UpgradedProtocol(Box::new(tunnel)))
    }
}

/// Returns the answer that opens a WebSocket (101), after which `successor` has the connection.
fn opened(
    key: Option<&[u8]>,
    subprotocol: Option<String>,
    extension: Option<(&'static str, String)>,
    successor: UpgradedProtocol,
) -> Response {
    let headers = [
        key.map(|key| ("Sec-WebSocket-Accept", accepted(key))),
        subprotocol.map(|name| ("Sec-WebSocket-Protocol", name)),
        extension,
    ];
    let mut response = Response::taken_over("websocket", successor);
    for (name, value) in headers.into_iter().flatten() {
        // Base64, tokens and constants are valid in a header.
        let _ = response.add_header(name.into(), value.into_bytes().into());
    }
    response
}

/// Checks the handshake (RFC 6455, 4.2.1) and the origin. Returns the key of the request, which
/// over HTTP/2 has none.
///
/// # Errors
/// The answer to a request that does not open a WebSocket here.
fn check<'a>(
    request: &'a Request,
    options: &WebSocketOptions,
) -> Result<Option<&'a [u8]>, Response> {
    let refuse = |status, text: &'static str| Err(Response::problem(status, text));
    if request.method() != Method::Get || request.version() == Version::Http10 {
        return refuse(Status::BAD_REQUEST, "a WebSocket must be opened with a GET of HTTP/1.1");
    }
    let has_stream = request.version() == Version::Http2;
    if has_stream && !has_word(request, "upgrade", "websocket") {
        let text = "over HTTP/2, a WebSocket must be opened with CONNECT and :protocol (RFC 8441)";
        return refuse(Status::BAD_REQUEST, text);
    }
    if !has_word(request, "upgrade", "websocket") || !has_word(request, "connection", "upgrade") {
        let text = "this is a WebSocket: send Upgrade: websocket and Connection: Upgrade";
        return Err(upgrade(text, "Upgrade", "websocket"));
    }
    if request.header("sec-websocket-version") != Some(b"13") {
        let text = "only version 13 is supported";
        return Err(upgrade(text, "Sec-WebSocket-Version", "13"));
    }
    let named =
        |name: &str| request.headers().filter(|(key, _)| key.eq_ignore_ascii_case(name)).count();
    let key = request.header("sec-websocket-key").unwrap_or_default();
    let is_key =
        named("sec-websocket-key") == 1 && BASE64.decode(key).is_ok_and(|key| key.len() == 16);
    if !is_key && !has_stream {
        return refuse(Status::BAD_REQUEST, "Sec-WebSocket-Key must be 16 bytes in base64");
    }
    if !request.body().is_empty() {
        return refuse(Status::BAD_REQUEST, "a request for a WebSocket must not have a body");
    }
    let Some(origins) = &options.origins else {
        request.check_site_strictly().map_err(IntoResponse::into_response)?;
        return Ok((!has_stream).then_some(key));
    };
    if let Some(origin) = request.header_text("origin")
        && !origins.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(origin))
    {
        return refuse(Status::FORBIDDEN, "pages of this origin may not connect");
    }
    Ok((!has_stream).then_some(key))
}

/// Returns a 426 with a header that names what is required.
fn upgrade(text: &'static str, name: &'static str, value: &'static str) -> Response {
    let mut answer = Response::problem(Status::UPGRADE_REQUIRED, text);
    // Constants are valid in a header.
    let _ = answer.add_header(name.into(), value.as_bytes().into());
    answer
}

/// Returns true if one of the headers of this name has this word in its comma-separated list.
fn has_word(request: &Request, name: &str, word: &str) -> bool {
    request
        .headers()
        .filter(|(key, _)| key.eq_ignore_ascii_case(name))
        .flat_map(|(_, value)| value.split(|&byte| byte == b','))
        .any(|item| item.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

/// Returns the value of `Sec-WebSocket-Accept` for a key.
fn accepted(key: &[u8]) -> String {
    BASE64.encode(Sha1::new().chain_update(key).chain_update(KEY_SUFFIX).finalize())
}

/// Returns the first supported subprotocol that the client offers.
fn subprotocol(request: &Request, spoken: &[String]) -> Option<String> {
    spoken.iter().find(|name| has_word(request, "sec-websocket-protocol", name)).cloned()
}

/// Returns the window and the answer of the compression that is agreed on, if any.
#[cfg(feature = "compression")]
fn agree(request: &Request, options: &WebSocketOptions) -> Option<(u8, String)> {
    let offers = |(key, value): (&str, &[u8])| {
        let named = key.eq_ignore_ascii_case("sec-websocket-extensions");
        named.then(|| deflate::agree(&String::from_utf8_lossy(value))).flatten()
    };
    options.compression.then(|| request.headers().find_map(offers)).flatten()
}

/// Returns none: without the feature `compression` no message is compressed.
#[cfg(not(feature = "compression"))]
fn agree(_: &Request, _: &WebSocketOptions) -> Option<(u8, String)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_accepted_as_in_the_standard() {
        assert_eq!(accepted(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
