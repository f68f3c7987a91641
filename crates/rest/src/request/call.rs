//! The execution of a request in the store, common to all verbs.
//!
//! A verb's step prepares its operation from the request and passes it to `execute`. If the engine
//! completes at once, the step writes its response. Otherwise `execute` fails with
//! [`Interrupt::Pending`], the step ends, and the verb moves into a future that repeats the step
//! when the engine is ready. So a verb is written once, as sequential code, and owns only values
//! that a repeated step must not regenerate (a key, a time).
//!
//! ```text
//! Verb::of ─► step ─► execute ─► Progress::Done    ─► Flow::Done
//!              ▲                 Progress::Pending ─► Flow::Later(Waiting)
//!              └──────────── when the engine is ready ──────────┘
//! ```

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
///
/// Rows go to the sink while the operation is executed. It fails with [`Interrupt::Pending`] if the
/// engine must wait, which the step returns with `?`. After that, the step is repeated and must
/// pass the same operation.
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
///
/// A value is created from a request by a function `of` of its type, which reports all errors that
/// need no data. It then executes steps until the response is written. Since a step can be
/// repeated, it must write its response from the start, and must take generated keys and times from
/// `self`.
pub(crate) trait Verb: Unpin + 'static {
    /// The subject of [`RequestContext`]: the table, or the registry for batches.
    type Subject: 'static;

    /// Executes one step; called again from its start while it is pending.
    ///
    /// The response is written to `answer`, and operations are passed to `execute`.
    ///
    /// # Errors
    /// [`Interrupt::Pending`] as returned by `execute`, or [`Interrupt::Failed`], whose error
    /// replaces any response written so far.
    fn step(
        &mut self,
        context: RequestContext<'_, Self::Subject>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt>;
}

/// Executes a verb, synchronously if the engine allows it.
///
/// Returns [`Flow::Done`] with the response in `out`, or [`Flow::Later`] with a future for the
/// rest. The request, the store and the subject are cloned only in the second case: a request whose
/// rows are in memory allocates nothing for its execution.
///
/// An unknown durability (`Prefer`) is refused with 400 before the first step.
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

/// A verb whose engine must wait, with the state of its steps. It owns clones of all that a
/// [`RequestContext`] borrows. If it is dropped before its end, its [`Submission`] cancels the
/// operation.
struct Waiting<V: Verb> {
    /// The verb, with the keys and times that its steps have generated.
    verb: V,
    /// The settings of the API.
    api: Arc<ApiState>,
    store: Store,
    request: Request,
    subject: Arc<V::Subject>,
    /// Taken when it is complete.
    answer: Option<Answer<'static, 'static>>,
    /// The operation that waits, and the store that executes it.
    submission: Submission,
}

impl<V: Verb> Future for Waiting<V> {
    type Output = Response;

    /// Repeats the step of the verb until its response is complete. An error of the engine, such as
    /// a timeout, reaches the client as the response.
    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Response> {
        let Self { verb, api, store, request, subject, answer: slot, submission } = self.get_mut();
        let context = RequestContext { api, store, request, subject };
        // A poll after the end returns pending.
        let Some(mut answer) = slot.take() else { return Poll::Pending };
        let mut from_replica = false;
        loop {
            let mut drive = |operation: &mut Operation<'_>, sink: &mut dyn RowSink| match submission
                .poll(operation, sink, task)
            {
                Poll::Ready(result) => {
                    let outcome = result?;
                    from_replica |= outcome.from_replica;
                    Ok(outcome)
                }
                Poll::Pending => Err(Interrupt::Pending),
            };
            let stepped = verb.step(context, &mut answer, &mut drive);
            if from_replica {
                answer.read_from_replica();
            }
            match stepped {
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
