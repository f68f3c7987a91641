//! The steps between a handler of extractors and its answer, which an extractor adds to its request.

use std::future::Future;
use std::rc::Rc;

use crate::message::request::Request;
use crate::message::response::{LaterResponse, Response};

/// A step: from the handler's answer to the one that is sent.
type AnswerStep = Box<dyn FnOnce(Response) -> LaterResponse>;

/// The steps of a request.
#[derive(Default)]
pub(crate) struct AnswerSteps(Vec<AnswerStep>);

impl AnswerSteps {
    /// Takes the steps of a request.
    pub(crate) fn take(request: &Request) -> Self {
        let steps = request.0.before_body.get().and_then(|kept| kept.answer_steps.take());
        steps.and_then(|steps| steps.downcast().ok()).map_or_else(Self::default, |steps| *steps)
    }

    /// Executes the steps; the one that was added last is the first.
    pub(crate) async fn run(self, mut answer: Response) -> Response {
        for step in self.0.into_iter().rev() {
            answer = step(answer).await;
        }
        answer
    }
}

impl Request {
    /// Adds a step between the handler and its answer, which an extractor of
    /// [`Router::with_state`](crate::Router::with_state) adds to end what it has begun: a
    /// transaction, for example. The step gets the handler's answer and returns the one that is
    /// sent; the body of a streamed answer is produced after it. The step that was added last is
    /// executed first. If the handler is not called, panics or is cancelled, the step is dropped
    /// without being called.
    ///
    /// ```
    /// use marmota_http::extract::FromRequest;
    /// use marmota_http::{Request, Response, Router, TestRequest};
    ///
    /// struct Visit;
    ///
    /// impl<S> FromRequest<S> for Visit {
    ///     fn from_request(request: &Request, _: &S) -> Result<Self, Response> {
    ///         request.before_answer(|answer| async move {
    ///             println!("answered {}", answer.status());
    ///             answer
    ///         });
    ///         Ok(Self)
    ///     }
    /// }
    ///
    /// let router = Router::with_state(()).get("/", |_: Visit| async { "in" }).router();
    /// assert_eq!(router.call(TestRequest::get("/"))?.text(), "in");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn before_answer<F, T>(&self, step: F)
    where
        F: FnOnce(Response) -> T + 'static,
        T: Future<Output = Response> + 'static,
    {
        let mut steps = AnswerSteps::take(self);
        steps.0.push(Box::new(move |answer| Box::pin(step(answer))));
        let kept = self.0.before_body.get_or_init(Rc::default);
        *kept.answer_steps.borrow_mut() = Some(Box::new(steps));
    }
}
