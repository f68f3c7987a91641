//! Limits on streams.

use std::time::Duration;

use crate::link::streams::Bounds;
use crate::services::Services;

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

impl Services {
    /// Sets the maximum size of one item of a caller's [`crate::ItemStream`], as JSON. Default: 1
    /// MiB. The number of items is not limited.
    pub fn item_bytes_max(self, bytes: usize) -> Self {
        self.with(|settings| settings.limits.item_bytes_max = bytes)
    }

    /// Sets the maximum size of a caller's [`crate::ByteStream`]. Default: 1 GiB.
    pub fn stream_bytes_max(self, bytes: u64) -> Self {
        self.with(|settings| settings.limits.stream_bytes_max = bytes)
    }

    /// Sets the maximum number of concurrent streams of one connection, for parameters and for
    /// results each. Default: 64. More streams are refused with [`marmota_model::ErrorKind::Busy`].
    /// Each buffers up to 64 KiB that its receiver has not read.
    pub fn streams_max(self, streams: usize) -> Self {
        self.with(|settings| settings.limits.streams_max = streams)
    }

    /// Sets how long a stream on a connection may stall because of the caller: one that sends
    /// nothing while the method waits, or reads nothing while data is available. Default: 5
    /// minutes. Then the stream ends with [`marmota_model::ErrorKind::Timeout`]. For single
    /// requests the server's own limits apply.
    pub fn stream_timeout(self, time: Duration) -> Self {
        self.with(|settings| settings.limits.reconnect_timeout = time)
    }
}
