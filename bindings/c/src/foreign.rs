//! What C passes: texts, bytes, rows, places for results, contexts of callbacks. All unsafe reads of
//! the memory of callers are here.
//!
//! The types have no constructor in Rust: a value of them is an argument of a call from C. The header
//! states what a caller promises: a pointer is null, or it is aligned and refers to as many elements
//! as the function reads, until the call returns.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use marmota::model::ValueRef;
use marmota::{Error, ErrorKind};

use crate::status::{self, Failure, MARMOTA_OK};
use crate::value::MarmotaValue;

/// UTF-8 text that ends with a NUL. Null is an error where a function does not state otherwise.
#[repr(transparent)]
pub struct MarmotaText(*const c_char);

/// Bytes; their number is the next argument. Null is permitted for no bytes.
#[repr(transparent)]
pub struct MarmotaBytes(*const u8);

/// Values, one for each field of a table in its order; their number is the next argument.
#[repr(transparent)]
pub struct MarmotaRow(*const MarmotaValue);

/// Numbers of rows; their number is the next argument. Null is permitted for none.
#[repr(transparent)]
pub struct MarmotaNumbers(*const u32);

/// A pointer that callbacks get back. Marmota never reads its target. Callbacks of servers,
/// subscriptions and logs run on other threads: the target must permit that.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct MarmotaContext(*mut c_void);

// SAFETY: the pointer is only passed back to the C program, which promises in the header that its
// target may be used on other threads.
unsafe impl Send for MarmotaContext {}
// SAFETY: as above.
unsafe impl Sync for MarmotaContext {}

impl MarmotaText {
    /// Returns the text; `name` is the argument's name for the error.
    pub(crate) fn get(&self, name: &str) -> Result<&str, Failure> {
        match self.optional(name)? {
            Some(text) => Ok(text),
            None => Err(Failure::argument(format!("`{name}` is null: pass a text"))),
        }
    }

    /// Returns the text, or `None` for null.
    pub(crate) fn optional(&self, name: &str) -> Result<Option<&str>, Failure> {
        if self.0.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller promises a text with a NUL at its end, which is valid for the call.
        let text = unsafe { CStr::from_ptr(self.0) };
        match text.to_str() {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Failure::argument(format!("`{name}` is not UTF-8"))),
        }
    }
}

impl MarmotaBytes {
    /// Returns the bytes.
    pub(crate) fn get(&self, length: usize, name: &str) -> Result<&[u8], Failure> {
        bytes(self.0, length, || name.to_owned())
    }
}

impl MarmotaNumbers {
    /// Returns the numbers.
    pub(crate) fn get(&self, count: usize, name: &str) -> Result<&[u32], Failure> {
        if count == 0 {
            return Ok(&[]);
        }
        let too_large = count > isize::MAX as usize / size_of::<u32>();
        if self.0.is_null() || !self.0.is_aligned() || too_large {
            let message =
                format!("`{name}` is null, not aligned or too long: pass {count} numbers");
            return Err(Failure::argument(message));
        }
        // SAFETY: not null, aligned, and of a possible size; the caller promises `count` numbers that
        // are valid for the call.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) })
    }
}

impl MarmotaRow {
    /// Returns the values.
    pub(crate) fn get(&self, count: usize, name: &str) -> Result<Vec<ValueRef<'_>>, Failure> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let too_large = count > isize::MAX as usize / size_of::<MarmotaValue>();
        if self.0.is_null() || !self.0.is_aligned() || too_large {
            let message = format!("`{name}` is null, not aligned or too long: pass {count} values");
            return Err(Failure::argument(message));
        }
        // SAFETY: not null, aligned, and of a possible size; the caller promises `count` values that
        // are valid for the call.
        let values = unsafe { std::slice::from_raw_parts(self.0, count) };
        values.iter().enumerate().map(|(at, value)| read_value(value, name, at)).collect()
    }

    /// Returns the only value.
    pub(crate) fn one(&self, name: &str) -> Result<ValueRef<'_>, Failure> {
        Ok(self.get(1, name)?[0])
    }
}

/// Returns a value of C as one of Rust, which borrows its text or bytes for the call.
fn read_value<'a>(value: &'a MarmotaValue, name: &str, at: usize) -> Result<ValueRef<'a>, Failure> {
    value.read(|| bytes(value.data, value.length, || format!("{name}[{at}]"))).map_err(|problem| {
        match problem {
            Some(problem) => Failure::argument(format!("`{name}[{at}]`: {problem}")),
            None => Failure::argument(format!(
                "`{name}[{at}]` has a null pointer, or a length that is too large"
            )),
        }
    })
}

fn bytes<'a>(
    data: *const u8,
    length: usize,
    name: impl FnOnce() -> String,
) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if data.is_null() || length > isize::MAX as usize {
        let message = format!("`{}` is null or too long: pass {length} bytes", name());
        return Err(Failure::argument(message));
    }
    // SAFETY: not null and of a possible size; the caller promises `length` bytes that are valid for
    // the call. Callers inside of this module bind the lifetime to an argument of the call.
    Ok(unsafe { std::slice::from_raw_parts(data, length) })
}

/// Returns a place that the function needs.
pub(crate) fn required<'a, T>(
    out: Option<&'a mut MaybeUninit<T>>,
    name: &str,
) -> Result<&'a mut MaybeUninit<T>, Failure> {
    out.ok_or_else(|| Failure::argument(format!("`{name}` is null: pass a place for the result")))
}

/// Runs the body of a function that C calls: returns its code, stores its error, stops panics.
pub(crate) fn entry(body: impl FnOnce() -> Result<(), Failure>) -> i32 {
    entry_with(|| body().map(|()| MARMOTA_OK))
}

/// [`entry`] for a function with another code of success.
pub(crate) fn entry_with(body: impl FnOnce() -> Result<i32, Failure>) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => status::fail(failure),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            let message = format!("a panic: {}", text.unwrap_or("without a message"));
            status::fail(Error::new(ErrorKind::Bug, message).into())
        }
    }
}
