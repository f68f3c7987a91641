//! A database for each tenant, opened on first use. The number of open ones is limited; to open
//! another, the least recently used one is closed. One that is in use is never closed.
//!
//! ```text
//!             get ─> open? ── yes ─> the store
//!                     │ no
//!    room? ── no ─> close the least recently used idle one ─> all in use: Busy
//!     │ yes
//!    Slot::Busy ─> open, without the lock ─> Slot::Open
//! ```
//!
//! One mutex protects the map. It is not held while a store is opened or closed: other threads that
//! want the same tenant wait for the condition variable, and those of other tenants continue.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::store::Store;

/// The maximum wait for a tenant that another thread opens or closes.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The maximum length of a tenant's name, in characters.
const NAME_CHARS_MAX: usize = 64;

/// Opens the store of a tenant.
type Open = dyn Fn(&str) -> Result<Store> + Send + Sync;
/// Returns true if a tenant exists.
type TenantExists = dyn Fn(&str) -> bool + Send + Sync;

/// The stores of tenants, by name. It is cheap to clone.
///
/// ```
/// use marmota_memory::Memory;
/// use marmota_store::{Store, Tenants};
/// let tenants = Tenants::new(|tenant| {
///     assert_eq!(tenant, "ana");
///     Store::builder(Memory::new()).open()
/// })
/// .open_max(100);
/// let store = tenants.get("ana")?;
/// assert!(tenants.get("../etc/passwd").is_err());
/// assert_eq!((tenants.statistics().open, tenants.statistics().opened), (1, 1));
/// drop(store);
/// tenants.close()?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
///
/// A name has 1 to 64 small letters, digits, `-` and `_`, with a letter or digit first, so it is
/// safe in a path or a URL.
#[derive(Clone)]
pub struct Tenants {
    shared: Arc<Shared>,
}

struct Shared {
    /// Opens a store.
    open: Box<Open>,
    /// Returns true if a tenant exists.
    known: OnceLock<Box<TenantExists>>,
    state: Mutex<State>,
    /// Notified when a slot has changed.
    changed: Condvar,
}

struct State {
    tenants: HashMap<Box<str>, Slot>,
    /// The maximum number of open stores, including those being opened.
    open_max: usize,
    /// True after [`Tenants::close`].
    closed: bool,
    /// Counts uses, as a clock for the least recently used.
    uses: u64,
    statistics: TenantStatistics,
}

/// The state of a tenant's store.
enum Slot {
    /// A thread opens or closes the store.
    Busy,
    Open {
        store: Store,
        /// The value of the clock at the last use.
        used: u64,
    },
}

/// The counters of tenants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct TenantStatistics {
    /// The number of open stores.
    pub open: u64,
    /// How often a requested store was open.
    pub hits: u64,
    /// How often a store had to be opened.
    pub opened: u64,
    /// How often a store was closed to make room.
    pub evicted: u64,
    /// How often a store could not be opened.
    pub failed: u64,
}

impl Tenants {
    /// Creates tenants whose stores `open` opens. It receives names that are safe as file names.
    /// Default: at most 64 are open at once.
    ///
    /// `open` is called without a lock, on the thread that first requests the tenant. It may create
    /// the database.
    pub fn new(open: impl Fn(&str) -> Result<Store> + Send + Sync + 'static) -> Self {
        let state = State {
            tenants: HashMap::new(),
            open_max: 64,
            closed: false,
            uses: 0,
            statistics: TenantStatistics::default(),
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let known = OnceLock::new();
        Self { shared: Arc::new(Shared { open: Box::new(open), known, state, changed }) }
    }

    /// Sets how many stores may be open at once; at least one.
    ///
    /// Default: 64. Each open SQLite store has files and threads, so the limit of open files of the
    /// process has to be high enough.
    ///
    /// ```
    /// use marmota_memory::Memory;
    /// use marmota_model::ErrorKind;
    /// use marmota_store::{Store, Tenants};
    /// let tenants = Tenants::new(|_| Store::builder(Memory::new()).open()).open_max(1);
    /// let ana = tenants.get("ana")?;
    /// // The only place is in use.
    /// assert_eq!(tenants.get("bob").unwrap_err().kind(), ErrorKind::Busy);
    /// drop(ana);
    /// tenants.get("bob")?;
    /// assert_eq!(tenants.statistics().evicted, 1);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn open_max(self, stores: usize) -> Self {
        self.shared.state.lock().open_max = stores.max(1);
        self
    }

    /// Sets the function that returns true if a tenant exists, for example if it has a file. It
    /// receives names that are safe as file names. Requests of unknown callers can only open
    /// existing tenants ([`Tenants::get_known`]). Only the first call has an effect.
    ///
    /// ```
    /// use marmota_memory::Memory;
    /// use marmota_model::ErrorKind;
    /// use marmota_store::{Store, Tenants};
    /// let tenants = Tenants::new(|_| Store::builder(Memory::new()).open())
    ///     .known(|tenant| tenant == "ana");
    /// tenants.get_known("ana")?;
    /// assert_eq!(tenants.get_known("bob").unwrap_err().kind(), ErrorKind::NotFound);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn known(self, known: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        // A second call changes nothing.
        let _ = self.shared.known.set(Box::new(known));
        self
    }

    /// [`Tenants::get`] of an existing tenant: the request does not create one.
    ///
    /// A store that is open already is returned without a call of the function.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for a tenant that does not exist, [`ErrorKind::Unsupported`] without
    /// [`Tenants::known`]; otherwise those of [`Tenants::get`].
    pub fn get_known(&self, tenant: &str) -> Result<Store> {
        check_name(tenant)?;
        if let Some(store) = self.get_open(tenant)? {
            return Ok(store);
        }
        let known = self.shared.known.get().ok_or_else(|| {
            let message = "the names of the tenants are not known; set them with `Tenants::known`";
            Error::new(ErrorKind::Unsupported, message)
        })?;
        if !known(tenant) {
            let message = format!("there is no tenant `{tenant}`");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        self.get(tenant)
    }

    /// Returns the store of a tenant, if it is open.
    fn get_open(&self, tenant: &str) -> Result<Option<Store>> {
        let mut state = self.shared.state.lock();
        if state.closed {
            return Err(closed());
        }
        Ok(state.hit(tenant))
    }

    /// Returns the store of a tenant. It stays open as long as the store, a clone of it or a
    /// transaction on it exists. Blocks while the store is opened; it is opened once for all
    /// callers that wait.
    ///
    /// It waits at most 30 seconds for a store that another thread opens or closes.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid name (valid are small letters, digits, `-` and `_`,
    /// with a letter or digit first), [`ErrorKind::Busy`] if the maximum number of stores is in
    /// use, [`ErrorKind::Closed`] after [`Tenants::close`]; otherwise the error of the opening,
    /// which the next call tries again.
    pub fn get(&self, tenant: &str) -> Result<Store> {
        check_name(tenant)?;
        let deadline = Instant::now() + WAIT_MAX;
        let mut state = self.shared.state.lock();
        loop {
            if state.closed {
                return Err(closed());
            }
            if let Some(store) = state.hit(tenant) {
                return Ok(store);
            }
            let has_room = state.tenants.len() < state.open_max;
            match state.tenants.get(tenant) {
                // Another thread has opened it meanwhile.
                Some(Slot::Open { store, .. }) => return Ok(store.clone()),
                Some(Slot::Busy) => self.shared.wait(&mut state, deadline)?,
                None if has_room => break,
                None => self.shared.make_room(&mut state, deadline)?,
            }
        }
        self.shared.open(state, tenant)
    }

    /// Returns the counters.
    ///
    /// ```
    /// use marmota_memory::Memory;
    /// use marmota_store::{Store, Tenants};
    /// let tenants = Tenants::new(|_| Store::builder(Memory::new()).open());
    /// let (first, again) = (tenants.get("ana")?, tenants.get("ana")?);
    /// let counted = tenants.statistics();
    /// assert_eq!((counted.opened, counted.hits, counted.open), (1, 1, 1));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn statistics(&self) -> TenantStatistics {
        let state = self.shared.state.lock();
        let open = state.tenants.values().filter(|slot| matches!(slot, Slot::Open { .. })).count();
        TenantStatistics { open: open as u64, ..state.statistics }
    }

    /// Closes all stores, also those in use; none is opened afterwards.
    ///
    /// A program calls it before it ends, since an error when a store is dropped is not reported.
    ///
    /// # Errors
    /// The first error; the other stores are closed nevertheless.
    pub fn close(&self) -> Result<()> {
        let deadline = Instant::now() + WAIT_MAX;
        let mut state = self.shared.state.lock();
        state.closed = true;
        while state.tenants.values().any(|slot| matches!(slot, Slot::Busy)) {
            self.shared.wait(&mut state, deadline)?;
        }
        let tenants = std::mem::take(&mut state.tenants);
        drop(state);
        let mut closed = Ok(());
        for (name, slot) in tenants {
            if let Slot::Open { store, .. } = slot
                && let Err(error) = store.close()
                && closed.is_ok()
            {
                closed = Err(of_tenant(&name, &error));
            }
        }
        closed
    }
}

impl State {
    /// Returns the store of a tenant, if it is open, and records its use.
    fn hit(&mut self, tenant: &str) -> Option<Store> {
        let Some(Slot::Open { store, used }) = self.tenants.get_mut(tenant) else { return None };
        self.uses += 1;
        *used = self.uses;
        self.statistics.hits += 1;
        Some(store.clone())
    }
}

impl Shared {
    /// Waits until something has changed.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] after the deadline.
    fn wait(&self, state: &mut MutexGuard<'_, State>, deadline: Instant) -> Result<()> {
        if self.changed.wait_until(state, deadline).timed_out() {
            let message = "a tenant's database is still being opened or closed; try again";
            return Err(Error::new(ErrorKind::Busy, message));
        }
        Ok(())
    }

    /// Closes the least recently used store that is not in use.
    ///
    /// A store is in use if a clone of it or a transaction on it exists.
    fn make_room(&self, state: &mut MutexGuard<'_, State>, deadline: Instant) -> Result<()> {
        let idle = state.tenants.iter().filter_map(|(name, slot)| match slot {
            Slot::Open { store, used } if store.is_idle() => Some((*used, name)),
            _ => None,
        });
        let Some(name) = idle.min().map(|(_, name)| name.clone()) else {
            if state.tenants.values().any(|slot| matches!(slot, Slot::Busy)) {
                return self.wait(state, deadline);
            }
            let message = format!(
                "all {} databases that may be open at once are in use; try again later, or raise \
                 `open_max`",
                state.open_max
            );
            return Err(Error::new(ErrorKind::Busy, message));
        };
        let Some(Slot::Open { store, .. }) = state.tenants.insert(name.clone(), Slot::Busy) else {
            return Ok(());
        };
        state.statistics.evicted += 1;
        let done = MutexGuard::unlocked(state, || store.close());
        state.tenants.remove(&name);
        self.changed.notify_all();
        // The next opening of this tenant reports a lasting error; the tenant that needs the room
        // is not affected.
        if let Err(error) = done {
            log::warn!("the database of tenant {name} could not be closed: {error}");
        }
        Ok(())
    }

    /// Opens a store; other threads can use the tenants meanwhile.
    fn open(&self, mut state: MutexGuard<'_, State>, tenant: &str) -> Result<Store> {
        /// Removes the slot, also when the opening panics.
        struct Opening<'s>(&'s Shared, &'s str);
        impl Drop for Opening<'_> {
            fn drop(&mut self) {
                self.0.state.lock().tenants.remove(self.1);
                self.0.changed.notify_all();
            }
        }
        state.tenants.insert(tenant.into(), Slot::Busy);
        drop(state);
        let opening = Opening(self, tenant);
        let opened = (self.open)(tenant);
        let mut state = self.state.lock();
        match opened {
            Err(error) => {
                state.statistics.failed += 1;
                drop(state);
                drop(opening);
                Err(of_tenant(tenant, &error))
            }
            Ok(store) => {
                std::mem::forget(opening);
                state.statistics.opened += 1;
                state.uses += 1;
                let used = state.uses;
                let kept = store.clone();
                state.tenants.insert(tenant.into(), Slot::Open { store: kept, used });
                self.changed.notify_all();
                Ok(store)
            }
        }
    }
}

/// The error after [`Tenants::close`].
fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the tenants' stores are closed")
}

/// Refuses a name that is not safe in a path.
fn check_name(tenant: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = tenant.len() <= NAME_CHARS_MAX
        && tenant.starts_with(is_plain)
        && tenant.chars().all(|c| is_plain(c) || matches!(c, '-' | '_'));
    if is_name {
        return Ok(());
    }
    let tenant = marmota_model::text::excerpt(tenant);
    let message = format!(
        "{tenant:?} is not a valid name of a tenant: use at most {NAME_CHARS_MAX} lower-case \
         letters, digits, - and _, with a letter or digit first"
    );
    Err(Error::new(ErrorKind::Invalid, message))
}

/// Returns the same error with the name of its tenant.
#[cold]
fn of_tenant(tenant: &str, error: &Error) -> Error {
    let message = format!("tenant `{tenant}`: {}", error.message());
    error
        .violations()
        .iter()
        .cloned()
        .fold(Error::new(error.kind(), message), Error::with_violation)
}

impl std::fmt::Debug for Tenants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tenants").field(&self.statistics()).finish()
    }
}
