//! One API for blocking and asynchronous callers: a verb returns an [`Action`], which a server
//! awaits and a script, a test or a thread runs.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use marmota_model::{Result, RowSink};

use crate::contract::durability::Durability;
use crate::contract::operation::{Operation, Outcome};
use crate::store::{Pending, Progress, Store};

/// The implementation of a verb: it makes the operation and its sink, and the result from the
/// outcome. The verbs of this crate are implemented with it. Implement it for a custom verb, such
/// as one that does not read rows into structs, and execute that with [`Store::action`].
pub trait Verb: Unpin {
    /// The type of the action's result.
    type Output;

    /// Makes the operation and the sink, and passes both to `call`. It may be called again for the
    /// same action if the action has to wait.
    ///
    /// # Errors
    /// An error for invalid arguments, or the error that `call` returned.
    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()>;

    /// Makes the action's result from the outcome.
    ///
    /// # Errors
    /// An error that the outcome means for this verb, such as a missing row.
    fn finish(&mut self, store: &Store, outcome: &mut Outcome) -> Result<Self::Output>;
}

/// An operation that has not been executed yet. `.await` it, or call [`Action::run`]: nothing
/// happens before that. An action that is dropped while it waits is cancelled.
///
/// ```
/// # use marmota_derive::Model;
/// # use marmota_memory::Memory;
/// # use marmota_store::Store;
/// # #[derive(Clone, Debug, PartialEq, Model)]
/// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
/// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
/// # let store = Store::builder(Memory::new()).model::<City>().open()?;
/// let (bourges, lyon) = (city("Bourges", 64_000), city("Lyon", 520_000));
/// drop(store.insert(&lyon)); // never executed
/// store.insert(&lyon).run()?; // blocks the thread
/// # marmota_store::action::block_on(async {
/// store.insert(&bourges).await?; // in async code
/// # Ok::<(), marmota_model::Error>(())
/// # })?;
/// assert_eq!(store.count::<City>().run()?, 2);
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[must_use = "an action does nothing until it is awaited or run"]
pub struct Action<'s, V: Verb> {
    pub(crate) store: &'s Store,
    pub(crate) verb: V,
    pending: Option<Pending>,
    durability: Option<Durability>,
}

impl<'s, V: Verb> Action<'s, V> {
    pub(crate) const fn new(store: &'s Store, verb: V) -> Self {
        Self { store, verb, pending: None, durability: None }
    }

    /// The same action with another verb, before it is started.
    pub(crate) fn with_verb<W: Verb>(&self, change: impl FnOnce(&V) -> W) -> Action<'s, W> {
        let durability = self.durability;
        Action { store: self.store, verb: change(&self.verb), pending: None, durability }
    }

    /// Sets a durability other than the store's. If the engine does not support it, the write has
    /// the engine's own durability. A read ignores it.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// use marmota_store::Durability;
    ///
    /// // Fast, but the last of such writes are lost if the machine crashes.
    /// store.insert(&city("Bourges", 64_000)).durability(Durability::Relaxed).run()?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Executes the action and blocks the thread while it waits.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// let id = store.insert(&city("Bourges", 64_000)).run()?;
    /// assert_eq!(id, 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the verb.
    pub fn run(mut self) -> Result<V::Output> {
        let Self { store, verb, durability, .. } = &mut self;
        let mut outcome = Outcome::default();
        verb.operate(store, &mut |operation, sink| {
            store.run_into(*durability, operation, sink, &mut outcome)
        })?;
        verb.finish(store, &mut outcome)
    }
}

impl Store {
    /// Executes a custom verb.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use std::sync::Arc;
    /// use marmota_model::{Field, Kind, RowQuery, Result, Role, RowSink, Schema, Table, ValueRef};
    /// use marmota_store::action::Verb;
    /// use marmota_memory::Memory;
    /// use marmota_store::operation::{Operation, Outcome};
    /// use marmota_store::Store;
    ///
    /// /// How many bytes the texts of a field have, of all rows.
    /// struct TextBytes(Arc<Table>, usize);
    ///
    /// impl Verb for TextBytes {
    ///     type Output = usize;
    ///
    ///     fn operate(
    ///         &mut self,
    ///         _: &Store,
    ///         call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ///     ) -> Result<()> {
    ///         let (query, Self(table, bytes)) = (RowQuery::new(), self);
    ///         call(&mut Operation::List { table, query: &query }, &mut |row: &[ValueRef<'_>]| {
    ///             if let ValueRef::Text(text) = row[1] {
    ///                 *bytes += text.len();
    ///             }
    ///             ControlFlow::Continue(())
    ///         })
    ///     }
    ///
    ///     fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<usize> {
    ///         Ok(self.1)
    ///     }
    /// }
    ///
    /// let schema = Schema::new(
    ///     "note",
    ///     vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("text", Kind::TEXT)],
    /// );
    /// let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// let notes = store.table("note")?;
    /// assert_eq!(store.action(TextBytes(notes, 0)).run()?, 0);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub const fn action<V: Verb>(&self, verb: V) -> Action<'_, V> {
        Action::new(self, verb)
    }
}

impl<V: Verb> Future for Action<'_, V> {
    type Output = Result<V::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { store, verb, pending, durability } = self.get_mut();
        poll_verb(store, verb, pending, *durability, context)
    }
}

/// Begins or continues the operation of a verb; `pending` is its state while it waits. Dropping
/// that state does not cancel the operation: see [`Store::cancel`].
pub(crate) fn poll_verb<V: Verb>(
    store: &Store,
    verb: &mut V,
    pending: &mut Option<Pending>,
    durability: Option<Durability>,
    context: &mut Context<'_>,
) -> Poll<Result<V::Output>> {
    let (mut done, mut outcome) = (false, Outcome::default());
    let operated = verb.operate(store, &mut |operation, sink| {
        if pending.is_none() {
            match store.submit(durability, operation, sink, &mut outcome)? {
                Progress::Done => {
                    done = true;
                    return Ok(());
                }
                Progress::Pending(waiting) => *pending = Some(waiting),
            }
        }
        if let Some(waiting) = pending
            && let Poll::Ready(result) = store.poll(waiting, operation, sink, &mut outcome, context)
        {
            *pending = None;
            done = true;
            return result;
        }
        Ok(())
    });
    match operated {
        Err(error) => Poll::Ready(Err(error)),
        Ok(()) if done => Poll::Ready(verb.finish(store, &mut outcome)),
        Ok(()) => Poll::Pending,
    }
}

impl<V: Verb> Drop for Action<'_, V> {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.store.cancel(pending);
        }
    }
}
