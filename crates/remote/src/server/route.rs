//! The protocol as a route of the HTTP server: a client upgrades the connection, and packets
//! follow. So it uses the server's sockets, backends, limits and back-pressure.

use std::sync::Arc;

use marmota_http::{
    Endpoint, Flow, IntoResponse, Method, Request, Response, ResponseWriter, Router, Status,
};
use marmota_rpc::{Credential, upgraded};

use super::Service;
use super::peer::Peer;
use super::settings::Settings;
use crate::codec::contract::{PATH, UPGRADE};

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
    let peer = Peer::new(Arc::clone(settings), Credential::of_request(request));
    out.respond(upgraded(request, UPGRADE, peer).unwrap_or_else(|_| {
        let text = "Clients of Marmota request an upgrade to `marmota` here; other clients use \
                    REST.\n";
        Response::text(text).with_status(Status::UPGRADE_REQUIRED)
    }));
    Flow::Done
}
