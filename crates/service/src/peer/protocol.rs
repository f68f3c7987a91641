//! The protocol between peers: where it begins over HTTP, and the messages that are not
//! calls of a program's methods.

use std::sync::Arc;

/// The value of the `Upgrade` header.
pub(crate) const UPGRADE: &str = "marmota-services";
/// The path of the endpoint.
pub(crate) const PATH: &str = "/-/services";

/// Requests a service's contract.
pub(crate) const CONTRACT: &str = "-.contract";
/// Releases the instance of a stub; a notification.
pub(crate) const RELEASE: &str = "-.release";
/// Identifies the client by its secret; a notification.
pub(crate) const CLIENT: &str = "-.client";
/// Announces that the sender disconnects; a notification. A client does so for good. A server has
/// executed none of the calls that it has not answered, so the client sends them again.
pub(crate) const LEAVE: &str = "-.leave";
/// Reports that a call has added its caller to a list ([`crate::Subscribers`]), so that the client
/// repeats it on the next connection; a notification.
pub(crate) const SUBSCRIBED: &str = "-.subscribed";
/// Reports that the caller was removed from a list; a notification.
pub(crate) const UNSUBSCRIBED: &str = "-.unsubscribed";

/// Returns the message with [`LEAVE`].
pub(crate) fn leave() -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{LEAVE}\",\"params\":[]}}").into_bytes()
}

/// A message, shared if it is kept for resending.
pub(crate) type Message = Arc<Vec<u8>>;
