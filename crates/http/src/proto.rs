//! The bytes of HTTP/1.1: heads, chunks, methods, statuses, percent-encoding, the tree of paths,
//! and the header of a proxy.
//!
//! All of it is functions on bytes and plain values: nothing in this folder owns a socket, knows a
//! handler or reads a clock. So each parser is tested and fuzzed with byte strings alone. The other
//! folders of the crate import from here; this folder imports from none of them.
//!
//! | file | what it parses or finds |
//! |---|---|
//! | [`head`] | the request line and the header lines (RFC 9112) |
//! | [`chunked`] | bodies in the chunked transfer coding (RFC 9112, 7.1) |
//! | `paths` | the endpoint of a method and a path |
//! | `accept_encoding` | the content coding that a client prefers (RFC 9110, 12.5.3) |
//! | `proxy_header` | the PROXY protocol, by which a load balancer names its client |
//! | `range` | the parts of a representation that a client wants (RFC 9110, 14) |
//! | `percent` | percent-encoding, and the pairs of a query |

pub(crate) mod accept_encoding;
pub mod chunked;
pub mod head;
pub(crate) mod header;
pub(crate) mod method;
pub(crate) mod paths;
pub(crate) mod percent;
pub(crate) mod proxy_header;
pub(crate) mod range;
pub(crate) mod status;
