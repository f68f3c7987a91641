//! Typed values that layers, checks and wrapping functions leave with a request for its handler.

use std::rc::Rc;

use super::Request;

impl Request {
    /// Leaves a value with the request, for its handler: usually the caller, as
    /// [`Endpoint::before_body`](crate::Endpoint::before_body), a layer or a
    /// [wrapping function](crate::Router::wrap) has authenticated it. A request has at most one
    /// value of each type. A handler takes it by [`extension`](Self::extension), or as an argument
    /// by [`Extension`](crate::extract::Extension).
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use marmota_http::{AddedHeaders, Layer, Request, Response, Router, TestRequest};
    ///
    /// struct Tenant(String);
    /// struct ByHost;
    ///
    /// impl Layer for ByHost {
    ///     fn enter(&self, request: &Request, _: &mut AddedHeaders) -> ControlFlow<Response> {
    ///         let host = request.host().split('.').next().unwrap_or_default();
    ///         let _ = request.set_extension(Tenant(host.to_owned()));
    ///         ControlFlow::Continue(())
    ///     }
    /// }
    ///
    /// async fn tenant(request: Request) -> String {
    ///     request.extension::<Tenant>().map_or(String::new(), |tenant| tenant.0.clone())
    /// }
    ///
    /// let router = Router::new().get("/", tenant).layer(ByHost);
    /// assert_eq!(router.call(TestRequest::get("/").header("Host", "a.example.org"))?.text(), "a");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    ///
    /// # Errors
    /// The value, if another one of its type was set before.
    pub fn set_extension<T: 'static>(&self, value: T) -> Result<(), T> {
        self.0.before_body.get_or_init(Rc::default).extensions.add(value)
    }

    /// Returns the value of this type that [`Request::set_extension`] was given.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// async fn level(request: Request) -> String {
    ///     request.extension::<u8>().map_or("none".to_owned(), u8::to_string)
    /// }
    /// let router = Router::new().get("/", level);
    /// assert_eq!(router.call(TestRequest::get("/"))?.text(), "none");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn extension<T: 'static>(&self) -> Option<&T> {
        self.0.before_body.get()?.extensions.get()
    }
}
