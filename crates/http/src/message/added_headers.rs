//! Headers that layers add to an answer that does not exist yet.

use std::borrow::Cow;

use crate::proto::header::{HeaderError, check_header};

/// The headers that a [`Layer`](crate::Layer) adds to an answer that it does not make. They are
/// sent in addition to the headers of the answer, and do not replace them.
///
/// ```
/// use std::ops::ControlFlow;
/// use marmota_http::{AddedHeaders, Layer, Request, Response, Router, TestRequest};
///
/// struct NoCache;
///
/// impl Layer for NoCache {
///     fn enter(&self, _: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
///         let _ = headers.add("Cache-Control", "no-store");
///         ControlFlow::Continue(())
///     }
/// }
///
/// let router = Router::new().get("/", |_: Request| async { "now" }).layer(NoCache);
/// assert_eq!(router.call(TestRequest::get("/"))?.header("cache-control"), Some("no-store"));
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Debug, Default)]
pub struct AddedHeaders(Vec<(Cow<'static, str>, Cow<'static, [u8]>)>);

impl AddedHeaders {
    /// Adds a header.
    ///
    /// ```
    /// use marmota_http::AddedHeaders;
    /// let mut headers = AddedHeaders::default();
    /// headers.add("X-Served-By", "a7")?;
    /// assert!(headers.add("X-Served-By", "a\r\nb").is_err());
    /// # Ok::<(), marmota_http::HeaderError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Response::with_header`](crate::Response::with_header).
    pub fn add(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) -> Result<(), HeaderError> {
        let (name, value) = (name.into(), value.into());
        check_header(&name, value.as_bytes())?;
        self.put(name, value);
        Ok(())
    }

    /// Adds a header that is known to be valid.
    pub(crate) fn put(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) {
        let value = match value.into() {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        };
        self.0.push((name.into(), value));
    }

    /// Returns true if no header was added, which lets the writer use a prepared head.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of headers.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the headers in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Removes and returns the headers from number `from` on: those that an inner layer has added.
    pub(crate) fn split_off(&mut self, from: usize) -> Self {
        Self(self.0.split_off(from.min(self.0.len())))
    }

    /// Returns the headers as names and values.
    pub(crate) fn into_inner(self) -> Vec<(Cow<'static, str>, Cow<'static, [u8]>)> {
        self.0
    }
}
