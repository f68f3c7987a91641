//! Deciding on a request by its head alone, before any of its body is read: first the layers
//! around its endpoint, then the endpoint's own check.

use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;

use crate::handler::log_panic;
use crate::layer::AddedHeaders;
use crate::request::Request;
use crate::response::Response;
use crate::status::Status;

/// A decision on a request that comes later. It is polled on the connection's own thread only.
pub type LaterAdmission = Pin<Box<dyn Future<Output = Result<(), Response>>>>;

/// What [`crate::Endpoint::before_body`] decides on a request.
pub enum Admission {
    /// The body is read, then the handler runs.
    Granted,
    /// This is the answer; the body is not read.
    Refused(Response),
    /// The decision comes later; none of the body is read until then.
    Later(LaterAdmission),
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Granted => "Granted",
            Self::Refused(_) => "Refused",
            Self::Later(_) => "Later",
        })
    }
}

/// What is known of a request before its handler runs; all handles on the request share it.
#[derive(Default)]
pub(crate) struct Admitted {
    /// What its layers add to the answer, where they have seen it already.
    headers: RefCell<Option<AddedHeaders>>,
    extension: OnceCell<Box<dyn Any>>,
}

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admitted").field("headers", &self.headers).finish_non_exhaustive()
    }
}

impl Admitted {
    /// What its layers add, where they have seen it and their headers are not taken yet.
    pub(crate) fn take_headers(&self) -> Option<AddedHeaders> {
        self.headers.borrow_mut().take()
    }
}

/// Has the layers and the check of a request's endpoint decide on it.
pub(crate) fn decide(request: &Request) -> Admission {
    let exchange = &request.0;
    let endpoint = exchange.endpoint.and_then(|index| exchange.routes.endpoint(index));
    let Some(endpoint) = endpoint.filter(|endpoint| endpoint.decides_early()) else {
        return Admission::Granted;
    };
    let mut headers = AddedHeaders::default();
    let decided = catch_unwind(AssertUnwindSafe(|| {
        match (endpoint.handler.enter(request, &mut headers), &endpoint.check) {
            (ControlFlow::Break(answer), _) => Admission::Refused(answer),
            (ControlFlow::Continue(()), None) => Admission::Granted,
            (ControlFlow::Continue(()), Some(check)) => check(request),
        }
    }));
    let decided = decided.unwrap_or_else(|panic| {
        log_panic(request, &*panic);
        Admission::Refused(Response::from_status(Status::INTERNAL_SERVER_ERROR))
    });
    let admitted = exchange.admitted.get_or_init(Rc::default);
    *admitted.headers.borrow_mut() = Some(headers);
    match decided {
        Admission::Refused(answer) => Admission::Refused(refused(request, answer)),
        decided => decided,
    }
}

/// The answer that refuses a request, with what its layers add.
pub(crate) fn refused(request: &Request, answer: Response) -> Response {
    match request.0.admitted.get().and_then(|admitted| admitted.take_headers()) {
        Some(headers) => headers.onto(answer),
        None => answer,
    }
}

impl Request {
    /// Leaves a value with the request, for its handler to find: who makes it, as
    /// [`crate::Endpoint::before_body`] has found out. A request has room for one; a second is
    /// given back.
    ///
    /// # Errors
    /// The value, if another was left before.
    pub fn set_extension<T: 'static>(&self, value: T) -> Result<(), T> {
        let slot = &self.0.admitted.get_or_init(Rc::default).extension;
        if slot.get().is_some() {
            return Err(value);
        }
        let _ = slot.set(Box::new(value));
        Ok(())
    }

    /// The value that [`Request::set_extension`] has left, if it is one of this type.
    pub fn extension<T: 'static>(&self) -> Option<&T> {
        self.0.admitted.get()?.extension.get()?.downcast_ref()
    }
}
