//! Server-sent events (`text/event-stream`, the HTML standard of WHATWG): a streamed answer whose
//! pieces are events. Comments keep the connection alive while there are no events.

use std::fmt::Write as _;
use std::future::Future;

use crate::body::body_sender::{BodySender, Gone};
use crate::body::producer::{BodyStream, BoxError};
use crate::message::request::Request;
use crate::message::response::Response;

/// The time of silence before a comment is sent, in milliseconds. Proxies close connections that
/// are silent for half a minute, and a client that has disconnected is detected by it.
const HEARTBEAT_MS: u64 = 15_000;
/// The comment, which clients skip.
const HEARTBEAT: &[u8] = b":\n\n";

/// A server-sent event: a text with an optional name and id.
///
/// ```
/// use marmota_http::Event;
/// let event = Event::new("two\nlines").name("tick").id("7");
/// assert_eq!(event.to_string(), "event: tick\nid: 7\ndata: two\ndata: lines\n\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The fields other than the data, as they are sent.
    fields: String,
    /// The data, with any line ends.
    data: String,
}

impl Event {
    /// Returns an event with this data, of any number of lines. The client gets `\n` for each kind
    /// of line end.
    ///
    /// ```
    /// use marmota_http::Event;
    /// assert_eq!(Event::new("a\r\nb").to_string(), "data: a\ndata: b\n\n");
    /// ```
    pub fn new(data: impl Into<String>) -> Self {
        Self { fields: String::new(), data: data.into() }
    }

    /// Sets the name, by which a page selects its listener. Line ends, which a name cannot have,
    /// are left out. Default: `message`.
    ///
    /// ```
    /// use marmota_http::Event;
    /// assert_eq!(Event::new("1").name("added").to_string(), "event: added\ndata: 1\n\n");
    /// ```
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        self.field("event", name)
    }

    /// Sets the id, by which a client that reconnects names the last event it has received
    /// ([`Request::last_event_id`]). Line ends and NUL, which an id cannot have, are left out.
    /// Default: the id of the previous event.
    ///
    /// ```
    /// use marmota_http::Event;
    /// assert_eq!(Event::new("1").id("42").to_string(), "id: 42\ndata: 1\n\n");
    /// ```
    #[must_use]
    pub fn id(self, id: &str) -> Self {
        self.field("id", id)
    }

    /// Sets the time that the client waits before it reconnects, in milliseconds, from this event
    /// on. Default: the browser's, some seconds.
    ///
    /// ```
    /// use marmota_http::Event;
    /// assert_eq!(Event::new("1").retry_ms(500).to_string(), "retry: 500\ndata: 1\n\n");
    /// ```
    #[must_use]
    pub fn retry_ms(self, wait_ms: u64) -> Self {
        self.field("retry", &wait_ms.to_string())
    }

    /// Adds a field, without the characters that would end it.
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

/// A sender of events to one client, from any task or thread; see [`Response::events`] and
/// [`Response::event_channel`].
///
/// ```
/// use marmota_http::{Event, Request, Response, Router, TestRequest};
/// async fn progress(_: Request) -> Response {
///     let (mut events, response) = Response::event_channel(16 * 1024);
///     std::thread::spawn(move || {
///         for percent in [50, 100] {
///             events.send_blocking(&Event::new(percent.to_string()))?;
///         }
///         events.finish();
///         Ok::<_, marmota_http::Gone>(())
///     });
///     response
/// }
/// let router = Router::new().get("/progress", progress);
/// assert_eq!(router.call(TestRequest::get("/progress"))?.text(), "data: 50\n\ndata: 100\n\n");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Debug)]
pub struct EventSender(BodySender);

impl EventSender {
    /// Sends an event, once there is room for it.
    ///
    /// ```
    /// use marmota_http::{Event, Response};
    /// let response = Response::events(|mut events| async move {
    ///     events.send(&Event::new("hello")).await?;
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// [`Gone`] if the client takes no more.
    pub async fn send(&mut self, event: &Event) -> Result<(), Gone> {
        self.0.send(event.to_string()).await
    }

    /// Sends an event like [`EventSender::send`], but blocks the thread while it waits; not for
    /// handlers ([`BodySender::send_blocking`]).
    ///
    /// ```
    /// use marmota_http::{Event, Response};
    /// let (mut events, response) = Response::event_channel(1024);
    /// events.send_blocking(&Event::new("hello"))?;
    /// # Ok::<(), marmota_http::Gone>(())
    /// ```
    ///
    /// # Errors
    /// [`Gone`] if the client takes no more.
    pub fn send_blocking(&mut self, event: &Event) -> Result<(), Gone> {
        self.0.send_blocking(event.to_string())
    }

    /// Returns true if the client takes no more.
    ///
    /// ```
    /// use marmota_http::Response;
    /// let (events, response) = Response::event_channel(1024);
    /// drop(response);
    /// assert!(events.is_gone());
    /// ```
    pub fn is_gone(&self) -> bool {
        self.0.is_gone()
    }

    /// Ends the stream. The client reconnects after its waiting time, unless the next answer is a
    /// 204.
    ///
    /// ```
    /// use marmota_http::Response;
    /// let (events, response) = Response::event_channel(1024);
    /// events.finish();
    /// ```
    pub fn finish(self) {
        self.0.finish();
    }
}

impl Response {
    /// Returns a stream of the events that an asynchronous function sends, as
    /// [`BodyStream::write`]. A comment is sent after 15 s of silence.
    ///
    /// ```
    /// use marmota_http::{Event, Request, Response, Router, TestRequest};
    /// async fn ticks(request: Request) -> Response {
    ///     let last = request.last_event_id().and_then(|id| id.parse().ok()).unwrap_or(0);
    ///     Response::events(move |mut events| async move {
    ///         for tick in last + 1..last + 10 {
    ///             events.send(&Event::new("tick").id(&tick.to_string())).await?;
    ///         }
    ///         Ok(())
    ///     })
    /// }
    /// let router = Router::new().get("/ticks", ticks);
    /// let answer = router.call(TestRequest::get("/ticks").header("Last-Event-ID", "7"))?;
    /// assert!(answer.text().starts_with("id: 8\ndata: tick\n\n"));
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn events<F, T>(send: F) -> Self
    where
        F: FnOnce(EventSender) -> T,
        T: Future<Output = Result<(), BoxError>> + 'static,
    {
        Self::event_stream(BodyStream::write(|sender| send(EventSender(sender))))
    }

    /// Returns a sender of events, and the answer that has them, as [`BodyStream::channel`]: the
    /// sender works from any task or thread, and may be ahead of the client by `window_bytes`.
    ///
    /// ```
    /// use marmota_http::{Event, Response};
    /// let (mut events, response) = Response::event_channel(16 * 1024);
    /// assert_eq!(response.content_type(), "text/event-stream");
    /// events.send_blocking(&Event::new("first"))?;
    /// # Ok::<(), marmota_http::Gone>(())
    /// ```
    pub fn event_channel(window_bytes: usize) -> (EventSender, Self) {
        let (sender, body) = BodyStream::channel(window_bytes);
        (EventSender(sender), Self::event_stream(body))
    }

    /// Returns the answer of a body of events that are written already ([`Event`]'s `Display`), for
    /// producers that share the bytes of an event between clients. It is never cached, and a comment
    /// is sent after 15 s of silence.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use marmota_http::{BodyStream, Event, Response};
    /// let event: std::sync::Arc<[u8]> = Event::new("hello").to_string().into_bytes().into();
    /// let body = BodyStream::new(move |out: &mut Vec<u8>| {
    ///     out.extend_from_slice(&event);
    ///     Ok(ControlFlow::Break(()))
    /// });
    /// assert_eq!(Response::event_stream(body).content_type(), "text/event-stream");
    /// ```
    pub fn event_stream(body: BodyStream) -> Self {
        let body = body.with_heartbeat(HEARTBEAT_MS, HEARTBEAT);
        let mut response = Self::streamed("text/event-stream", body);
        // The name and the value are valid.
        let _ = response.add_header("Cache-Control".into(), b"no-store"[..].into());
        response
    }
}

impl Request {
    /// Returns the id of the last event that a client has received before it reconnected (the
    /// header `Last-Event-ID`).
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// async fn show(request: Request) -> String {
    ///     request.last_event_id().unwrap_or("from the start").to_owned()
    /// }
    /// let router = Router::new().get("/", show);
    /// assert_eq!(router.call(TestRequest::get("/").header("Last-Event-ID", "7"))?.text(), "7");
    /// assert_eq!(router.call(TestRequest::get("/"))?.text(), "from the start");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
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
