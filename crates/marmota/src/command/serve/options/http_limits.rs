//! The options of `serve` for the limits of HTTP: one for each field of [`Limits`], with its name and
//! its default.

use clap::Args;
use marmota_http::Limits;

use crate::command::serve::option_values::positive;

/// Makes an option of each field, and the limits of the options. A field of [`Limits`] without an
/// option does not compile.
macro_rules! http_limits {
    ($($(#[doc = $doc:literal])+ $field:ident: $kind:ty, $unit:literal;)+) => {
        /// The limits of HTTP.
        #[derive(Args)]
        #[command(next_help_heading = "Limits of HTTP")]
        pub(crate) struct HttpLimits {
            $(
                $(#[doc = $doc])+
                #[arg(long, value_name = $unit, default_value_t = Limits::default().$field,
                      value_parser = positive::<$kind>)]
                $field: $kind,
            )+
            /// The number of requests after which a connection is closed. Default: no limit
            #[arg(long, value_name = "COUNT", value_parser = positive::<u32>)]
            requests_per_connection_max: Option<u32>,
        }

        impl HttpLimits {
            /// Returns the limits.
            pub(crate) const fn limits(&self) -> Limits {
                Limits {
                    $($field: self.$field,)+
                    requests_per_connection_max: self.requests_per_connection_max,
                }
            }
        }
    };
}

http_limits! {
    /// Open connections of the server; a further one is answered 503
    connections_max: usize, "COUNT";
    /// Descriptors that connections leave free for files and databases
    descriptors_reserved: usize, "COUNT";
    /// The length of a request's head (431)
    head_bytes_max: usize, "BYTES";
    /// The number of headers of a request (431)
    headers_max: usize, "COUNT";
    /// The length of a request's target (414)
    target_bytes_max: usize, "BYTES";
    /// The length of a request's body (413)
    body_bytes_max: usize, "BYTES";
    /// Bytes of bodies that the server holds for requests in progress (503)
    held_body_bytes_max: usize, "BYTES";
    /// Bytes of bodies that one HTTP/2 connection holds
    connection_body_bytes_max: usize, "BYTES";
    /// The time for the start of a connection: TLS, the header of a proxy
    handshake_timeout_ms: u64, "MS";
    /// The time from the first byte of a request to the end of its head (408)
    header_timeout_ms: u64, "MS";
    /// The time in which a body may make no progress (408)
    body_timeout_ms: u64, "MS";
    /// The bytes per second at which a body must arrive after that time
    body_rate_min: u64, "BYTES";
    /// The time between an answer and the next request of a connection
    idle_timeout_ms: u64, "MS";
    /// The time without progress in sending an answer
    write_timeout_ms: u64, "MS";
    /// Pipelined requests that are answered before their answers are sent
    pipelined_max: usize, "COUNT";
    /// Bytes of unsent answers above which the next request of a connection waits
    unsent_bytes_max: usize, "BYTES";
    /// Bytes of answers that the server holds for clients that do not read them
    unread_bytes_max: usize, "BYTES";
    /// Concurrent requests of one HTTP/2 connection
    streams_max: u32, "COUNT";
    /// HTTP/2 frames per second without requests or bodies on a connection
    control_frames_per_second_max: u32, "COUNT";
    /// The time for requests in progress after a signal has ended the server
    drain_timeout_ms: u64, "MS";
}
