//! The results of a request's layers, check and extractors: the headers for its answer, the value
//! that a check leaves for the handler, and the steps before its answer.

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
    /// The steps before the answer ([`Request::before_answer`](crate::Request::before_answer)),
    /// whose type refers to requests.
    #[cfg(feature = "extract")]
    pub(crate) answer_steps: RefCell<Option<Box<dyn Any>>>,
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
