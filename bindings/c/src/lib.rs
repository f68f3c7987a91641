//! The C interface of Marmota; `include/marmota.h` is generated from these modules.
//!
//! An object is a number ([`handles`]), a row an array of values ([`value`]), a failure a code with
//! the thread's last error ([`status`]). What C passes is read in [`foreign`]. Reasons:
//! `docs/design/065-c-abi-and-pascal.md`.
// The functions are exported by name, from private modules.
#![allow(unreachable_pub, reason = "cbindgen finds public functions")]

mod client;
mod data;
mod foreign;
mod handles;
mod http;
mod log_callback;
mod status;
mod store;
mod template;
mod value;
mod version;
