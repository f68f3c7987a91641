//! Asynchronous functions of extractors as endpoints.

use std::future::Future;

use crate::extract::FromRequest;
use crate::message::request::Request;
use crate::message::response::IntoResponse;
use crate::routing::endpoint::Endpoint;

/// An asynchronous function whose arguments, up to eight, are parts of a request. Implemented for
/// functions and closures; the compiler infers `Arguments`.
pub trait TypedHandler<Arguments, S>: Send + Sync + 'static {
    /// Returns the endpoint that calls the function.
    fn endpoint(self, state: S) -> Endpoint;
}

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
