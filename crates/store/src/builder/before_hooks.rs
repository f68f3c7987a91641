//! Hooks that are called before a row is written, on the rows as structs.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use marmota_model::rule::violation;
use marmota_model::{Column, Error, ErrorKind, Model, Result, Scratch, Value, ValueRef, Violation};

use super::StoreBuilder;
use crate::contract::change::ChangeKind;
use crate::contract::row_hook::{AssignedFields, HookCall, RowChange};
use crate::layers::handle::HandleContext;
use crate::layers::steps::before_hooks::{BeforeHook, BeforeHooks};
use crate::rows::registry::Registry;
use crate::store::{Store, StoreCore};

/// How long an asynchronous hook may take by default.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);

/// The change of a row that is about to be written, as a hook gets it.
///
/// A hook may change [`BeforeChange::after`], which is then written. The key, the timestamps and the
/// version cannot be changed, nor generated columns, which have the values before the write: NULL,
/// an empty text or 0 in a new row.
///
/// Blobs that are not written are empty in both rows, and stay as they are unless the hook changes
/// them.
#[derive(Clone, Debug, PartialEq)]
pub struct BeforeChange<M> {
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The stored row; `None` for an insert.
    pub before: Option<M>,
    /// The row as it will be; `None` for a delete. A key that the engine generates is 0.
    pub after: Option<M>,
    /// The actor of the write, if it has one ([`Store::with_actor`]).
    pub actor: Option<Arc<str>>,
}

impl<M: Model> BeforeChange<M> {
    /// Returns an error that refuses the write because of a field, as a rule of the model does: of
    /// the kind [`ErrorKind::Invalid`], with a violation. In REST it is a problem document (422).
    ///
    /// `rule` is the broken rule in one word, and `message` a sentence that states the correct form.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, Model)]
    /// # struct Booking { id: i64, from: i64, until: i64 }
    /// let builder = Store::builder(Memory::new()).model::<Booking>();
    /// let store = builder.before::<Booking>(|change| match &change.after {
    ///     Some(booking) if booking.until <= booking.from => {
    ///         Err(change.refuse(Booking::UNTIL, "order", "must be after `from`"))
    ///     }
    ///     _ => Ok(()),
    /// });
    /// let store = store.open()?;
    /// let error = store.insert(&Booking { id: 0, from: 5, until: 3 }).run().unwrap_err();
    /// assert_eq!(error.violations()[0].field, "until");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn refuse<T>(&self, field: Column<M, T>, rule: &str, message: impl Into<String>) -> Error {
        Error::invalid(vec![self.violation(field, rule, message)])
    }

    /// Returns a violation for [`Error::invalid`], for a hook that refuses several fields at once.
    pub fn violation<T>(
        &self,
        field: Column<M, T>,
        rule: &str,
        message: impl Into<String>,
    ) -> Violation {
        let row = self.after.as_ref().or(self.before.as_ref()).map(values_of);
        let value = row.as_ref().and_then(|row| row.get(field.position()));
        let value = value.map_or(ValueRef::Null, Value::as_ref);
        violation(&M::schema().fields[field.position()], value, rule, message)
    }
}

/// The future of an asynchronous hook ([`StoreBuilder::before_boxed`]).
pub type HookFuture<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// An asynchronous function that can be a hook: [`StoreBuilder::before_async`] takes it. It is
/// implemented for functions and closures; programs need not name it.
pub trait AsyncHook<'a, M: 'a>: Send + Sync {
    /// The future that it returns.
    type Output: Future<Output = Result<()>> + Send + 'a;

    /// Calls the function.
    fn call(&self, transaction: &'a Store, change: &'a mut BeforeChange<M>) -> Self::Output;
}

impl<'a, M, F, R> AsyncHook<'a, M> for F
where
    M: 'a,
    F: Fn(&'a Store, &'a mut BeforeChange<M>) -> R + Send + Sync,
    R: Future<Output = Result<()>> + Send + 'a,
{
    type Output = R;

    fn call(&self, transaction: &'a Store, change: &'a mut BeforeChange<M>) -> R {
        self(transaction, change)
    }
}

impl StoreBuilder {
    /// Calls a function before each write of a row of a model, inside of the transaction of the
    /// write. The function may change the row ([`BeforeChange::after`]), or refuse the write with an
    /// error ([`BeforeChange::refuse`]).
    ///
    /// It is called for all writes but raw SQL. The values that it changes are checked by the rules
    /// of the model. Several hooks of a model are called in the order of these calls. A panic is
    /// reported as an error of the kind [`ErrorKind::Bug`].
    ///
    /// The function MUST NOT block, nor call the store: it may run on the thread of an event loop,
    /// and other writes may wait for it. To read or write other rows, use
    /// [`StoreBuilder::before_async`].
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, Model)]
    /// # struct Person { id: i64, email: String }
    /// let builder = Store::builder(Memory::new()).model::<Person>();
    /// let builder = builder.before::<Person>(|change| {
    ///     if let Some(person) = &mut change.after {
    ///         person.email = person.email.to_lowercase();
    ///     }
    ///     Ok(())
    /// });
    /// let store = builder.open()?;
    /// let id = store.insert(&Person { id: 0, email: "Ada@Example.org".into() }).run()?;
    /// assert_eq!(store.get::<Person>(id).run()?.email, "ada@example.org");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn before<M: Model>(
        self,
        hook: impl Fn(&mut BeforeChange<M>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.add_hook::<M>(|_| Box::new(PlainHook::<M>(Box::new(hook))))
    }

    /// Like [`StoreBuilder::before`], for an asynchronous function, which also gets a handle to the
    /// transaction of the write: what it reads and writes by this handle commits or rolls back with
    /// the write.
    ///
    /// The operations of the handle have the actor of the write and no limits of rights. Its writes
    /// call the hooks of their tables, up to 8 deep. Await them one after the other. The handle is
    /// valid until the function returns.
    ///
    /// A write that is repeated after a conflict with another transaction calls the function again.
    /// The function fails after [`StoreBuilder::before_deadline`].
    ///
    /// A closure cannot use variables of its surroundings: use [`StoreBuilder::before_boxed`] for
    /// that.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_model::{Error, ErrorKind};
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, Model)]
    /// # struct Order { id: i64, customer: String }
    /// let builder = Store::builder(Memory::new()).model::<Order>();
    /// let builder = builder.before_async::<Order, _>(async |tx, change| {
    ///     if let (None, Some(order)) = (&change.before, &change.after) {
    ///         let of_customer = Order::CUSTOMER.eq(&*order.customer);
    ///         if tx.count::<Order>().filter(of_customer).await? >= 2 {
    ///             return Err(change.refuse(Order::CUSTOMER, "limit", "has 2 orders already"));
    ///         }
    ///     }
    ///     Ok(())
    /// });
    /// let store = builder.open()?;
    /// let order = Order { id: 0, customer: "Ada".into() };
    /// store.insert_many(&[order.clone(), order.clone()]).run()?;
    /// assert_eq!(store.insert(&order).run().unwrap_err().kind(), ErrorKind::Invalid);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn before_async<M, H>(self, hook: H) -> Self
    where
        M: Model + Send,
        H: AsyncFn(&Store, &mut BeforeChange<M>) -> Result<()> + for<'a> AsyncHook<'a, M> + 'static,
    {
        let hook = Arc::new(hook);
        self.add_waiting_hook::<M>(Box::new(move |transaction, mut change| {
            let hook = Arc::clone(&hook);
            Box::pin(async move {
                AsyncHook::<M>::call(&*hook, &transaction, &mut change).await?;
                Ok(change)
            })
        }))
    }

    /// Like [`StoreBuilder::before_async`], for a function that returns a boxed future, which may
    /// use what it has captured.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, Model)]
    /// # struct Order { id: i64, customer: String }
    /// # #[derive(Clone, Debug, Model)]
    /// # struct Entry { id: i64, text: String }
    /// # let builder = Store::builder(Memory::new()).model::<Order>().model::<Entry>();
    /// let place = "Bourges".to_owned();
    /// let store = builder.before_boxed::<Order>(move |tx, change| {
    ///     let text = format!("{} in {place}", change.kind.name());
    ///     Box::pin(async move { tx.insert(&Entry { id: 0, text }).await.map(drop) })
    /// });
    /// let store = store.open()?;
    /// store.insert(&Order { id: 0, customer: "Ada".into() }).run()?;
    /// assert_eq!(store.list::<Entry>().run()?[0].text, "insert in Bourges");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn before_boxed<M: Model + Send>(
        self,
        hook: impl for<'a> Fn(&'a Store, &'a mut BeforeChange<M>) -> HookFuture<'a>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let hook = Arc::new(hook);
        self.add_waiting_hook::<M>(Box::new(move |transaction, mut change| {
            let hook = Arc::clone(&hook);
            Box::pin(async move {
                hook(&transaction, &mut change).await?;
                Ok(change)
            })
        }))
    }

    /// Sets how long one call of an asynchronous hook may take, with the operations that it awaits.
    /// After that the write fails with [`ErrorKind::Timeout`] and is rolled back. Default: 5 s.
    #[must_use]
    pub const fn before_deadline(mut self, deadline: Duration) -> Self {
        self.before_hooks.deadline = deadline;
        self
    }

    fn add_waiting_hook<M: Model + Send>(self, call: WaitingCall<M>) -> Self {
        self.add_hook::<M>(|core| Box::new(WaitingHook { core: Arc::clone(core), call }))
    }

    fn add_hook<M: Model>(mut self, hook: impl FnOnce(&LateCore) -> Box<dyn BeforeHook>) -> Self {
        let hooks = &mut self.before_hooks;
        let check = |registry: &Registry| registry.of::<M>().map(drop);
        let hook = hook(&hooks.core);
        hooks.hooks.push(HookToOpen { table: M::TABLE, check, hook });
        self
    }
}

/// The hooks of a builder.
pub(super) struct HooksToOpen {
    hooks: Vec<HookToOpen>,
    deadline: Duration,
    core: LateCore,
}

/// A hook of a builder.
struct HookToOpen {
    table: &'static str,
    /// Checks that the store has the model.
    check: fn(&Registry) -> Result<()>,
    hook: Box<dyn BeforeHook>,
}

/// The store of hooks, which exists only after they were made.
pub(super) type LateCore = Arc<OnceLock<Weak<StoreCore>>>;

impl Default for HooksToOpen {
    fn default() -> Self {
        Self { hooks: Vec::new(), deadline: DEADLINE, core: LateCore::default() }
    }
}

impl HooksToOpen {
    /// Returns the names of the tables that have hooks.
    pub(super) fn tables(&self) -> impl Iterator<Item = &'static str> {
        self.hooks.iter().map(|hook| hook.table)
    }

    /// Returns the hooks for a store with these tables, if there are any, and the place for the
    /// store.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for a model that the store does not have.
    pub(super) fn open(self, registry: &Registry) -> Result<(Option<BeforeHooks>, LateCore)> {
        let Self { hooks, deadline, core } = self;
        if hooks.is_empty() {
            return Ok((None, core));
        }
        let mut opened = BeforeHooks::new(deadline);
        for HookToOpen { table, check, hook } in hooks {
            check(registry)?;
            opened.add(table, hook);
        }
        Ok((Some(opened), core))
    }
}

/// A hook that returns at once.
struct PlainHook<M>(PlainCall<M>);

type PlainCall<M> = Box<dyn Fn(&mut BeforeChange<M>) -> Result<()> + Send + Sync>;

impl<M: Model> BeforeHook for PlainHook<M> {
    fn is_async(&self) -> bool {
        false
    }

    fn call(&self, handle: &HandleContext, change: &RowChange) -> HookCall {
        let called = Presented::of(handle, change).and_then(|(presented, mut change)| {
            (self.0)(&mut change)?;
            presented.assigned(&change)
        });
        HookCall::Done(called)
    }
}

/// A hook that may wait, and gets a handle to the transaction.
struct WaitingHook<M> {
    core: LateCore,
    call: WaitingCall<M>,
}

type WaitingCall<M> = Box<
    dyn Fn(Store, BeforeChange<M>) -> Pin<Box<dyn Future<Output = Result<BeforeChange<M>>> + Send>>
        + Send
        + Sync,
>;

impl<M: Model + Send> BeforeHook for WaitingHook<M> {
    fn is_async(&self) -> bool {
        true
    }

    fn call(&self, handle: &HandleContext, change: &RowChange) -> HookCall {
        let Some(core) = self.core.get().and_then(Weak::upgrade) else {
            return HookCall::Done(Err(Error::new(ErrorKind::Closed, "the store is closed")));
        };
        let transaction = Store::in_context(core, handle.clone());
        match Presented::of(handle, change) {
            Ok((presented, change)) => {
                let call = (self.call)(transaction, change);
                HookCall::Running(Box::pin(async move { presented.assigned(&call.await?) }))
            }
            Err(error) => HookCall::Done(Err(error)),
        }
    }
}

/// The values of the row after a change as the hook got them.
struct Presented(Option<Vec<Value>>);

impl Presented {
    /// Returns the change on structs.
    fn of<M: Model>(handle: &HandleContext, change: &RowChange) -> Result<(Self, BeforeChange<M>)> {
        let read = |row: &Option<Vec<Value>>| {
            let row = row.as_ref().map(|row| row.iter().map(Value::as_ref).collect::<Vec<_>>());
            row.map(|row| M::read(&row)).transpose()
        };
        let (before, after) = (read(&change.before)?, read(&change.after)?);
        let presented = Self(after.as_ref().map(values_of));
        let actor = handle.actor.clone();
        Ok((presented, BeforeChange { kind: change.kind, before, after, actor }))
    }

    /// Returns the fields that the hook has changed.
    fn assigned<M: Model>(self, change: &BeforeChange<M>) -> Result<AssignedFields> {
        match (self.0, &change.after) {
            (None, None) => Ok(Vec::new()),
            (Some(before), Some(after)) => {
                let fields = before.into_iter().zip(values_of(after)).enumerate();
                let changed = fields.filter(|(_, (before, after))| before != after);
                Ok(changed.map(|(field, (_, after))| (field, after)).collect())
            }
            _ => {
                let message = format!(
                    "a hook of `{}` has added or removed the row after the {}; to refuse the write, \
                     return an error",
                    M::TABLE,
                    change.kind.name()
                );
                Err(Error::new(ErrorKind::Bug, message))
            }
        }
    }
}

/// Returns the values of a struct, in the order of its fields.
fn values_of<M: Model>(model: &M) -> Vec<Value> {
    let scratch = Scratch::new();
    let mut row = vec![ValueRef::Absent; M::schema().fields.len()];
    model.write(&mut row, &scratch);
    row.iter().map(ValueRef::to_value).collect()
}
