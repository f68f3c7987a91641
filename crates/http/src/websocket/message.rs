//! The values that handlers exchange with a WebSocket: messages, and the reason of its end.

/// A complete message. Text, `&str`, `Vec<u8>` and `&[u8]` convert into it, so most calls of
/// [`WebSocket::send`](crate::WebSocket::send) need no constructor.
///
/// ```
/// use marmota_http::Message;
///
/// let message = Message::from("hello");
/// assert_eq!((message.text(), message.as_bytes()), (Some("hello"), &b"hello"[..]));
/// assert_eq!(Message::from(vec![1, 2]).text(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Text; it is valid UTF-8.
    Text(String),
    /// Bytes with a meaning that the program defines.
    Binary(Vec<u8>),
}

impl Message {
    /// Returns the text; `None` for bytes.
    ///
    /// ```
    /// use marmota_http::Message;
    /// assert_eq!(Message::Text("hi".to_owned()).text(), Some("hi"));
    /// ```
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Binary(_) => None,
        }
    }

    /// Returns the payload of either kind.
    ///
    /// ```
    /// use marmota_http::Message;
    /// assert_eq!(Message::Binary(vec![1, 2]).as_bytes(), [1, 2]);
    /// ```
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }

    /// Returns the payload without a copy.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Binary(bytes)
    }
}

impl From<&[u8]> for Message {
    fn from(bytes: &[u8]) -> Self {
        Self::Binary(bytes.to_vec())
    }
}

/// The reason why a WebSocket has ended; see [`WebSocket::closed`](crate::WebSocket::closed).
///
/// ```
/// use marmota_http::websocket::Close;
///
/// let close = Close { code: Close::GOING_AWAY, reason: String::new() };
/// assert_eq!(close.code, 1001);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Close {
    /// A code of RFC 6455, 7.4.1, or one that the program defines (4000 to 4999). 1005 if the
    /// client gave none, 1006 if it has gone without a Close.
    pub code: u16,
    /// A text for people, up to 123 bytes; often empty.
    pub reason: String,
}

impl Close {
    /// 1000: the purpose of the connection is fulfilled.
    pub const NORMAL: u16 = 1000;
    /// 1001: the server shuts down, or the client has left the page.
    pub const GOING_AWAY: u16 = 1001;
    /// 1008: the client violates a rule of the program.
    pub const POLICY: u16 = 1008;
    /// 1011: the server has failed.
    pub const ERROR: u16 = 1011;
    /// 1005: the Close had no code. It is never sent.
    pub(super) const NO_CODE: u16 = 1005;
    /// 1006: there was no Close. It is never sent.
    pub(super) const GONE: u16 = 1006;
}
