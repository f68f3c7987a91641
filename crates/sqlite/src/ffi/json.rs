//! The SQL function for conditions inside of JSON texts: `marmota_json(text, condition)` returns 1,
//! 0 or NULL. It calls the same code as the memory engine. SQLite's own functions treat numbers,
//! duplicate members and invalid texts differently, and fail for JSON nested deeper than their
//! limit.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

use marmota_model::json::JsonCondition;

use super::raw::{self, Argument, Cell, CellValue, Context};
use super::value::Bound;
use super::{Connection, Failure, code, utf8};

/// The type name of a pointer to a condition; as in `rows.c`.
const POINTER: &std::ffi::CStr = c"marmota_json";

impl<'v> Bound<'v> {
    /// A condition, for `marmota_json`; NULL for everything else in SQL.
    #[inline]
    pub(crate) fn condition(condition: &'v JsonCondition) -> Self {
        let value = CellValue { bytes: ptr::from_ref(condition).cast() };
        Self::of_cell(Cell { value, length: 0, storage: raw::JSON })
    }
}

impl Connection {
    /// Registers `marmota_json` on this connection; not for views and triggers of the file, which
    /// other programs open as well.
    pub(super) fn add_json_function(&mut self) -> Result<(), Failure> {
        let flags = raw::UTF8 | raw::DETERMINISTIC | raw::DIRECTONLY;
        // SAFETY: the connection is open, the name is terminated, the function has the signature
        // that SQLite calls, and there is no data to drop.
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
    // SAFETY: only `Bound::condition` makes a pointer with this type name, from a reference that
    // lives as long as the `Run` that steps; any other value in SQL gives null.
    let condition = unsafe {
        raw::marmota_sqlite3_value_pointer(condition, POINTER.as_ptr())
            .cast::<JsonCondition>()
            .as_ref()
    };
    let Some(condition) = condition else { return };
    // SAFETY: the value is alive.
    let is_text = unsafe { raw::marmota_sqlite3_value_type(text) } == raw::TEXT as c_int;
    let json = is_text.then(|| {
        // SAFETY: the value is a text; the pointer is requested before the length, as SQLite
        // requires, and lives as long as the call.
        let (start, bytes) = unsafe {
            (raw::marmota_sqlite3_value_text(text), raw::marmota_sqlite3_value_bytes(text))
        };
        match usize::try_from(bytes) {
            // SAFETY: the text has this number of bytes.
            Ok(bytes) if !start.is_null() => unsafe { slice::from_raw_parts(start, bytes) },
            _ => &[],
        }
    });
    let json = json.and_then(utf8);
    // A panic must not unwind through C.
    match catch_unwind(AssertUnwindSafe(|| condition.evaluate(json))) {
        // SAFETY: the context belongs to this call.
        Ok(Some(answer)) => unsafe {
            raw::marmota_sqlite3_result_int(context, c_int::from(answer));
        },
        // The result defaults to NULL.
        Ok(None) => {}
        // SAFETY: as above.
        Err(_) => unsafe { raw::marmota_sqlite3_result_error_code(context, code::INTERNAL) },
    }
}
