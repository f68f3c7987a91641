//! The C interface of Marmota; `include/marmota.h` is generated from these modules.
//!
//! An object is a number ([`handles`]), a row an array of values ([`value`]), a failure a code with
//! the thread's last error ([`status`]). What C passes is read in [`foreign`]. Reasons:
//! `docs/design/065-c-abi-and-pascal.md`.
// The functions are exported by name, from private modules.
#![allow(unreachable_pub, reason = "cbindgen finds public functions")]

mod batch;
mod client;
mod columns;
mod cursor;
mod foreign;
mod handles;
mod log_callback;
mod request;
mod rows;
mod server;
mod service;
mod sql;
mod status;
mod store;
mod subscription;
mod template;
mod transaction;
mod value;
mod version;
mod web_socket;
