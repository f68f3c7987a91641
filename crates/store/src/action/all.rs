//! Several actions under way at once.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use marmota_model::Result;

use super::{Action, Verb};
use crate::park::park_until;

/// Several actions, see [`all`].
#[must_use = "actions do nothing until they are awaited or run"]
pub struct All<'s, V: Verb> {
    slots: Vec<Slot<'s, V>>,
    /// How many from the first on are done.
    done: usize,
    has_begun: bool,
}

enum Slot<'s, V: Verb> {
    Waiting(Action<'s, V>),
    Done(V::Output),
    Taken,
}

/// Carries out actions, all of them under way at once: over a network they share
/// packets and one wait. They do not rest on each other, and take place in any
/// order.
///
/// What comes of them has their order. The first error of any ends it, and gives
/// up those that wait.
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
    /// Carries them out, blocking the thread where they have to wait.
    ///
    /// # Errors
    /// The first of any action.
    pub fn run(mut self) -> Result<Vec<V::Output>> {
        park_until(|context| Pin::new(&mut self).poll(context))
    }
}

impl<V: Verb> Slot<'_, V> {
    /// True once it is done.
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
        // Nothing comes of it before the first has ended, and whoever asks for the
        // first is woken for it: the others need not be asked in the meantime.
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
