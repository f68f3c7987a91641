//! Services: methods that are called with JSON, by routes, JSON-RPC, WebSockets and clients.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char};

use marmota::service::{Call, Contract, Execution, Hosted};
use marmota::{Error, ErrorKind};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::data::cursor::c_name;
use crate::foreign::{MarmotaContext, MarmotaText, entry};
use crate::handles::{self, CALL, MarmotaHandle};
use crate::status::{self, Failure, MARMOTA_OK};

/// Executes a call of a service: `method` is the name of the method, `arguments` a JSON object with the
/// arguments by name. Both, and `call`, are valid until it returns, on its thread. It returns MARMOTA_OK
/// after `marmota_call_answer`, or the code of a call that failed, such as `marmota_call_refuse`: the
/// caller gets that error.
pub type MarmotaServiceHandler = Option<
    unsafe extern "C" fn(
        call: MarmotaHandle,
        method: *const c_char,
        arguments: *const c_char,
        context: MarmotaContext,
    ) -> i32,
>;

/// The threads of a service.
const THREADS: usize = 8;

thread_local! {
    /// The handle of the call that a handler of this thread executes.
    static CURRENT: Cell<Option<MarmotaHandle>> = const { Cell::new(None) };
    /// The result of the call, as JSON.
    static RESULT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Returns a service that a handler of C executes.
pub(crate) fn hosted(
    contract: &str,
    handler: MarmotaServiceHandler,
    context: MarmotaContext,
) -> Result<Hosted, Failure> {
    let handler = handler.ok_or_else(|| Failure::argument("`handler` is null"))?;
    let contract = Contract::from_json(contract)?;
    let answer = move |call: &Call, arguments: &Map<String, Value>| {
        let (method, arguments) = (c_name(call.method()), text_of(arguments)?);
        let handle = handles::of_thread(CALL);
        RESULT.set(None);
        // The error of an earlier call is not for this caller.
        status::forget();
        CURRENT.set(Some(handle));
        // SAFETY: the handler has this signature; the texts live until it returns.
        let code = unsafe { handler(handle, method.as_ptr(), arguments.as_ptr(), context) };
        CURRENT.set(None);
        match code {
            MARMOTA_OK => Ok(RESULT.take().unwrap_or_else(|| "null".to_owned())),
            code => Err(status::take_last(code).unwrap_or_else(|| {
                log::error!("{call:?} failed with the code {code}");
                Error::new(ErrorKind::Bug, "the method failed")
            })),
        }
    };
    Ok(Hosted::json(contract, answer).execution(Execution::Pool(THREADS)))
}

fn text_of(arguments: &Map<String, Value>) -> Result<CString, Error> {
    // JSON escapes NUL.
    let json = serde_json::to_string(arguments)
        .map_err(|error| Error::new(ErrorKind::Bug, error.to_string()))?;
    Ok(c_name(&json))
}

/// Returns an error for a handle that is not that of the thread's call.
fn check(call: MarmotaHandle) -> Result<(), Failure> {
    match CURRENT.get() {
        Some(current) if current == call => Ok(()),
        _ => Err(handles::not_here(call, CALL)),
    }
}

/// Sets the result of a call, as JSON. Default: null.
///
/// Threads: the handler's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_call_answer(call: MarmotaHandle, json: MarmotaText) -> i32 {
    entry(|| {
        check(call)?;
        let json = json.get("json")?;
        serde_json::from_str::<IgnoredAny>(json)
            .map_err(|error| Failure::argument(format!("`json` is not JSON: {error}")))?;
        RESULT.set(Some(json.to_owned()));
        Ok(())
    })
}

/// Makes an error for the caller of a call, and returns its code, for the handler to return. `code` is
/// one of MARMOTA_NOT_FOUND to MARMOTA_BUG.
///
/// Threads: the handler's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_call_refuse(call: MarmotaHandle, code: i32, message: MarmotaText) -> i32 {
    entry(|| {
        check(call)?;
        let message = message.get("message")?;
        match status::kind_of(code) {
            Some(kind) => Err(Error::new(kind, message).into()),
            None => Err(Failure::argument(format!(
                "code {code}: use one of MARMOTA_NOT_FOUND to MARMOTA_BUG"
            ))),
        }
    })
}
