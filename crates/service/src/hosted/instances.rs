//! The instances that execute calls, and their lifetimes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::call::Call;

/// The lifetime of an instance, and the callers that share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// One instance for each call.
    Call,
    /// One for each session of a caller.
    Session,
    /// One for each authenticated user.
    User,
    /// One for each group: the first of the caller's groups by name.
    Group,
    /// One for each thread that runs calls.
    Thread,
    /// One for each stub, until the stub is dropped or its connection ends: a client with two stubs
    /// has two instances.
    Stub,
}

/// The key under which an instance is kept.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Session(Arc<str>),
    User(String),
    Group(String),
    Thread(ThreadId),
}

type Make<T> = dyn Fn(&Call) -> Result<T> + Send + Sync;

/// The instances of one service.
pub(crate) enum Instances<T> {
    Shared(Arc<T>),
    Each {
        lifetime: Lifetime,
        make: Box<Make<T>>,
        kept: Mutex<HashMap<Key, Kept<T>>>,
    },
    /// Instances of stubs, kept with the connection of each stub.
    Owned {
        make: Box<Make<T>>,
        count: Arc<AtomicUsize>,
    },
}

pub(crate) struct Kept<T> {
    instance: Arc<T>,
    used: Instant,
}

/// The maximum number of instances, and how long unused ones are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) instances_max: usize,
    pub(crate) idle: Duration,
}

impl<T: Send + Sync + 'static> Instances<T> {
    pub(crate) fn each(lifetime: Lifetime, make: Box<Make<T>>) -> Self {
        match lifetime {
            Lifetime::Stub => Self::Owned { make, count: Arc::default() },
            _ => Self::Each { lifetime, make, kept: Mutex::default() },
        }
    }

    /// Returns the instance for a call.
    ///
    /// # Errors
    /// If the call lacks the caller, session or stub that the lifetime requires,
    /// [`ErrorKind::Busy`] if there are too many instances, and errors of the factory.
    pub(crate) fn find(&self, call: &Call, bounds: Bounds) -> Result<Arc<T>> {
        let (lifetime, make, kept) = match self {
            Self::Shared(instance) => return Ok(Arc::clone(instance)),
            Self::Each { lifetime, make, kept } => (*lifetime, make, kept),
            Self::Owned { make, count } => {
                let (stub, owned) = call.stub().ok_or_else(|| no_stub(call))?;
                let limit = (count, bounds.instances_max);
                let found = owned.find((call.service(), stub), limit, || make(call))?;
                return found.ok_or_else(|| too_many(call, bounds));
            }
        };
        let Some(key) = key_of(lifetime, call)? else { return make(call).map(Arc::new) };
        let now = Instant::now();
        if let Some(known) = kept.lock().get_mut(&key) {
            known.used = now;
            return Ok(Arc::clone(&known.instance));
        }
        // The factory runs outside of the lock, so that a slow one does not block other calls. If
        // two instances are created concurrently, the first is kept.
        let made = Arc::new(make(call)?);
        let mut kept = kept.lock();
        if kept.len() >= bounds.instances_max && !kept.contains_key(&key) {
            let is_used = |one: &Kept<T>| {
                now.duration_since(one.used) < bounds.idle || Arc::strong_count(&one.instance) > 1
            };
            kept.retain(|_, one| is_used(one));
            if kept.len() >= bounds.instances_max {
                return Err(too_many(call, bounds));
            }
        }
        let entry = kept.entry(key).or_insert(Kept { instance: made, used: now });
        entry.used = now;
        Ok(Arc::clone(&entry.instance))
    }
}

fn key_of(lifetime: Lifetime, call: &Call) -> Result<Option<Key>> {
    let caller = || {
        call.caller().ok_or_else(|| {
            let message = format!("{call:?} has one instance per user: log in");
            Error::new(ErrorKind::Unauthenticated, message)
        })
    };
    Ok(Some(match lifetime {
        // Instances of stubs are handled by the caller.
        Lifetime::Call | Lifetime::Stub => return Ok(None),
        Lifetime::Thread => Key::Thread(std::thread::current().id()),
        Lifetime::User => Key::User(caller()?.id.clone()),
        Lifetime::Group => {
            let caller = caller()?;
            let first = caller.groups.iter().min().ok_or_else(|| {
                let name = &caller.name;
                let message =
                    format!("{call:?} has one instance per group, but {name} is not in a group");
                Error::new(ErrorKind::Denied, message)
            })?;
            Key::Group(first.clone())
        }
        Lifetime::Session => match &call.session_key() {
            Some(session) => Key::Session(Arc::clone(session)),
            None => {
                let message = format!(
                    "{call:?} has one instance per session, but this request has no session: log \
                     in, or connect over a socket"
                );
                return Err(Error::new(ErrorKind::Unauthenticated, message));
            }
        },
    }))
}

#[cold]
fn no_stub(call: &Call) -> Error {
    let message = format!(
        "{call:?} has one instance per stub, but this request has no stub: connect over a socket, \
         and send the number of the stub (`\"stub\":1`)"
    );
    Error::new(ErrorKind::Unsupported, message)
}

#[cold]
fn too_many(call: &Call, bounds: Bounds) -> Error {
    let message = format!(
        "{} instances of {} are in use, the limit (`instances_max`); try again later",
        bounds.instances_max,
        call.service()
    );
    Error::new(ErrorKind::Busy, message)
}
