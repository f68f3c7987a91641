//! Services: traits whose methods are called in process, over Unix sockets and HTTP, and with
//! JSON-RPC, with the same code on both sides.
//!
//! ```
//! use marmota_derive::service;
//! use marmota_model::Result;
//! use marmota_service::{Client, Services};
//!
//! #[service]
//! trait Calculator {
//!     async fn add(&self, a: i32, b: i32) -> Result<i32>;
//! }
//!
//! struct Abacus;
//!
//! impl Calculator for Abacus {
//!     async fn add(&self, a: i32, b: i32) -> Result<i32> {
//!         Ok(a + b)
//!     }
//! }
//!
//! # fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let services = Services::new().service(CalculatorService::shared(Abacus))?;
//! // POST /api/calculator/add {"a":1,"b":2} is answered {"result":3}.
//! let server = marmota_http::Server::bind("127.0.0.1:0")?.start(services.router())?;
//! # server.shutdown()?;
//! # Ok(())
//! # }
//! # serve().unwrap();
//! ```
//!
//! Services do not depend on models: parameters and results are types that serde can serialize and
//! deserialize, and streams ([`ItemStream`], [`ByteStream`]). Both sides use Marmota's errors.
#![forbid(unsafe_code)]

mod activity;
mod arguments;
mod body;
mod call;
mod carried;
mod carrier;
mod client;
mod connection;
mod contract;
mod dispatch;
mod execution;
mod failure;
mod form;
mod frame;
mod hosted;
mod instances;
mod json_rpc;
mod json_type;
mod limits;
mod line;
mod lines;
mod link;
mod mock;
mod open_api;
mod owned;
mod pieces;
mod pump;
mod route;
mod services;
mod standing;
mod stream;
mod stub;
mod subscriber;
mod subscribers;

pub use activity::MethodActivity;
pub use call::Call;
pub use client::Client;
pub use connection::Connection;
pub use contract::{Contract, Method, Parameter};
pub use execution::Execution;
pub use form::{Form, Transfer};
pub use hosted::Hosted;
pub use instances::Lifetime;
pub use mock::{Mock, When};
pub use services::Services;
pub use stream::{ByteStream, ItemSender, ItemStream};
pub use stub::Stubbed;
pub use subscribers::Subscribers;

/// Items used by the code that the macros generate; not public API.
#[doc(hidden)]
pub mod generated {
    pub use marmota_model::Error;

    pub use crate::arguments::{Arguments, Written};
    pub use crate::dispatch::{Described, Dispatch, Prepared, prepared};
    pub use crate::hosted::{per, shared};
    pub use crate::mock::mock;
    pub use crate::stub::Stub;
}
