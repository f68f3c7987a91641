//! Asynchronous functions of extractors as endpoints: the trait of the methods of
//! [`StateRouter`](crate::StateRouter). The extractors run before the future is made, so the future
//! holds only the extracted values.

use std::future::Future;

use crate::extract::FromRequest;
use crate::message::request::Request;
use crate::message::response::IntoResponse;
use crate::routing::endpoint::Endpoint;

/// An asynchronous function whose arguments, up to eight, are parts of a request
/// ([extractors](crate::extract)). It is implemented for functions and closures; the compiler
/// infers `Arguments`.
///
/// ```
/// use marmota_http::extract::{Path, State};
/// use marmota_http::{Endpoint, Method, Router, TestRequest, TypedHandler};
///
/// async fn greet(State(greeting): State<String>, Path(name): Path<String>) -> String {
///     format!("{greeting}, {name}!")
/// }
///
/// let endpoint: Endpoint = greet.endpoint("Hello".to_owned());
/// let router = Router::new().on(Method::Get, "/greet/{name}", endpoint.timeout_ms(1_000));
/// assert_eq!(router.call(TestRequest::get("/greet/Ada"))?.text(), "Hello, Ada!");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub trait TypedHandler<Arguments, S>: Send + Sync + 'static {
    /// Returns the endpoint that calls the function with the extracted arguments.
    fn endpoint(self, state: S) -> Endpoint;
}

/// Implements the trait for functions of this number of arguments.
macro_rules! typed_handlers {
    ($(($($part:ident $value:ident)*))*) => {
        $(impl<F, T, S, $($part),*> TypedHandler<($($part,)*), S> for F
        where
            F: Fn($($part),*) -> T + Send + Sync + 'static,
            T: Future + 'static,
            T::Output: IntoResponse,
            S: Send + Sync + 'static,
            $($part: FromRequest<S>,)*
        {
            fn endpoint(self, state: S) -> Endpoint {
                Endpoint::future(move |request: Request| {
                    let parts = <($($part,)*)>::from_request(&request, &state);
                    let called = parts.map(|($($value,)*)| self($($value),*));
                    async move {
                        match called {
                            Ok(answer) => answer.await.into_response(),
                            Err(refused) => refused,
                        }
                    }
                })
            }
        })*
    };
}

typed_handlers! {
    ()
    (A a)
    (A a B b)
    (A a B b C c)
    (A a B b C c D d)
    (A a B b C c D d E e)
    (A a B b C c D d E e G g)
    (A a B b C c D d E e G g H h)
    (A a B b C c D d E e G g H h I i)
}
