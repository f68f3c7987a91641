//! Server-sent events (`text/event-stream`): a streamed answer whose pieces are events, kept
//! alive while nothing happens.

use std::fmt::Write as _;
use std::future::Future;

use crate::body::body_sender::{BodySender, Gone};
use crate::body::producer::{BodyStream, BoxError};
use crate::message::request::Request;
use crate::message::response::Response;

/// How long a stream of events is silent before a comment is sent: proxies close connections
/// that are silent for half a minute, and a client that has gone is found out by it.
const HEARTBEAT_MS: u64 = 15_000;
/// What is sent then; clients pass it over.
const HEARTBEAT: &[u8] = b":\n\n";

/// One event.
///
/// ```
/// use marmota_http::Event;
/// let event = Event::new("two\nlines").name("tick").id("7");
/// assert_eq!(event.to_string(), "event: tick\nid: 7\ndata: two\ndata: lines\n\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// All of it but its data and its end.
    fields: String,
    data: String,
}

impl Event {
    /// An event with this data, of any number of lines. Line ends of every kind are one to the
    /// client.
    pub fn new(data: impl Into<String>) -> Self {
        Self { fields: String::new(), data: data.into() }
    }

    /// What kind of event it is; `message` to the client when it is not said. Line ends, which a
    /// name cannot have, are left out.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        self.field("event", name)
    }

    /// By what the client says which event was its last, when it comes back
    /// ([`Request::last_event_id`]). Line ends and NUL, which an id cannot have, are left out.
    #[must_use]
    pub fn id(self, id: &str) -> Self {
        self.field("id", id)
    }

    /// How long the client waits before it comes back.
    #[must_use]
    pub fn retry_ms(self, wait_ms: u64) -> Self {
        self.field("retry", &wait_ms.to_string())
    }

    fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push_str(name);
        self.fields.push_str(": ");
        self.fields.extend(value.chars().filter(|c| !matches!(c, '\r' | '\n' | '\0')));
        self.fields.push('\n');
        self
    }
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.fields)?;
        let mut rest = &*self.data;
        loop {
            let end = rest.find(['\r', '\n']).unwrap_or(rest.len());
            writeln!(f, "data: {}", &rest[..end])?;
            rest = match rest[end..].strip_prefix("\r\n") {
                Some(rest) => rest,
                None if end < rest.len() => &rest[end + 1..],
                None => break,
            };
        }
        f.write_char('\n')
    }
}

/// Sends events, from wherever it is.
#[derive(Debug)]
pub struct EventSender(BodySender);

impl EventSender {
    /// Sends an event, once there is room for it.
    ///
    /// # Errors
    /// [`Gone`] when the client takes no more.
    pub async fn send(&mut self, event: &Event) -> Result<(), Gone> {
        self.0.send(event.to_string()).await
    }

    /// As [`EventSender::send`], stopping this thread meanwhile; see
    /// [`BodySender::send_blocking`].
    ///
    /// # Errors
    /// As there.
    pub fn send_blocking(&mut self, event: &Event) -> Result<(), Gone> {
        self.0.send_blocking(event.to_string())
    }

    /// Whether the client takes no more.
    pub fn is_gone(&self) -> bool {
        self.0.is_gone()
    }

    /// Ends the stream; the client will come back after a while.
    pub fn finish(self) {
        self.0.finish();
    }
}

impl Response {
    /// A stream of the events that an asynchronous function sends, as [`BodyStream::write`].
    ///
    /// ```
    /// use marmota_http::{Event, Request, Response};
    /// async fn ticks(request: Request) -> Response {
    ///     let last = request.last_event_id().and_then(|id| id.parse().ok()).unwrap_or(0);
    ///     Response::events(move |mut events| async move {
    ///         for tick in last + 1..last + 10 {
    ///             events.send(&Event::new("tick").id(&tick.to_string())).await?;
    ///         }
    ///         Ok(())
    ///     })
    /// }
    /// ```
    pub fn events<F, T>(send: F) -> Self
    where
        F: FnOnce(EventSender) -> T,
        T: Future<Output = Result<(), BoxError>> + 'static,
    {
        Self::of_events(BodyStream::write(|sender| send(EventSender(sender))))
    }

    /// A stream of events, and what sends them from any task or thread, as
    /// [`BodyStream::channel`].
    pub fn event_channel(window_bytes: usize) -> (EventSender, Self) {
        let (sender, body) = BodyStream::channel(window_bytes);
        (EventSender(sender), Self::of_events(body))
    }

    fn of_events(body: BodyStream) -> Self {
        let body = body.with_heartbeat(HEARTBEAT_MS, HEARTBEAT);
        let mut response = Self::streamed("text/event-stream", body);
        // The names and values are a header's.
        let _ = response.add_header("Cache-Control".into(), b"no-store"[..].into());
        response
    }
}

impl Request {
    /// Which event a client that comes back has seen last, if it says so.
    pub fn last_event_id(&self) -> Option<&str> {
        self.header_text("last-event-id").filter(|id| !id.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_cannot_be_broken_out_of() {
        for (event, text) in [
            (Event::new(""), "data: \n\n"),
            (Event::new("a\r\nb\rc\n"), "data: a\ndata: b\ndata: c\ndata: \n\n"),
            (Event::new("\n\nid: 1"), "data: \ndata: \ndata: id: 1\n\n"),
            (Event::new("a").id("1\ndata: b\0").retry_ms(5), "id: 1data: b\nretry: 5\ndata: a\n\n"),
        ] {
            assert_eq!(event.to_string(), text);
        }
    }
}
