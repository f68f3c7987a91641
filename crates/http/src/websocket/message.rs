//! What is said over a WebSocket: messages, and why it has ended.

/// A message, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Text.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
}

impl Message {
    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Binary(_) => None,
        }
    }

    /// The bytes of either.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }

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

/// Why a WebSocket has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Close {
    /// A code of RFC 6455, 7.4.1, or of one's own (4000 to 4999). 1005 if the client gave none,
    /// 1006 if it has gone without a word.
    pub code: u16,
    /// What was said besides; up to 123 bytes.
    pub reason: String,
}

impl Close {
    /// 1000: all is said.
    pub const NORMAL: u16 = 1000;
    /// 1001: the server is going down, or the client has left the page.
    pub const GOING_AWAY: u16 = 1001;
    /// 1008: the client does what it may not.
    pub const POLICY: u16 = 1008;
    /// 1011: the server has failed.
    pub const ERROR: u16 = 1011;
    pub(super) const NO_CODE: u16 = 1005;
    pub(super) const GONE: u16 = 1006;
}
