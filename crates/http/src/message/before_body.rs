//! The results of a request's layers, check and extractors: the headers for its answer, the values
//! that are left for the handler, and the steps before its answer.

use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::fmt;

use crate::message::added_headers::AddedHeaders;

/// The results for one request, shared by all handles on it.
#[derive(Default)]
pub(crate) struct BeforeBody {
    /// The headers of the layers, if they have run already; `None` once they are part of an answer.
    pub(crate) headers: RefCell<Option<AddedHeaders>>,
    /// The values of [`Request::set_extension`](crate::Request::set_extension).
    pub(crate) extensions: Extensions,
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

/// The values of a request, at most one of each type. There are few, so they are a list. It only
/// grows, so a handler can keep a reference to a value while another one is added.
#[derive(Default)]
pub(crate) struct Extensions(OnceCell<Box<Link>>);

/// A value, and those that were added after it.
struct Link {
    value: Box<dyn Any>,
    rest: Extensions,
}

impl Extensions {
    /// Returns the value of a type.
    pub(crate) fn get<T: 'static>(&self) -> Option<&T> {
        let mut list = self;
        while let Some(link) = list.0.get() {
            if let Some(value) = link.value.downcast_ref() {
                return Some(value);
            }
            list = &link.rest;
        }
        None
    }

    /// Adds a value, or returns it if one of its type is there.
    pub(crate) fn add<T: 'static>(&self, value: T) -> Result<(), T> {
        if self.get::<T>().is_some() {
            return Err(value);
        }
        let mut list = self;
        while let Some(link) = list.0.get() {
            list = &link.rest;
        }
        let _ = list.0.set(Box::new(Link { value: Box::new(value), rest: Self::default() }));
        Ok(())
    }
}
