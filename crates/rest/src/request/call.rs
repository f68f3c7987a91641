//! The execution of a request in the store, common to all verbs.
//!
//! A verb's step prepares its operation from the request and passes it to `run`. If the engine
//! completes at once, the step writes its response. Otherwise `run` fails with
//! [`Interrupt::Pending`], the step ends, and the verb moves into a future that repeats the step
//! when the engine is ready. So a verb is written once, as sequential code, and owns only values
//! that a repeated step must not regenerate (a key, a time).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_http::{Flow, Request, Response};
use marmota_model::{Error, RowSink};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::{Progress, Store};
use marmota_web::ApiError;

use crate::protocol::body;
use crate::request::answer::{Answer, Out};
use crate::request::request_context::RequestContext;
use crate::request::state::ApiState;
use crate::request::submission::Submission;

/// The reason why a step ends early.
pub(crate) enum Interrupt {
    /// The engine must wait.
    Pending,
    /// The request fails with this error.
    Failed(ApiError),
}

impl From<ApiError> for Interrupt {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

impl From<Error> for Interrupt {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

/// Passes an operation to the store. A step calls it for one operation; a verb that needs another
/// operation returns [`Next::Step`] in between.
pub(crate) type Execute<'r> =
    dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<Outcome, Interrupt> + 'r;

/// The continuation after a step.
pub(crate) enum Next {
    /// Another step, for the verb's next operation.
    Step,
    /// None: the response is written.
    Answered,
}

/// The implementation of a route.
pub(crate) trait Verb: Unpin + 'static {
    /// The subject of [`RequestContext`].
    type Subject: 'static;

    /// Executes one step; called again from its start while it is pending.
    fn step(
        &mut self,
        context: RequestContext<'_, Self::Subject>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt>;
}

/// Executes a verb, synchronously if the engine allows it.
pub(crate) fn execute_verb<V: Verb>(
    mut verb: V,
    context: RequestContext<'_, V::Subject>,
    out: &mut Out<'_, '_>,
) -> Flow {
    let mut answer = out.begin(context.store.rights().is_some());
    let durability = match body::durability(context.request) {
        Ok(durability) => durability,
        Err(error) => {
            answer.fail(&error);
            let kept = answer.into_kept();
            out.end(kept);
            return Flow::Done;
        }
    };
    let mut pending = None;
    let mut submit = |operation: &mut Operation<'_>, sink: &mut dyn RowSink| {
        let mut outcome = Outcome::default();
        match context.store.submit(durability, operation, sink, &mut outcome)? {
            Progress::Done => Ok(outcome),
            Progress::Pending(waiting) => {
                pending = Some(waiting);
                Err(Interrupt::Pending)
            }
        }
    };
    loop {
        match verb.step(context, &mut answer, &mut submit) {
            Ok(Next::Step) => {}
            Ok(Next::Answered) => {
                let kept = answer.into_kept();
                out.end(kept);
                return Flow::Done;
            }
            Err(Interrupt::Pending) => break,
            Err(Interrupt::Failed(error)) => {
                answer.fail(&error);
                let kept = answer.into_kept();
                out.end(kept);
                return Flow::Done;
            }
        }
    }
    Flow::Later(Box::pin(Waiting {
        verb,
        api: Arc::clone(context.api),
        store: context.store.clone(),
        request: context.request.clone(),
        subject: Arc::clone(context.subject),
        answer: Some(answer.into_later()),
        submission: Submission::new(context.store.clone(), durability, pending),
    }))
}

/// A verb whose engine must wait, with the state of its steps.
struct Waiting<V: Verb> {
    verb: V,
    api: Arc<ApiState>,
    store: Store,
    request: Request,
    subject: Arc<V::Subject>,
    /// Taken when it is complete.
    answer: Option<Answer<'static, 'static>>,
    submission: Submission,
}

impl<V: Verb> Future for Waiting<V> {
    type Output = Response;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Response> {
        let Self { verb, api, store, request, subject, answer: slot, submission } = self.get_mut();
        let context = RequestContext { api, store, request, subject };
        // A poll after the end returns pending.
        let Some(mut answer) = slot.take() else { return Poll::Pending };
        let mut drive = |operation: &mut Operation<'_>, sink: &mut dyn RowSink| match submission
            .poll(operation, sink, task)
        {
            Poll::Ready(result) => result.map_err(Interrupt::from),
            Poll::Pending => Err(Interrupt::Pending),
        };
        loop {
            match verb.step(context, &mut answer, &mut drive) {
                Ok(Next::Step) => {}
                Ok(Next::Answered) => return Poll::Ready(answer.into_response()),
                Err(Interrupt::Pending) => {
                    *slot = Some(answer);
                    return Poll::Pending;
                }
                Err(Interrupt::Failed(error)) => {
                    answer.fail(&error);
                    return Poll::Ready(answer.into_response());
                }
            }
        }
    }
}
