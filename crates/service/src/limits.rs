//! Limits on streams.

use std::time::Duration;

use crate::peer::Bounds;

/// The limits on a server's streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) item_bytes_max: usize,
    pub(crate) stream_bytes_max: u64,
    pub(crate) streams_max: usize,
    pub(crate) reconnect_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Limits {
    pub(crate) const DEFAULT: Self = Self {
        item_bytes_max: 1 << 20,
        stream_bytes_max: 1 << 30,
        streams_max: 64,
        reconnect_timeout: Duration::from_secs(300),
    };

    /// Returns the limits of a connection.
    pub(crate) const fn bounds(&self) -> Bounds {
        Bounds { streams_max: self.streams_max, reconnect_timeout: self.reconnect_timeout }
    }
}
