//! A request while its handler runs, and the answer that the handler makes.

use std::cell::{Cell, RefCell};
use std::ffi::c_char;
use std::mem::MaybeUninit;

use marmota::http::{Flow, IntoResponse, Request, Response, ResponseWriter, Status};
use marmota::rest::ErrorDocument;
use marmota::{Error, ErrorKind};

use crate::data::batch::UnsentBatch;
use crate::foreign::{MarmotaBytes, MarmotaContext, MarmotaText, entry, required};
use crate::handles::{self, MarmotaHandle, REQUEST};
use crate::status::{self, Failure, MARMOTA_OK};
use crate::store::lend_text_to;

/// Answers a request. `request` is valid until it returns, on its thread. It returns MARMOTA_OK for the
/// answer that it made, or the code of a call that failed: the client gets that error as a problem
/// document.
pub type MarmotaHandler =
    Option<unsafe extern "C" fn(request: MarmotaHandle, context: MarmotaContext) -> i32>;

/// The answer of a handler.
#[derive(Default)]
struct Answer {
    status: Option<Status>,
    content_type: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// The batch that is sent before the answer.
    batch: Option<UnsentBatch>,
}

/// The number of headers that a handler may set.
const HEADERS_MAX: usize = 100;
/// The bytes of a body that a thread keeps for its next answer.
const KEPT_BYTES_MAX: usize = 1 << 20;

thread_local! {
    /// The handle of the request that a handler of this thread answers, and the request.
    static CURRENT: Cell<Option<(MarmotaHandle, *const Request)>> = const { Cell::new(None) };
    static ANSWER: RefCell<Answer> = RefCell::default();
}

/// Returns true on a thread that runs a handler.
pub(crate) fn is_answering() -> bool {
    CURRENT.get().is_some()
}

/// Answers a request by a handler.
pub(crate) fn answer(
    request: &Request,
    out: &mut ResponseWriter<'_>,
    handler: unsafe extern "C" fn(MarmotaHandle, MarmotaContext) -> i32,
    context: MarmotaContext,
) -> Flow {
    let handle = handles::of_thread(REQUEST);
    ANSWER.with_borrow_mut(Answer::clear);
    // The error of an earlier request is not for this client.
    status::forget();
    CURRENT.set(Some((handle, std::ptr::from_ref(request))));
    // SAFETY: the handler has this signature.
    let code = unsafe { handler(handle, context) };
    CURRENT.set(None);
    if code != MARMOTA_OK {
        write_last_error(out, code);
        return Flow::Done;
    }
    match ANSWER.with_borrow_mut(Answer::take_later) {
        None => {
            ANSWER.with_borrow(|answer| answer.write(out));
            Flow::Done
        }
        Some((batch, response)) => Flow::Later(Box::pin(async move {
            match batch.send().await {
                Ok(()) => response,
                Err(error) => {
                    let document = ErrorDocument::of(&error);
                    document.log();
                    document.into_response()
                }
            }
        })),
    }
}

/// Answers with the thread's last error.
fn write_last_error(out: &mut ResponseWriter<'_>, code: i32) {
    let written = status::with_last(code, |error| {
        let document = ErrorDocument::of(error);
        document.log();
        let mut body = Vec::new();
        document.write(&mut body);
        out.status(document.status()).send("application/problem+json", &body);
    });
    if written.is_none() {
        log::error!("a handler failed with the code {code}");
        out.respond(Response::problem(Status::INTERNAL_SERVER_ERROR, "the handler failed"));
    }
}

impl Answer {
    fn clear(&mut self) {
        self.status = None;
        self.content_type.clear();
        self.headers.clear();
        self.body.clear();
        self.body.shrink_to(KEPT_BYTES_MAX);
        self.batch = None;
    }

    /// Returns the batch to send before the answer, and the answer; `None` without a batch.
    fn take_later(&mut self) -> Option<(UnsentBatch, Response)> {
        let batch = self.batch.take()?;
        let content_type = self.content_type().to_owned();
        let mut response = Response::with_body(content_type, std::mem::take(&mut self.body));
        for (name, value) in self.headers.drain(..) {
            // `marmota_response_header` has checked them.
            let _ = response.add_header(name.into(), value.into_bytes().into());
        }
        Some((batch, response.with_status(self.status.unwrap_or(Status::OK))))
    }

    fn content_type(&self) -> &str {
        match &*self.content_type {
            "" => "text/plain",
            content_type => content_type,
        }
    }

    fn write(&self, out: &mut ResponseWriter<'_>) {
        out.status(self.status.unwrap_or(Status::OK));
        for (name, value) in &self.headers {
            // `marmota_response_header` has checked them.
            let _ = out.header(name, value);
        }
        out.send(self.content_type(), &self.body);
    }
}

/// Calls `read` with the request of a handle.
fn with_request<T>(
    handle: MarmotaHandle,
    read: impl FnOnce(&Request) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match CURRENT.get() {
        // SAFETY: `answer` sets the pointer to a request that it borrows until it clears the pointer,
        // on this thread.
        Some((current, request)) if current == handle => read(unsafe { &*request }),
        _ => Err(handles::not_here(handle, REQUEST)),
    }
}

fn with_answer(
    handle: MarmotaHandle,
    change: impl FnOnce(&mut Answer) -> Result<(), Failure>,
) -> i32 {
    entry(|| match CURRENT.get() {
        Some((current, _)) if current == handle => ANSWER.with_borrow_mut(change),
        _ => Err(handles::not_here(handle, REQUEST)),
    })
}

/// Returns the method of a request, such as "GET". `length` may be null.
///
/// Ownership: the text is lent until the thread's next call but one that lends.
/// Threads: the handler's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_request_method(
    request: MarmotaHandle,
    text: Option<&mut MaybeUninit<*const c_char>>,
    length: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        with_request(request, |request| lend_text_to(request.method_name(), (text, "text"), length))
    })
}

/// Returns the path of a request, as it was sent. `length` may be null.
///
/// Ownership: the text is lent until the thread's next call but one that lends.
/// Threads: the handler's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_request_path(
    request: MarmotaHandle,
    text: Option<&mut MaybeUninit<*const c_char>>,
    length: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| with_request(request, |request| lend_text_to(request.path(), (text, "text"), length)))
}

/// Returns a part of the path by its name in the pattern, or a parameter of the query; decoded.
/// Returns MARMOTA_NOT_FOUND if the request has neither. `length` may be null.
///
/// Ownership: the text is lent until the thread's next call but one that lends.
/// Threads: the handler's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_request_param(
    request: MarmotaHandle,
    name: MarmotaText,
    text: Option<&mut MaybeUninit<*const c_char>>,
    length: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        with_request(request, |request| {
            let name = name.get("name")?;
            match request.param(name).or_else(|| request.query_param(name)) {
                Some(value) => lend_text_to(&value, (text, "text"), length),
                None => Err(missing("parameter", name)),
            }
        })
    })
}

/// Returns a header of a request. Returns MARMOTA_NOT_FOUND if it is missing or not UTF-8. `length` may
/// be null.
///
/// Ownership: the text is lent until the thread's next call but one that lends.
/// Threads: the handler's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_request_header(
    request: MarmotaHandle,
    name: MarmotaText,
    text: Option<&mut MaybeUninit<*const c_char>>,
    length: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        with_request(request, |request| {
            let name = name.get("name")?;
            match request.header_text(name) {
                Some(value) => lend_text_to(value, (text, "text"), length),
                None => Err(missing("header", name)),
            }
        })
    })
}

#[cold]
fn missing(what: &str, name: &str) -> Failure {
    Error::new(ErrorKind::NotFound, format!("the request has no {what} `{name}`")).into()
}

/// Returns the body of a request, without a copy.
///
/// Ownership: the bytes are lent until the handler returns.
/// Threads: the handler's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_request_body(
    request: MarmotaHandle,
    bytes: Option<&mut MaybeUninit<*const u8>>,
    length: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        let (bytes, length) = (required(bytes, "bytes")?, required(length, "length")?);
        with_request(request, |request| {
            bytes.write(request.body().as_ptr());
            length.write(request.body().len());
            Ok(())
        })
    })
}

/// Sets the status of the answer. Default: 200.
///
/// Threads: the handler's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_response_status(request: MarmotaHandle, status: u16) -> i32 {
    with_answer(request, |answer| {
        let known = Status::new(status).filter(|status| status.code() >= 200);
        let message = || Failure::argument(format!("status {status}: use 200 to 599"));
        answer.status = Some(known.ok_or_else(message)?);
        Ok(())
    })
}

/// Adds a header to the answer. The content type is an argument of `marmota_response_body`.
///
/// Threads: the handler's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_response_header(
    request: MarmotaHandle,
    name: MarmotaText,
    value: MarmotaText,
) -> i32 {
    with_answer(request, |answer| {
        let (name, value) = (name.get("name")?, value.get("value")?);
        if answer.headers.len() >= HEADERS_MAX {
            return Err(Failure::busy(format!("the answer has {HEADERS_MAX} headers")));
        }
        // The answer checks headers when they are added.
        let checked =
            Response::from_status(Status::OK).with_header(name.to_owned(), value.to_owned());
        checked.map_err(|error| Failure::argument(format!("header `{name}`: {error}")))?;
        answer.headers.push((name.to_owned(), value.to_owned()));
        Ok(())
    })
}

/// Sets the body of the answer, and its type, such as "application/json". The bytes are copied.
///
/// Threads: the handler's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_response_body(
    request: MarmotaHandle,
    content_type: MarmotaText,
    bytes: MarmotaBytes,
    length: usize,
) -> i32 {
    with_answer(request, |answer| {
        let (content_type, bytes) =
            (content_type.get("content_type")?, bytes.get(length, "bytes")?);
        let is_printable = content_type.bytes().all(|byte| (b' '..0x7F).contains(&byte));
        if content_type.is_empty() || !is_printable {
            return Err(Failure::argument("`content_type` is not a media type"));
        }
        content_type.clone_into(&mut answer.content_type);
        answer.body.clear();
        answer.body.extend_from_slice(bytes);
        Ok(())
    })
}

/// Makes the answer a problem document (RFC 9457) with a status of 400 to 599 and a text.
///
/// Threads: the handler's thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_response_problem(
    request: MarmotaHandle,
    status: u16,
    detail: MarmotaText,
) -> i32 {
    with_answer(request, |answer| {
        let known = Status::new(status).filter(|status| status.code() >= 400);
        let known = known.ok_or_else(|| {
            Failure::argument(format!("status {status}: a problem has a status of 400 to 599"))
        })?;
        let problem = Response::problem(known, detail.get("detail")?);
        answer.status = Some(known);
        problem.content_type().clone_into(&mut answer.content_type);
        answer.body.clear();
        answer.body.extend_from_slice(problem.body().as_bytes());
        Ok(())
    })
}

/// Sends the writes of a batch as `marmota_batch_send` does with MARMOTA_ALL_OR_NOTHING, but after the
/// handler has returned MARMOTA_OK. The client gets the handler's answer once they are committed, and
/// the error if they are not. The thread answers other requests meanwhile, whose batches share the
/// commit. The batch is empty afterwards; free it. Its target is a store.
///
/// Threads: the handler's thread, which is that of the batch.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_response_after_batch(
    request: MarmotaHandle,
    batch: MarmotaHandle,
) -> i32 {
    with_answer(request, |answer| {
        if answer.batch.is_some() {
            let message = "the answer waits for another batch: add the writes to that one";
            return Err(Failure::argument(message));
        }
        answer.batch = Some(UnsentBatch::take(batch)?);
        Ok(())
    })
}
