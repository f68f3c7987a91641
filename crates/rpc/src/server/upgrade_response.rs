//! The response to a client that upgrades its connection.

use marmota_http::{Request, Response, WebSocketOptions};

use super::protocol::ServerProtocol;
use super::served_connection::ServedConnection;

/// Returns the response to a request for a protocol: an upgrade of the connection to `name`, or a
/// WebSocket with that subprotocol. Pages of other sites may not open the WebSocket; check the
/// request's site for the upgrade ([`Request::check_site_strictly`]).
///
/// # Errors
/// Returns the protocol, if the request requires neither.
pub fn upgraded<P: ServerProtocol + 'static>(
    request: &Request,
    name: &'static str,
    protocol: P,
) -> Result<Response, P> {
    let upgrades = request.header_text("upgrade").unwrap_or_default();
    if upgrades.eq_ignore_ascii_case(name) {
        return Ok(Response::upgraded(name, ServedConnection(protocol)));
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
    Ok(Response::websocket_tunnel(request, &options, ServedConnection(protocol)))
}
