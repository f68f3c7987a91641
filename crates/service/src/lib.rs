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

mod call;
mod client;
mod client_builder;
mod contract;
mod failure;
mod hosted;
mod limits;
mod mock;
mod peer;
mod route;
mod services;
mod subscribers;
mod transfer;

pub use call::Call;
pub use client::Client;
pub use client::stub::Stubbed;
pub use client_builder::ClientBuilder;
pub use contract::{Contract, MethodContract, Parameter};
pub use hosted::{Execution, Hosted, Lifetime};
pub use mock::{Mock, When};
pub use services::Services;
pub use services::activity::MethodActivity;
pub use subscribers::Subscribers;
pub use transfer::{ByteStream, ItemSender, ItemStream, Transfer, TransferForm};

/// Items used by the code that the macros generate; not public API.
#[doc(hidden)]
pub mod generated {
    pub use marmota_model::Error;

    pub use crate::call::arguments::Arguments;
    pub use crate::call::dispatch::{Dispatch, Prepared, prepared};
    pub use crate::client::Written;
    pub use crate::client::stub::Stub;
    pub use crate::contract::Described;
    pub use crate::hosted::{per, shared};
    pub use crate::mock::mock;
}
