//! Status codes, and the error of a thread's last failed call.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

use marmota::rest::ErrorDocument;
use marmota::{Error, ErrorKind};

/// Success.
pub const MARMOTA_OK: i32 = 0;
/// The row, table or file does not exist.
pub const MARMOTA_NOT_FOUND: i32 = 1;
/// A unique value exists, or other rows refer to the row.
pub const MARMOTA_CONFLICT: i32 = 2;
/// The row has another version than the expected one.
pub const MARMOTA_STALE: i32 = 3;
/// Values, filters or settings are not valid; `marmota_error_field` names the fields.
pub const MARMOTA_INVALID: i32 = 4;
/// The caller may not do this.
pub const MARMOTA_DENIED: i32 = 5;
/// The caller is not authenticated.
pub const MARMOTA_UNAUTHENTICATED: i32 = 6;
/// Too many operations wait, or the handle is used by a call that has not returned.
pub const MARMOTA_BUSY: i32 = 7;
/// It took longer than allowed.
pub const MARMOTA_TIMEOUT: i32 = 8;
/// The address refused the connection; nothing was done.
pub const MARMOTA_REFUSED: i32 = 9;
/// The connection was lost: it is unknown whether the operation was executed.
pub const MARMOTA_LOST: i32 = 10;
/// The engine or this build does not support the operation.
pub const MARMOTA_UNSUPPORTED: i32 = 11;
/// The disk is full, read-only or failing.
pub const MARMOTA_IO: i32 = 12;
/// The peer violated the protocol.
pub const MARMOTA_PROTOCOL: i32 = 13;
/// The engine reported an error of another kind.
pub const MARMOTA_ENGINE: i32 = 14;
/// The store or server is closed.
pub const MARMOTA_CLOSED: i32 = 15;
/// A defect of Marmota; please report it.
pub const MARMOTA_BUG: i32 = 16;
/// The handle is zero, was freed, or is of another kind than the function needs.
pub const MARMOTA_HANDLE: i32 = 17;
/// The handle belongs to another thread.
pub const MARMOTA_THREAD: i32 = 18;
/// An argument is null, out of range or not UTF-8.
pub const MARMOTA_ARGUMENT: i32 = 19;
/// The cursor has no more rows. This is not an error.
pub const MARMOTA_END: i32 = 100;

/// Why a call failed: its code, and the error with the message.
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) error: Error,
}

impl Failure {
    pub(crate) fn handle(message: impl Into<String>) -> Self {
        Self { code: MARMOTA_HANDLE, error: Error::new(ErrorKind::Invalid, message) }
    }

    pub(crate) fn thread(message: impl Into<String>) -> Self {
        Self { code: MARMOTA_THREAD, error: Error::new(ErrorKind::Invalid, message) }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self { code: MARMOTA_ARGUMENT, error: Error::new(ErrorKind::Invalid, message) }
    }

    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Busy, message).into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { code: code_of(error.kind()), error }
    }
}

/// The codes of the kinds of errors. A kind without one is MARMOTA_ENGINE.
const CODES: [(i32, ErrorKind); 16] = [
    (MARMOTA_NOT_FOUND, ErrorKind::NotFound),
    (MARMOTA_CONFLICT, ErrorKind::Conflict),
    (MARMOTA_STALE, ErrorKind::Stale),
    (MARMOTA_INVALID, ErrorKind::Invalid),
    (MARMOTA_DENIED, ErrorKind::Denied),
    (MARMOTA_UNAUTHENTICATED, ErrorKind::Unauthenticated),
    (MARMOTA_BUSY, ErrorKind::Busy),
    (MARMOTA_TIMEOUT, ErrorKind::Timeout),
    (MARMOTA_REFUSED, ErrorKind::Refused),
    (MARMOTA_LOST, ErrorKind::Lost),
    (MARMOTA_UNSUPPORTED, ErrorKind::Unsupported),
    (MARMOTA_IO, ErrorKind::Io),
    (MARMOTA_PROTOCOL, ErrorKind::Protocol),
    (MARMOTA_CLOSED, ErrorKind::Closed),
    (MARMOTA_BUG, ErrorKind::Bug),
    (MARMOTA_ENGINE, ErrorKind::Engine),
];

fn code_of(kind: ErrorKind) -> i32 {
    CODES.iter().find(|(_, of)| *of == kind).map_or(MARMOTA_ENGINE, |(code, _)| *code)
}

/// Returns the kind of an error with a code; `None` for other codes.
pub(crate) fn kind_of(code: i32) -> Option<ErrorKind> {
    CODES.iter().find(|(of, _)| *of == code).map(|(_, kind)| *kind)
}

/// The error of the last call that failed on a thread, with its texts for C.
struct LastError {
    code: i32,
    error: Error,
    message: CString,
    kind: CString,
    problem: CString,
    /// The field, the rule and the message of each violation.
    violations: Vec<[CString; 3]>,
}

thread_local! {
    static LAST: RefCell<Option<LastError>> = const { RefCell::new(None) };
}

/// Text for C: it ends at its first NUL.
fn c_text(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// Stores the error of a failed call, and returns its code.
#[cold]
pub(crate) fn fail(failure: Failure) -> i32 {
    let Failure { code, error } = failure;
    let kind = match code {
        MARMOTA_HANDLE => "handle",
        MARMOTA_THREAD => "thread",
        MARMOTA_ARGUMENT => "argument",
        _ => error.kind().name(),
    };
    let mut problem = Vec::new();
    ErrorDocument::of(&error).write(&mut problem);
    let of_violation = |violation: &marmota::model::Violation| {
        [c_text(&violation.field), c_text(&violation.rule), c_text(&violation.message)]
    };
    let last = LastError {
        code,
        message: c_text(error.message()),
        kind: c_text(kind),
        problem: c_text(&String::from_utf8_lossy(&problem)),
        violations: error.violations().iter().map(of_violation).collect(),
        error,
    };
    LAST.with_borrow_mut(|slot| *slot = Some(last));
    code
}

/// Forgets the thread's last error.
pub(crate) fn forget() {
    LAST.set(None);
}

/// Takes the thread's last error, if it has this code.
pub(crate) fn take_last(code: i32) -> Option<Error> {
    LAST.take().filter(|last| last.code == code).map(|last| last.error)
}

/// Calls `use_error` with the thread's last error, if it has this code.
pub(crate) fn with_last<T>(code: i32, use_error: impl FnOnce(&Error) -> T) -> Option<T> {
    LAST.with_borrow(|last| {
        last.as_ref().filter(|last| last.code == code).map(|last| use_error(&last.error))
    })
}

fn last_text(find: impl FnOnce(&LastError) -> Option<&CString>) -> *const c_char {
    LAST.with_borrow(|last| last.as_ref().and_then(find).map_or(c"".as_ptr(), |text| text.as_ptr()))
}

/// Returns the message of the last call that failed on this thread; "" if no call has failed. The
/// text is valid until the next failing call of this thread. A call that succeeds does not change it.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_error_message() -> *const c_char {
    last_text(|last| Some(&last.message))
}

/// Returns the kind of the thread's last error as a word, such as "not-found" or "invalid". The text
/// is valid until the next failing call of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_error_kind() -> *const c_char {
    last_text(|last| Some(&last.kind))
}

/// Returns the thread's last error as a problem document (RFC 9457), in JSON. The text is valid until
/// the next failing call of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_error_problem() -> *const c_char {
    last_text(|last| Some(&last.problem))
}

/// Returns the number of fields that the thread's last error names.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_error_count() -> usize {
    LAST.with_borrow(|last| last.as_ref().map_or(0, |last| last.violations.len()))
}

/// Returns the name of a field at fault; "" if `index` is not below `marmota_error_count`. The text
/// is valid until the next failing call of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_error_field(index: usize) -> *const c_char {
    last_text(|last| last.violations.get(index).map(|[field, _, _]| field))
}

/// Returns the rule that a field violates, such as "max"; "" if `index` is out of range. The text is
/// valid until the next failing call of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_error_rule(index: usize) -> *const c_char {
    last_text(|last| last.violations.get(index).map(|[_, rule, _]| rule))
}

/// Returns what is wrong with a field; "" if `index` is out of range. The text is valid until the
/// next failing call of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_error_detail(index: usize) -> *const c_char {
    last_text(|last| last.violations.get(index).map(|[_, _, message]| message))
}

/// Returns true if the call that failed on this thread may succeed when it is repeated.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_error_retryable() -> bool {
    LAST.with_borrow(|last| last.as_ref().is_some_and(|last| last.error.is_retryable()))
}
