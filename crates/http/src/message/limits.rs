//! Every limit and timeout of the server in one place, all on by default.

/// What the server allows. Change single fields and leave the rest:
///
/// ```
/// use marmota_http::Limits;
/// let limits = Limits { body_bytes_max: 64 * 1024, ..Limits::default() };
/// assert_eq!(limits.head_bytes_max, 16 * 1024);
/// ```
///
/// Times are checked by a sweep, so a connection may live up to a quarter longer (at most a
/// second) than its timeout says.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections open at once in the whole server; one more is answered 503 and closed.
    pub connections_max: usize,
    /// Descriptors that connections leave free for what handlers open, files and databases; a
    /// sixteenth of what the process may have is the most. A connection beyond is answered 503 and
    /// closed, and those that are there stay.
    pub descriptors_reserved: usize,
    /// Bytes of a request's head, from the method to the empty line (431).
    pub head_bytes_max: usize,
    /// Header lines in a request (431).
    pub headers_max: usize,
    /// Bytes of the request target (414).
    pub target_bytes_max: usize,
    /// Bytes of a request's body (413), unless the route has its own limit.
    pub body_bytes_max: usize,
    /// Bytes of bodies that the whole server holds for requests that are not answered yet; a body
    /// that would need more is answered 503 with `Retry-After`. Counted are bodies that are
    /// gathered before their handler runs and do not come in one piece with their head. While more
    /// than half of this is used, bodies must come eight times as fast and may rest a quarter of the
    /// time.
    pub held_body_bytes_max: usize,
    /// The same for one connection of HTTP/2: further bodies of it wait until those before are
    /// answered. A single body may be longer, as far as its route allows. A body whose length the
    /// client does not say counts as the longest that its route allows, until it is whole.
    pub connection_body_bytes_max: usize,
    /// From a connection's start until requests can come, where TLS is agreed on or a proxy says
    /// for whom it connects.
    pub handshake_timeout_ms: u64,
    /// From a request's first byte to the end of its head (408).
    pub header_timeout_ms: u64,
    /// For a body without any progress (408). Bytes that come give back as much of it as
    /// [`Limits::body_rate_min`] says.
    pub body_timeout_ms: u64,
    /// Bytes a second at which a body must come once `body_timeout_ms` is used up; each byte
    /// that came extends the deadline by its share, up to `body_timeout_ms` from then on.
    pub body_rate_min: u64,
    /// Between an answer and the next request on a connection, after which it is closed.
    pub idle_timeout_ms: u64,
    /// Without any progress in sending an answer, after which the connection is dropped.
    pub write_timeout_ms: u64,
    /// Pipelined requests answered before the answers are sent and other connections served.
    pub pipelined_max: usize,
    /// Bytes of answers not yet sent, above which a connection's next request waits; on a connection
    /// of HTTP/2 only where more than six answers wait for the client's windows.
    pub unsent_bytes_max: usize,
    /// Bytes of answers that the whole server holds for clients that have not read them. Above this
    /// the connections that have made no progress for longest are ended, those with most bytes
    /// first among equals. What the kernel's socket buffers hold is not counted.
    pub unread_bytes_max: usize,
    /// Requests at once on one connection of HTTP/2.
    pub streams_max: u32,
    /// Frames of HTTP/2 a second on a connection that carry neither requests nor bodies (PRIORITY,
    /// WINDOW_UPDATE, PING, SETTINGS, RST_STREAM, empty DATA, unknown ones), beyond those that
    /// requests, bodies and answers explain; ten times as many may come at once. A connection with
    /// more is ended by GOAWAY (ENHANCE_YOUR_CALM).
    pub control_frames_per_second_max: u32,
    /// Requests on one connection, after which it is closed; `None` is without end.
    pub requests_per_connection_max: Option<u32>,
    /// After shutdown was asked for, how long requests in flight may take.
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
    /// How often deadlines have to be looked at, in milliseconds.
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

/// How fast a body must come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long it may rest.
    pub(crate) rest_ms: u64,
    /// Bytes that give it a second.
    rate_min: u64,
}

impl Pace {
    /// That of these limits; a `tight` one where the bodies' budget is nearly used up.
    pub(crate) fn of(limits: &Limits, tight: bool) -> Self {
        let (rest_ms, rate_min) = (limits.body_timeout_ms, limits.body_rate_min.max(1));
        match tight {
            false => Self { rest_ms, rate_min },
            true => Self { rest_ms: rest_ms / 4, rate_min: rate_min.saturating_mul(8) },
        }
    }

    /// How long a body may yet rest that might for `left_ms`, and of which so many bytes came.
    pub(crate) fn after(self, left_ms: u64, bytes: usize) -> u64 {
        let earned_ms = (bytes as u64).saturating_mul(1_000) / self.rate_min;
        left_ms.saturating_add(earned_ms).min(self.rest_ms)
    }
}
