//! How much of a stream's a server takes.

use std::time::Duration;

use crate::link::streams::Bounds;
use crate::services::Services;

/// See the module.
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

    /// What a connection is held to.
    pub(crate) const fn bounds(&self) -> Bounds {
        Bounds { streams_max: self.streams_max, reconnect_timeout: self.reconnect_timeout }
    }
}

impl Services {
    /// Bytes of one item of a caller's [`crate::ItemStream`] at most, as JSON; 1 MiB by default. There
    /// may be any number of them.
    pub fn item_bytes_max(self, bytes: usize) -> Self {
        self.with(|settings| settings.limits.item_bytes_max = bytes)
    }

    /// Bytes of a caller's [`crate::ByteStream`] at most, 1 GiB by default.
    pub fn stream_bytes_max(self, bytes: u64) -> Self {
        self.with(|settings| settings.limits.stream_bytes_max = bytes)
    }

    /// Streams of one connection at once, 64 by default: as many parameters, and as many results.
    /// One more is refused as [`marmota_model::ErrorKind::Busy`]. Each holds up to 64 KiB that its
    /// receiver has not taken.
    pub fn streams_max(self, streams: usize) -> Self {
        self.with(|settings| settings.limits.streams_max = streams)
    }

    /// How long a stream by a connection may stand still because of the caller, 5 minutes by default: one
    /// that sends nothing while the method waits, or takes nothing while there is something for it.
    /// It ends with [`marmota_model::ErrorKind::Timeout`] then. For requests by themselves the
    /// server's own limits hold.
    pub fn stream_timeout(self, time: Duration) -> Self {
        self.with(|settings| settings.limits.reconnect_timeout = time)
    }
}
