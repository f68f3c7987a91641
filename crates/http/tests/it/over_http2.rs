//! The tests of WebSockets over HTTP/2: by prior knowledge, and in the copies for TLS by its
//! negotiation.

#[allow(dead_code, reason = "these tests use a part of it")]
mod client;
mod websockets;
mod websockets_http2;
