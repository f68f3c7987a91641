//! The bytes of HTTP/1.1: heads, chunks, methods, statuses, percent-encoding, and a proxy's header.
//! Nothing here knows a socket or a handler.

pub(crate) mod accept_encoding;
pub mod chunked;
pub mod head;
pub(crate) mod header;
pub(crate) mod method;
pub(crate) mod paths;
pub(crate) mod percent;
pub(crate) mod proxy_header;
pub(crate) mod status;
