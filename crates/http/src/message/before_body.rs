//! What was found out about a request before its body is read: the headers that layers add to its
//! response, and what a check leaves for its handler.

use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::fmt;

use crate::message::added_headers::AddedHeaders;

/// What is known of a request before its handler runs; all handles on the request share it.
#[derive(Default)]
pub(crate) struct BeforeBody {
    /// What its layers add to the answer, where they have seen it already.
    pub(crate) headers: RefCell<Option<AddedHeaders>>,
    pub(crate) extension: OnceCell<Box<dyn Any>>,
}

impl fmt::Debug for BeforeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BeforeBody").field("headers", &self.headers).finish_non_exhaustive()
    }
}

impl BeforeBody {
    /// What its layers add, where they have seen it and their headers are not taken yet.
    pub(crate) fn take_headers(&self) -> Option<AddedHeaders> {
        self.headers.borrow_mut().take()
    }
}
