//! The SQL function by which a statement asks what lies inside a JSON text:
//! `marmota_json(text, condition)`, 1, 0 or NULL. It is no other than the one
//! that the memory engine asks; SQLite's own functions read numbers, members of
//! one name and broken texts in ways of their own, and fail where a row's JSON
//! is deeper than they go.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

use marmota_model::json::JsonCondition;

use super::raw::{self, Argument, Cell, CellValue, Context};
use super::value::Bound;
use super::{Connection, Failure, code, utf8};

/// What a pointer to a condition is called; as in `rows.c`.
const POINTER: &std::ffi::CStr = c"marmota_json";

impl<'v> Bound<'v> {
    /// A condition, for `marmota_json`; NULL to everything else in SQL.
    #[inline]
    pub(crate) fn condition(condition: &'v JsonCondition) -> Self {
        let value = CellValue { bytes: ptr::from_ref(condition).cast() };
        Self::of_cell(Cell { value, length: 0, storage: raw::JSON })
    }
}

impl Connection {
    /// Makes `marmota_json` known to this connection; not to what a file holds
    /// (views, triggers), which others open too.
    pub(super) fn add_json_function(&mut self) -> Result<(), Failure> {
        let flags = raw::UTF8 | raw::DETERMINISTIC | raw::DIRECTONLY;
        // SAFETY: the connection is open, the name is terminated, the function
        // is as SQLite calls it, and there is no data to drop.
        let made = unsafe {
            raw::marmota_sqlite3_create_function_v2(
                self.db.as_ptr(),
                c"marmota_json".as_ptr(),
                2,
                flags,
                ptr::null_mut(),
                Some(ask),
                None,
                None,
                None,
            )
        };
        if made == code::OK { Ok(()) } else { Err(self.failure(made)) }
    }
}

/// # Safety
/// Called by SQLite, with two arguments.
unsafe extern "C" fn ask(context: *mut Context, count: c_int, arguments: *mut *mut Argument) {
    debug_assert_eq!(count, 2, "as it was registered");
    // SAFETY: there are two arguments; each lives as long as the call.
    let (text, condition) = unsafe { (*arguments, *arguments.add(1)) };
    // SAFETY: only `Bound::condition` makes a pointer of this name, from a
    // reference that lives as long as the `Run` that steps; whatever else is
    // passed in SQL gives null.
    let condition = unsafe {
        raw::marmota_sqlite3_value_pointer(condition, POINTER.as_ptr())
            .cast::<JsonCondition>()
            .as_ref()
    };
    let Some(condition) = condition else { return };
    // SAFETY: the value is alive.
    let is_text = unsafe { raw::marmota_sqlite3_value_type(text) } == raw::TEXT as c_int;
    let json = is_text.then(|| {
        // SAFETY: the value is a text; the pointer is asked for before the
        // length, as SQLite wants it, and lives as long as the call.
        let (start, bytes) = unsafe {
            (raw::marmota_sqlite3_value_text(text), raw::marmota_sqlite3_value_bytes(text))
        };
        match usize::try_from(bytes) {
            // SAFETY: the text has so many bytes.
            Ok(bytes) if !start.is_null() => unsafe { slice::from_raw_parts(start, bytes) },
            _ => &[],
        }
    });
    let json = json.and_then(utf8);
    // A panic must not go through C.
    match catch_unwind(AssertUnwindSafe(|| condition.ask(json))) {
        // SAFETY: the context is that of this call.
        Ok(Some(answer)) => unsafe {
            raw::marmota_sqlite3_result_int(context, c_int::from(answer));
        },
        // Without a result it is NULL.
        Ok(None) => {}
        // SAFETY: as above.
        Err(_) => unsafe { raw::marmota_sqlite3_result_error_code(context, code::INTERNAL) },
    }
}
