//! The HTTP server, requests, services and WebSockets.

mod request;
mod server;
mod service;
mod web_socket;
