//! Several actions executed concurrently.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use marmota_model::Result;

use super::action::{Action, Verb};
use crate::runtime::block_on::park_until;

/// Several actions that are executed concurrently, made by [`all`].
#[must_use = "actions do nothing until they are awaited or run"]
pub struct All<'s, V: Verb> {
    actions: Vec<Action<'s, V>>,
    /// The results so far, one for each action that has begun.
    results: Vec<Option<V::Output>>,
    /// The number of actions, from the first on, that are done.
    done: usize,
}

/// Executes actions concurrently: over a network they share packets and one wait. The actions must
/// not depend on each other, and are executed in any order. Reads by key that need not wait may share
/// a snapshot, which SQLite begins once for all of them.
///
/// The results have the order of the actions. The first error of any action ends the call and
/// cancels the actions that wait.
///
/// ```
/// use marmota_model::{Field, Kind, Role, Schema};
/// use marmota_memory::Memory;
/// use marmota_store::{Store, action::all};
///
/// let schema = Schema::new(
///     "note",
///     vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("text", Kind::TEXT)],
/// );
/// let store = Store::builder(Memory::new()).schema(schema).open()?;
/// let notes = store.table("note")?;
/// let lists = all((0..3).map(|_| store.list_records(&notes))).run()?;
/// assert_eq!(lists.len(), 3);
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub fn all<'s, V: Verb>(actions: impl IntoIterator<Item = Action<'s, V>>) -> All<'s, V> {
    All { actions: actions.into_iter().collect(), results: Vec::new(), done: 0 }
}

impl<V: Verb> All<'_, V>
where
    V::Output: Unpin,
{
    /// Executes the actions and blocks the thread while they wait.
    ///
    /// # Errors
    /// The first error of any action.
    pub fn run(mut self) -> Result<Vec<V::Output>> {
        park_until(|context| Pin::new(&mut self).poll(context))
    }
}

impl<V: Verb> Future for All<'_, V>
where
    V::Output: Unpin,
{
    type Output = Result<Vec<V::Output>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { actions, results, done } = self.get_mut();
        if results.len() < actions.len() {
            results.reserve_exact(actions.len());
            let _shared = match &**actions {
                [first, _, ..] => first.store.share_snapshot(),
                _ => None,
            };
            for action in actions.iter_mut().skip(results.len()) {
                results.push(result(Pin::new(action).poll(context))?);
            }
        }
        // Nothing is returned before the first action has ended. Its waker wakes this task, so the
        // others need not be polled in the meantime.
        for (action, known) in actions.iter_mut().zip(&mut *results).skip(*done) {
            if known.is_none() {
                *known = result(Pin::new(action).poll(context))?;
            }
            if known.is_none() {
                return Poll::Pending;
            }
            *done += 1;
        }
        Poll::Ready(Ok(std::mem::take(results).into_iter().flatten().collect()))
    }
}

/// Returns the result of an action, or `None` if it waits.
fn result<T>(polled: Poll<Result<T>>) -> Result<Option<T>> {
    match polled {
        Poll::Ready(done) => done.map(Some),
        Poll::Pending => Ok(None),
    }
}
