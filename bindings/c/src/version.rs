//! The version of the library.

use std::ffi::c_char;

/// Returns the version of the library, such as "0.1.0". The text is valid for the whole program.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
