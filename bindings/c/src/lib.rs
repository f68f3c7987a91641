//! The C interface of Marmota; `include/marmota.h` is generated from these modules.
//!
//! An object is a number ([`handles`]), a row an array of values ([`value`]), a failure a code with
//! the thread's last error ([`status`]). What C passes is read in [`foreign`]. Reasons:
//! `docs/design/065-c-abi-and-pascal.md`.
// The functions are exported by name, from private modules.
#![allow(unreachable_pub, reason = "cbindgen finds public functions")]

mod batch;
mod cursor;
mod foreign;
mod handles;
mod log_callback;
mod request;
mod rows;
mod server;
mod sql;
mod status;
mod store;
mod subscription;
mod transaction;
mod value;

use std::ffi::c_char;

/// Returns the version of the library, such as "0.1.0". The text is valid for the whole program.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
