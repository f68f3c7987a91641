//! The messages of a WebSocket with live queries: JSON texts.
//!
//! ```text
//! client  {"type":"subscribe","id":"a","url":"/api/person?limit=2","after":"5f2b…0007"}
//!         {"type":"unsubscribe","id":"a"}
//!         {"type":"token","token":"ms_…"}
//! server  {"id":"a","type":"snapshot","position":"5f2b…0009","data":{"rows":[…],"next":null}}
//!         {"id":"a","type":"patch","position":"5f2b…000c","data":[{"op":"remove","path":"/rows/0"}]}
//!         {"id":"a","type":"error","error":{"type":"urn:marmota:error:invalid",…}}
//!         {"id":"a","type":"unsubscribed"}
//! ```
//!
//! The id is chosen by the client. An error without an id concerns a message that has none.

use marmota_model::{Error, ErrorKind, json};
use marmota_store::live::ResumePoint;
use marmota_web::{ApiError, ErrorDocument};
use serde::Deserialize;

/// The maximum length of an id in bytes.
const ID_BYTES_MAX: usize = 100;

/// A message of a client.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ClientMessage {
    /// Subscribes to a page.
    Subscribe {
        /// Names the subscription in all its messages.
        id: String,
        /// The URL of the page: absolute on this server, or relative to that of the API.
        url: String,
        /// The position of the last message that the client has received.
        after: Option<String>,
    },
    /// Ends a subscription.
    Unsubscribe { id: String },
    /// Replaces the token of the caller.
    Token { token: String },
}

impl ClientMessage {
    /// Parses a message.
    ///
    /// # Errors
    /// 400 with what is allowed.
    pub(super) fn parse(text: &str) -> Result<Self, ApiError> {
        let message: Self = serde_json::from_str(text).map_err(|error| {
            ApiError::bad_request(format!(
                "the message is not valid: {error}; send \
                 {{\"type\":\"subscribe\",\"id\":…,\"url\":…}}, or a message with the type \
                 `unsubscribe` or `token`"
            ))
        })?;
        if let Self::Subscribe { id, .. } = &message
            && (id.is_empty() || id.len() > ID_BYTES_MAX)
        {
            let message = format!("`id` must have 1 to {ID_BYTES_MAX} bytes, but has {}", id.len());
            return Err(ApiError::bad_request(message));
        }
        Ok(message)
    }
}

/// Returns the begin of a message on a subscription, or of one without.
fn begin(id: Option<&str>) -> Vec<u8> {
    let mut out = vec![b'{'];
    if let Some(id) = id {
        out.extend_from_slice(b"\"id\":");
        json::write_string(&mut out, id);
        out.push(b',');
    }
    out
}

/// Returns a message as text.
fn text(message: Vec<u8>) -> String {
    match String::from_utf8(message) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

/// Returns the part of an update that is the same for all subscriptions of an URL.
pub(super) fn update_end(name: &str, position: ResumePoint, data: &[u8]) -> Vec<u8> {
    let begin = format!("\"type\":\"{name}\",\"position\":\"{position}\",\"data\":");
    [begin.as_bytes(), data, b"}"].concat()
}

/// Returns the message for an update with this [end](update_end).
pub(super) fn update(id: &str, end: &[u8]) -> String {
    let mut out = begin(Some(id));
    out.extend_from_slice(end);
    text(out)
}

/// Returns the message for the end of a subscription by its client.
pub(super) fn unsubscribed(id: &str) -> String {
    let mut out = begin(Some(id));
    out.extend_from_slice(b"\"type\":\"unsubscribed\"}");
    text(out)
}

/// Returns the message for an error, which ends the subscription `id`.
pub(super) fn error(id: Option<&str>, error: &ApiError) -> String {
    let mut out = begin(id);
    out.extend_from_slice(b"\"type\":\"error\",\"error\":");
    let document: ErrorDocument<'_> = error.document();
    document.log();
    document.write(&mut out);
    out.push(b'}');
    text(out)
}

/// The error for a subscription whose store was closed.
pub(super) fn closed() -> ApiError {
    Error::new(ErrorKind::Closed, "the database was closed").into()
}
