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
    slots: Vec<Slot<'s, V>>,
    /// The number of actions, from the first on, that are done.
    done: usize,
    has_begun: bool,
}

enum Slot<'s, V: Verb> {
    Waiting(Action<'s, V>),
    Done(V::Output),
    Taken,
}

/// Executes actions concurrently: over a network they share packets and one wait. The actions must
/// not depend on each other, and are executed in any order.
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
    let slots = actions.into_iter().map(Slot::Waiting).collect();
    All { slots, done: 0, has_begun: false }
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

impl<V: Verb> Slot<'_, V> {
    /// Returns true once the action is done.
    fn poll(&mut self, context: &mut Context<'_>) -> Result<bool> {
        let Self::Waiting(action) = self else { return Ok(true) };
        match Pin::new(action).poll(context)? {
            Poll::Ready(output) => {
                *self = Self::Done(output);
                Ok(true)
            }
            Poll::Pending => Ok(false),
        }
    }
}

impl<V: Verb> Future for All<'_, V>
where
    V::Output: Unpin,
{
    type Output = Result<Vec<V::Output>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if !std::mem::replace(&mut this.has_begun, true) {
            for slot in &mut this.slots {
                slot.poll(context)?;
            }
        }
        // Nothing is returned before the first action has ended. Its waker wakes this task, so the
        // others need not be polled in the meantime.
        while let Some(slot) = this.slots.get_mut(this.done) {
            if !slot.poll(context)? {
                return Poll::Pending;
            }
            this.done += 1;
        }
        let taken = |slot: &mut Slot<'_, V>| match std::mem::replace(slot, Slot::Taken) {
            Slot::Done(output) => Some(output),
            _ => None,
        };
        Poll::Ready(Ok(this.slots.iter_mut().filter_map(taken).collect()))
    }
}
