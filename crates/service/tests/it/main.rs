//! Services through their public sides.
#![allow(clippy::unwrap_used, reason = "tests panic")]

#[path = "../../../remote/tests/it/authority.rs"]
mod authority;
mod calling;
mod contracts;
mod json_services;
mod leaving;
mod lifetimes;
mod mocks;
mod open_api;
mod origins;
#[path = "../../../remote/tests/it/place.rs"]
mod place;
mod proxy;
mod reconnecting;
mod rights;
mod rpc;
mod streams;
mod streams_held;
mod streams_hostile;
mod streams_http;
mod stubs;
mod transports;
mod web_sockets;
#[path = "../../../rest/tests/it/well_formed.rs"]
mod well_formed;
