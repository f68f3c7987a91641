//! The protocol as a route of the HTTP server: a client upgrades the connection, and packets
//! follow. So it uses the server's sockets, backends, limits and back-pressure.

use std::sync::Arc;
use std::time::Instant;

use marmota_http::{
    Endpoint, Flow, IntoResponse, Method, Protocol, ProtocolStep, Request, Response,
    ResponseWriter, Router, Status, Turn, WebSocketOptions,
};

use super::settings::Settings;
use super::{Service, peer};
use crate::codec::contract::UPGRADE;

/// The path of the endpoint.
pub(crate) const PATH: &str = "/-/operations";

impl Service {
    /// Returns the routes for clients, under `/api`: see [`Service::router_at`].
    ///
    /// ```no_run
    /// # fn serve(store: marmota_store::Store) -> Result<(), marmota_http::ServerError> {
    /// use marmota_http::Server;
    /// use marmota_remote::Service;
    ///
    /// // Clients open `unix:/run/people.sock`.
    /// Server::bind("unix:/run/people.sock")?.run(Service::new(&store).router())
    /// # }
    /// ```
    #[must_use]
    pub fn router(&self) -> Router {
        self.router_at("/api")
    }

    /// Returns the routes for clients that use the URL `http://HOST:PORT/PREFIX`; they can be
    /// combined with those of REST. A server with the routes of a store with accounts does not
    /// start, unless clients are authenticated ([`Service::authenticate`], [`Service::admit`]) or
    /// [`Service::allow_anonymous`] was called.
    #[must_use]
    pub fn router_at(&self, prefix: &str) -> Router {
        let path = format!("{}{PATH}", prefix.trim_end_matches('/'));
        if let Err(error) = self.check_accounts() {
            return Router::new().refuse(&path, error.message());
        }
        let settings = Arc::clone(&self.0);
        let endpoint = Endpoint::direct(move |request, out| answer(&settings, request, out));
        let local = self.0.store.capability().local_server.as_deref();
        Router::new().local_database(local).on(Method::Get, &path, endpoint)
    }
}

fn answer(settings: &Arc<Settings>, request: &Request, out: &mut ResponseWriter<'_>) -> Flow {
    if let Err(refused) = request.check_site_strictly() {
        out.respond(refused.into_response());
        return Flow::Done;
    }
    let bearer = request.header_text("authorization").and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    let credential = bearer.unwrap_or_default().as_bytes().to_vec();
    let peer = Carried(peer::Peer::new(Arc::clone(settings), credential));
    out.respond(carried(request, UPGRADE, peer).unwrap_or_else(|_| {
        let text = "Clients of Marmota ask for an upgrade to `marmota` here; others use REST.\n";
        Response::text(text).with_status(Status::UPGRADE_REQUIRED)
    }));
    Flow::Done
}

/// Returns the response to a request for a packet protocol: an upgrade of the connection to `name`,
/// or a WebSocket with that subprotocol.
///
/// # Errors
/// Returns the protocol, if the request requires neither.
pub fn carried<P: Protocol>(
    request: &Request,
    name: &'static str,
    protocol: P,
) -> Result<Response, P> {
    let upgrades = request.header_text("upgrade").unwrap_or_default();
    if upgrades.eq_ignore_ascii_case(name) {
        return Ok(Response::upgraded(name, protocol));
    }
    let offered = request.header_text("sec-websocket-protocol").unwrap_or_default();
    let offers = offered.split(',').any(|word| word.trim().eq_ignore_ascii_case(name));
    if !upgrades.eq_ignore_ascii_case("websocket") || !offers {
        return Err(protocol);
    }
    let mut options = WebSocketOptions::default();
    options.subprotocols = vec![name.to_owned()];
    // Otherwise a page in a browser could send requests to any server that the browser's machine
    // can reach.
    options.origins = Some(Vec::new());
    Ok(Response::websocket_tunnel(request, &options, protocol))
}

/// A peer on a connection of the HTTP server.
struct Carried(peer::Peer);

impl Protocol for Carried {
    fn advance(&mut self, turn: &mut Turn<'_>) -> ProtocolStep {
        let hungry = self.0.is_hungry();
        let come = if hungry { turn.input } else { &[] };
        self.0.go_on(come, turn.output, &mut turn.context);
        turn.used = come.len();
        if self.0.is_closing() {
            return ProtocolStep::Close { linger: true };
        }
        // As for an idle HTTP connection: the server does not wait for a silent client.
        if turn.ended || turn.is_draining() && self.0.is_idle() {
            return ProtocolStep::Close { linger: false };
        }
        if self.0.has_more() {
            return ProtocolStep::More;
        }
        let deadline_ms = self.0.deadline().map_or(u64::MAX, |at| {
            let left = at.saturating_duration_since(Instant::now()).as_millis();
            turn.now_ms().saturating_add(u64::try_from(left).unwrap_or(u64::MAX).max(1))
        });
        ProtocolStep::Wait { hungry: self.0.is_hungry(), deadline_ms }
    }
}
