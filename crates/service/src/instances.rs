//! Which object answers a call, and how long it lives.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::call::Call;

/// How long an instance lives, and who shares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// One call.
    Call,
    /// As long as the session of its callers.
    Session,
    /// One for each user who has proved to be that.
    User,
    /// One for each group: that of its caller that comes first by name.
    Group,
    /// One for each thread that runs calls.
    Thread,
    /// As long as the stub that calls it, or its connection: a client that makes
    /// two stubs has two instances.
    Stub,
}

/// What an instance is for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Session(Arc<str>),
    User(String),
    Group(String),
    Thread(ThreadId),
}

type Make<T> = dyn Fn(&Call) -> Result<T> + Send + Sync;

/// See the module.
pub(crate) enum Instances<T> {
    Shared(Arc<T>),
    Each {
        lifetime: Lifetime,
        make: Box<Make<T>>,
        kept: Mutex<HashMap<Key, Kept<T>>>,
    },
    /// Kept where the stubs are whose they are.
    Owned {
        make: Box<Make<T>>,
        count: Arc<AtomicUsize>,
    },
}

pub(crate) struct Kept<T> {
    instance: Arc<T>,
    used: Instant,
}

/// How many instances there are at once, and how long they are kept unused.
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

    /// The instance for a call.
    ///
    /// # Errors
    /// Where the call has not what an instance is kept for, [`ErrorKind::Busy`]
    /// where there are too many, and what making one came to.
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
        // Made outside of the lock, so that a slow one holds up nobody else; of
        // two made at once the first stays.
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
            let message = format!("{call:?} is answered by each caller's own: log in");
            Error::new(ErrorKind::Unauthenticated, message)
        })
    };
    Ok(Some(match lifetime {
        // What a stub owns is found elsewhere.
        Lifetime::Call | Lifetime::Stub => return Ok(None),
        Lifetime::Thread => Key::Thread(std::thread::current().id()),
        Lifetime::User => Key::User(caller()?.id.clone()),
        Lifetime::Group => {
            let caller = caller()?;
            let first = caller.groups.iter().min().ok_or_else(|| {
                let name = &caller.name;
                let message =
                    format!("{call:?} is answered by each group's own; {name} is in none");
                Error::new(ErrorKind::Denied, message)
            })?;
            Key::Group(first.clone())
        }
        Lifetime::Session => match &call.session_key() {
            Some(session) => Key::Session(Arc::clone(session)),
            None => {
                let message = format!(
                    "{call:?} is answered by each session's own, and a request by itself has \
                     none: log in, or connect by a socket"
                );
                return Err(Error::new(ErrorKind::Unauthenticated, message));
            }
        },
    }))
}

#[cold]
fn no_stub(call: &Call) -> Error {
    let message = format!(
        "{call:?} is answered by an instance of its caller's stub, and a request by itself has \
         none: connect by a socket, and say which stub calls (`\"stub\":1`)"
    );
    Error::new(ErrorKind::Unsupported, message)
}

#[cold]
fn too_many(call: &Call, bounds: Bounds) -> Error {
    let message = format!(
        "{} instances of {} are in use, the most there may be (`instances_max`); try again",
        bounds.instances_max,
        call.service()
    );
    Error::new(ErrorKind::Busy, message)
}
