//! Handles: numbers for the objects of a C program. Each use is checked, so that a number that is
//! zero, freed or of another kind is an error.
//!
//! A handle has the object's kind (8 bits), the generation of its place (24 bits) and the place (32
//! bits). A place that is used again gets the next generation.

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use marmota::store::Store;
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::data::transaction::TransactionObject;
use crate::status::Failure;

/// A store, transaction, cursor, batch, subscription, server, request, call of a service, client,
/// template, WebSocket or columns. Zero is no handle.
pub type MarmotaHandle = u64;

/// An object that C refers to by a handle.
pub(crate) trait Object: Any + Send + Sync {
    /// The first byte of its handles.
    const KIND: u8;
    /// The kind in messages.
    const NAME: &'static str;
}

impl Object for Store {
    const KIND: u8 = 1;
    const NAME: &'static str = "store";
}

/// The names of the kinds, by their first byte.
const NAMES: [&str; 13] = [
    "",
    "store",
    "transaction",
    "cursor",
    "batch",
    "subscription",
    "server",
    "request",
    "call",
    "client",
    "template",
    "WebSocket",
    "columns",
];

/// The kind of handles of requests, which are not in this table.
pub(crate) const REQUEST: u8 = 7;
/// The kind of handles of calls of services, which are not in this table.
pub(crate) const CALL: u8 = 8;

const SHARDS: usize = 16;
/// The maximum number of objects in a shard.
const PLACES_MAX: usize = 1 << 16;
const GENERATIONS: u32 = 1 << 24;

#[derive(Default)]
struct Shard {
    places: Vec<Place>,
    free: Vec<u32>,
}

struct Place {
    generation: u32,
    object: Option<(u8, Arc<dyn Any + Send + Sync>)>,
}

static SHARD_LIST: [RwLock<Shard>; SHARDS] =
    [const { RwLock::new(Shard { places: Vec::new(), free: Vec::new() }) }; SHARDS];

/// Adds an object, and returns its handle.
pub(crate) fn add<T: Object>(object: T) -> Result<MarmotaHandle, Failure> {
    let number = thread_number() as usize % SHARDS;
    let mut shard = SHARD_LIST[number].write();
    let place = match shard.free.pop() {
        Some(place) => place,
        None if shard.places.len() < PLACES_MAX => {
            shard.places.push(Place { generation: 1, object: None });
            (shard.places.len() - 1) as u32
        }
        None => {
            let message = format!("this thread's group has {PLACES_MAX} handles: free some first");
            return Err(Failure::busy(message));
        }
    };
    let entry = &mut shard.places[place as usize];
    entry.object = Some((T::KIND, Arc::new(object)));
    let index = place as u64 * SHARDS as u64 + number as u64;
    Ok(u64::from(T::KIND) << 56 | u64::from(entry.generation) << 32 | index)
}

/// Returns the object of a handle.
pub(crate) fn find<T: Object>(handle: MarmotaHandle) -> Result<Arc<T>, Failure> {
    let (number, place, generation) = parts(handle);
    let shard = SHARD_LIST[number].read();
    let entry = shard.places.get(place).filter(|entry| entry.generation == generation);
    let object = entry.and_then(|entry| entry.object.as_ref());
    match object {
        Some((kind, object)) if *kind == T::KIND && kind_of(handle) == T::KIND => {
            let object = Arc::clone(object).downcast::<T>();
            object.map_err(|_| wrong(handle, T::KIND, T::NAME))
        }
        _ => Err(wrong(handle, T::KIND, T::NAME)),
    }
}

/// Removes a handle, and returns its object. Calls that use the object on other threads continue.
pub(crate) fn remove<T: Object>(handle: MarmotaHandle) -> Result<Arc<T>, Failure> {
    let object = find::<T>(handle)?;
    let (number, place, generation) = parts(handle);
    let mut shard = SHARD_LIST[number].write();
    let entry = shard.places.get_mut(place).filter(|entry| entry.generation == generation);
    let Some(entry) = entry.filter(|entry| entry.object.is_some()) else {
        return Err(wrong(handle, T::KIND, T::NAME));
    };
    // A last generation is never used again: its place stays empty.
    entry.generation = (entry.generation + 1) % GENERATIONS;
    let removed = entry.object.take();
    if entry.generation != 0 {
        shard.free.push(place as u32);
    }
    drop(shard);
    drop(removed);
    Ok(object)
}

fn parts(handle: MarmotaHandle) -> (usize, usize, u32) {
    let index = (handle & 0xFFFF_FFFF) as usize;
    (index % SHARDS, index / SHARDS, (handle >> 32) as u32 & (GENERATIONS - 1))
}

pub(crate) const fn kind_of(handle: MarmotaHandle) -> u8 {
    (handle >> 56) as u8
}

#[cold]
pub(crate) fn wrong(handle: MarmotaHandle, kind: u8, name: &str) -> Failure {
    let given = NAMES.get(usize::from(kind_of(handle))).filter(|name| !name.is_empty());
    Failure::handle(match given {
        _ if handle == 0 => format!("the handle is 0: pass a {name}"),
        Some(given) if kind_of(handle) != kind => {
            format!("the handle is a {given}: pass a {name}")
        }
        Some(_) => format!("the {name} was freed"),
        None => format!("{handle:#x} is not a handle: pass a {name}"),
    })
}

/// Returns a number of this thread that no other thread of the process has had.
pub(crate) fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

/// Returns a handle that is valid on this thread only, while a callback runs. It has the number of
/// the thread instead of a generation, and a count instead of a place.
pub(crate) fn of_thread(kind: u8) -> MarmotaHandle {
    thread_local! {
        static COUNT: Cell<u32> = const { Cell::new(0) };
    }
    COUNT.set(COUNT.get().wrapping_add(1));
    let thread = thread_number() & 0xFF_FFFF;
    u64::from(kind) << 56 | thread << 32 | u64::from(COUNT.get())
}

/// Returns the failure for a handle of [`of_thread`] that is not the current one.
#[cold]
pub(crate) fn not_here(handle: MarmotaHandle, kind: u8) -> Failure {
    let thread = thread_number() & 0xFF_FFFF;
    let name = NAMES[usize::from(kind)];
    if kind_of(handle) == kind && handle >> 32 & 0xFF_FFFF != thread {
        return Failure::thread(format!("the {name} belongs to the thread of its handler"));
    }
    wrong(handle, kind, name)
}

/// An object that one thread uses: the one that created it.
pub(crate) struct Owned<T> {
    thread: u64,
    cell: Mutex<T>,
}

impl<T> Owned<T> {
    pub(crate) fn new(object: T) -> Self {
        Self { thread: thread_number(), cell: Mutex::new(object) }
    }

    /// Locks the object for a call.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, T>, Failure> {
        if self.thread != thread_number() {
            let message = "the handle belongs to the thread that created it: use it on that thread";
            return Err(Failure::thread(message));
        }
        self.cell.try_lock().ok_or_else(|| {
            Failure::busy(
                "the handle is used by a call that has not returned: a callback runs in it",
            )
        })
    }
}

/// Where a call reads and writes: a store, or a transaction of it.
#[derive(Clone)]
pub(crate) enum Target {
    /// A store, on any thread.
    Store(Arc<Store>),
    /// A transaction, on its thread.
    Transaction(Arc<TransactionObject>),
}

impl Target {
    pub(crate) fn find(handle: MarmotaHandle) -> Result<Self, Failure> {
        match kind_of(handle) {
            TransactionObject::KIND => Ok(Self::Transaction(find(handle)?)),
            _ => Ok(Self::Store(find(handle)?)),
        }
    }

    /// Calls `body` with the store, which executes in the transaction if this is one.
    pub(crate) fn with<T>(
        &self,
        body: impl FnOnce(&Store) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match self {
            Self::Store(store) => body(store),
            Self::Transaction(transaction) => body(&**transaction.0.lock()?),
        }
    }
}
