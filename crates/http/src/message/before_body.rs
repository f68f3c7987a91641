//! The results of a request's layers and check, which run before its body is read: the headers for
//! its answer, and the value that a check leaves for the handler.

use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::fmt;

use crate::message::added_headers::AddedHeaders;

/// The results for one request, shared by all handles on it.
#[derive(Default)]
pub(crate) struct BeforeBody {
    /// The headers of the layers, if they have run already; `None` once they are part of an answer.
    pub(crate) headers: RefCell<Option<AddedHeaders>>,
    /// The value of [`Request::set_extension`](crate::Request::set_extension).
    pub(crate) extension: OnceCell<Box<dyn Any>>,
}

impl fmt::Debug for BeforeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BeforeBody").field("headers", &self.headers).finish_non_exhaustive()
    }
}

impl BeforeBody {
    /// Returns the headers of the layers, if they have run and the headers were not taken yet.
    pub(crate) fn take_headers(&self) -> Option<AddedHeaders> {
        self.headers.borrow_mut().take()
    }
}
