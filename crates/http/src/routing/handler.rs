//! Handlers: one trait, two ways to write one. A direct handler writes its response into the
//! connection's buffer; an asynchronous one is a function from [`Request`] to a future of something
//! that is a response ([`crate::Endpoint::future`]).

use std::ops::ControlFlow;

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::{LaterResponse, Response};
use crate::message::writer::ResponseWriter;

/// How a handler leaves its answer.
pub enum Flow {
    /// It is written.
    Done,
    /// It will come; what was written so far is given up.
    Later(LaterResponse),
}

/// Something that answers requests. Implemented for functions
/// `Fn(&Request, &mut ResponseWriter) -> Flow`; for asynchronous ones see [`crate::Endpoint::future`].
pub trait Handler: Send + Sync + 'static {
    /// Answers the request.
    fn handle(&self, request: &Request, out: &mut ResponseWriter<'_>) -> Flow;

    /// Looks at the head of a request whose body is not read yet: what layers do, before
    /// [`crate::Endpoint::before_body`] and `handle`. `Break` answers in the handler's place.
    fn enter(&self, _: &Request, _: &mut AddedHeaders) -> ControlFlow<Response> {
        ControlFlow::Continue(())
    }
}

impl<F> Handler for F
where
    F: Fn(&Request, &mut ResponseWriter<'_>) -> Flow + Send + Sync + 'static,
{
    fn handle(&self, request: &Request, out: &mut ResponseWriter<'_>) -> Flow {
        self(request, out)
    }
}
