//! Asynchronous functions of extractors as endpoints: the trait of the methods of
//! [`StateRouter`](crate::StateRouter). Extractors that need not wait run before the future is made.
//! The future keeps the request until all arguments are there.

use std::future::Future;

use crate::extract::Extractor;
use crate::message::request::Request;
use crate::message::response::IntoResponse;
use crate::routing::answer_steps::AnswerSteps;
use crate::routing::endpoint::Endpoint;

/// An asynchronous function whose arguments, up to eight, are parts of a request
/// ([extractors](crate::extract)). It is implemented for functions and closures; the compiler
/// infers `Arguments`. The function is cloned for each request, which is free for an `async fn`.
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
    ($(($($part:ident $mode:ident $value:ident)*))*) => {
        $(impl<F, T, S, $($part, $mode),*> TypedHandler<($(($part, $mode),)*), S> for F
        where
            F: Fn($($part),*) -> T + Clone + Send + Sync + 'static,
            T: Future + 'static,
            T::Output: IntoResponse,
            S: Send + Sync + 'static,
            $($part: Extractor<S, $mode> + 'static, $mode: 'static,)*
        {
            fn endpoint(self, state: S) -> Endpoint {
                Endpoint::future(move |request: Request| {
                    let _ = &state;
                    $(let $value = $part::extract(&request, &state);)*
                    let handler = self.clone();
                    async move {
                        $(let $value = match $value.await {
                            Ok(part) => part,
                            Err(refused) => return refused,
                        };)*
                        let steps = AnswerSteps::take(&request);
                        drop(request);
                        let answer = handler($($value),*).await.into_response();
                        steps.run(answer).await
                    }
                })
            }
        })*
    };
}

typed_handlers! {
    ()
    (A MA a)
    (A MA a B MB b)
    (A MA a B MB b C MC c)
    (A MA a B MB b C MC c D MD d)
    (A MA a B MB b C MC c D MD d E ME e)
    (A MA a B MB b C MC c D MD d E ME e G MG g)
    (A MA a B MB b C MC c D MD d E ME e G MG g H MH h)
    (A MA a B MB b C MC c D MD d E ME e G MG g H MH h I MI i)
}
