//! All limits and timeouts of the server in one place, on by default, and the speed at which a body
//! must arrive ([`Pace`]).

/// The limits and timeouts of a server ([`Server::limits`](crate::Server::limits)). All are on by
/// default. Change single fields and keep the rest:
///
/// ```
/// use marmota_http::Limits;
/// let limits = Limits { body_bytes_max: 64 * 1024, ..Limits::default() };
/// assert_eq!(limits.head_bytes_max, 16 * 1024);
/// ```
///
/// The number in parentheses is the status of the answer when a limit is exceeded.
///
/// Times are checked by a sweep, so a connection may live up to a quarter longer (at most a second)
/// than its timeout.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The maximum number of open connections of the whole server. A further one is answered 503
    /// and closed. Default: 65,536.
    pub connections_max: usize,
    /// The number of descriptors that connections leave free for files and databases of handlers,
    /// at most a sixteenth of the process' limit. A connection beyond is answered 503 and closed;
    /// open ones are kept. Default: 256.
    pub descriptors_reserved: usize,
    /// The maximum number of bytes of a request's head, from the method to the empty line (431).
    /// Default: 16 KiB.
    pub head_bytes_max: usize,
    /// The maximum number of headers of a request (431). Default: 100.
    pub headers_max: usize,
    /// The maximum number of bytes of the request target (414). Default: 8 KiB.
    pub target_bytes_max: usize,
    /// The maximum number of bytes of a request's body (413), unless the route has its own limit
    /// ([`Endpoint::body_bytes_max`](crate::Endpoint::body_bytes_max)). Default: 2 MiB.
    pub body_bytes_max: usize,
    /// The maximum number of bytes of bodies that the whole server holds for requests that are not
    /// answered yet. A body that would need more is answered 503 with `Retry-After`. Default: 256
    /// MiB.
    ///
    /// It counts bodies that are gathered before their handler runs and did not arrive in one piece
    /// with their head. While more than half of it is used, bodies must arrive eight times as fast
    /// and may pause a quarter of the time.
    pub held_body_bytes_max: usize,
    /// The same limit for one HTTP/2 connection: further bodies wait until those before are
    /// answered. A single body may be longer, as far as its route allows. A body without a declared
    /// length counts as the longest that its route allows, until it is complete. Default: 16 MiB.
    pub connection_body_bytes_max: usize,
    /// The time from the start of a connection until requests are possible, where TLS is negotiated
    /// or a proxy names its client, in milliseconds. Default: 10 s.
    pub handshake_timeout_ms: u64,
    /// The time from the first byte of a request to the end of its head, in milliseconds (408).
    /// Default: 10 s.
    pub header_timeout_ms: u64,
    /// The time in which a body may make no progress, in milliseconds (408). Bytes that arrive
    /// return a part of it, see [`Limits::body_rate_min`]. Default: 10 s.
    pub body_timeout_ms: u64,
    /// The bytes per second at which a body must arrive once `body_timeout_ms` is used up. Each
    /// byte extends the deadline by its share, up to `body_timeout_ms` from then on. Default:
    /// 1,024.
    pub body_rate_min: u64,
    /// The time between an answer and the next request on a connection, in milliseconds, after
    /// which the connection is closed. Default: 60 s.
    pub idle_timeout_ms: u64,
    /// The time without progress in sending an answer, in milliseconds, after which the connection
    /// is dropped. Default: 30 s.
    pub write_timeout_ms: u64,
    /// The maximum number of pipelined requests that are answered before the answers are sent and
    /// other connections served. Default: 256.
    pub pipelined_max: usize,
    /// The bytes of unsent answers above which the next request of a connection waits; on an HTTP/2
    /// connection only if more than six answers wait for the client's windows. Default: 256 KiB.
    pub unsent_bytes_max: usize,
    /// The bytes of answers that the whole server holds for clients that have not read them. Above
    /// this, the connections that have made no progress for longest are ended, and among equals
    /// those with most bytes. The socket buffers of the kernel are not counted. Default: 256 MiB.
    pub unread_bytes_max: usize,
    /// The maximum number of concurrent requests on one HTTP/2 connection. Default: 100.
    pub streams_max: u32,
    /// The maximum number of HTTP/2 frames per second on a connection that carry neither requests
    /// nor bodies (PRIORITY, WINDOW_UPDATE, PING, SETTINGS, RST_STREAM, empty DATA, unknown ones),
    /// beyond those that requests, bodies and answers explain. Ten times as many may arrive at
    /// once. A connection with more is ended by GOAWAY (ENHANCE_YOUR_CALM). Default: 1,000.
    pub control_frames_per_second_max: u32,
    /// The maximum number of requests on one connection, after which it is closed. Default: `None`,
    /// no limit.
    pub requests_per_connection_max: Option<u32>,
    /// The time for requests in progress after a shutdown was requested, in milliseconds. Default:
    /// 10 s.
    pub drain_timeout_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 65_536,
            descriptors_reserved: 256,
            head_bytes_max: 16 * 1024,
            headers_max: 100,
            target_bytes_max: 8 * 1024,
            body_bytes_max: 2 * 1024 * 1024,
            held_body_bytes_max: 256 * 1024 * 1024,
            connection_body_bytes_max: 16 * 1024 * 1024,
            handshake_timeout_ms: 10_000,
            header_timeout_ms: 10_000,
            body_timeout_ms: 10_000,
            body_rate_min: 1_024,
            idle_timeout_ms: 60_000,
            write_timeout_ms: 30_000,
            pipelined_max: 256,
            unsent_bytes_max: 256 * 1024,
            unread_bytes_max: 256 * 1024 * 1024,
            streams_max: 100,
            control_frames_per_second_max: 1_000,
            requests_per_connection_max: None,
            drain_timeout_ms: 10_000,
        }
    }
}

impl Limits {
    /// Returns the interval at which deadlines are checked, in milliseconds: a quarter of the
    /// shortest timeout, from 10 ms to 1 s.
    pub(crate) fn sweep_ms(&self) -> u64 {
        let shortest = self
            .header_timeout_ms
            .min(self.handshake_timeout_ms)
            .min(self.body_timeout_ms)
            .min(self.idle_timeout_ms)
            .min(self.write_timeout_ms)
            .min(self.drain_timeout_ms);
        (shortest / 4).clamp(10, 1_000)
    }
}

/// The speed at which a body must arrive: a time for which it may pause, and the bytes that return
/// a part of that time. So a slow but steady client is served, and one that sends a byte now and
/// then (Slowloris) is not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The time for which a body may pause.
    pub(crate) rest_ms: u64,
    /// The bytes that return a second.
    rate_min: u64,
}

impl Pace {
    /// Returns the pace of these limits; a faster one if the budget of bodies is `tight`.
    pub(crate) fn of(limits: &Limits, tight: bool) -> Self {
        let (rest_ms, rate_min) = (limits.body_timeout_ms, limits.body_rate_min.max(1));
        match tight {
            false => Self { rest_ms, rate_min },
            true => Self { rest_ms: rest_ms / 4, rate_min: rate_min.saturating_mul(8) },
        }
    }

    /// Returns the time for which a body may pause from now on, if that was `left_ms` before this
    /// number of bytes arrived.
    pub(crate) fn after(self, left_ms: u64, bytes: usize) -> u64 {
        let earned_ms = (bytes as u64).saturating_mul(1_000) / self.rate_min;
        left_ms.saturating_add(earned_ms).min(self.rest_ms)
    }
}
