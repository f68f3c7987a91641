//! The wait of a thread that runs an operation: the thread is parked, or, if the engine names the
//! socket of its answer, sleeps on that socket. Then no other thread has to wake it.
//!
//! ```text
//!  poll ─ Pending ─> did the engine name a socket (`sleep_on`)?
//!                     ├ yes ─> poll(2) on the socket and on this thread's eventfd
//!                     └ no  ─> thread::park
//!         both for at most 50 ms, then the operation is polled again
//! ```

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

#[cfg(target_os = "linux")]
use bell::Bell;

/// The maximum time that a thread sleeps between two polls: an engine detects its time-outs when it
/// is polled, without a wake-up.
const PARK_MAX: Duration = Duration::from_millis(50);

/// The socket that a thread sleeps on between two polls.
///
/// An engine passes it to [`sleep_on`].
pub struct Sleep {
    /// The socket of the answer.
    #[cfg(target_os = "linux")]
    pub source: crate::runtime::watch::Source,
    /// True if the thread is to wake up also when the socket is writable.
    pub writes: bool,
}

thread_local! {
    /// `Some` while this thread polls with the intention to sleep: what to sleep on.
    static SLEEP: RefCell<Option<Option<Sleep>>> = const { RefCell::new(None) };
    /// True while an operation of this thread is submitted or polled by a caller that blocks the
    /// thread until it is done.
    static BLOCKS: Cell<bool> = const { Cell::new(false) };
    #[cfg(target_os = "linux")]
    static BELL: Option<Arc<Bell>> = Bell::new().map(Arc::new);
}

/// Called by an engine in a poll that is not ready. Returns true if the thread sleeps on `sleep`
/// next, so that it need not be woken for events of that socket. Returns false if the thread does
/// something else, as one with an event loop does.
///
/// An engine that gets false registers the context's waker with its watcher instead.
#[must_use]
pub fn sleep_on(sleep: Sleep) -> bool {
    if cfg!(not(target_os = "linux")) {
        return false;
    }
    SLEEP.with_borrow_mut(|slot| match slot {
        Some(slot) => {
            *slot = Some(sleep);
            true
        }
        None => false,
    })
}

/// Returns true if the caller blocks its thread until the operation is done, like `run` does: the
/// thread serves nothing else meanwhile, so an engine may take its time. Returns false on an event
/// loop.
///
/// ```
/// use marmota_store::engine::caller_blocks;
/// assert!(!caller_blocks());
/// assert!(marmota_store::action::block_on(async { caller_blocks() }));
/// ```
#[must_use]
pub fn caller_blocks() -> bool {
    BLOCKS.get()
}

/// Calls `work` for a caller that blocks its thread until it is done.
#[inline]
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            BLOCKS.set(self.0);
        }
    }
    let _before = Before(BLOCKS.replace(true));
    work()
}

/// Runs a future on this thread, which sleeps while the future waits. It is for futures that
/// consist of actions. Do not call it on a thread of an event loop.
///
/// It spins for up to 100 µs before it sleeps, as a local database answers in that time. A future
/// of another runtime that needs its own thread (a timer, a socket of tokio) does not work with it.
///
/// ```
/// use marmota_memory::Memory;
/// use marmota_model::{Field, Kind, Record, Role, Schema};
/// use marmota_store::Store;
/// use marmota_store::action::block_on;
///
/// let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
/// let store = Store::builder(Memory::new()).schema(city).open()?;
/// let table = store.table("city")?;
/// let found = block_on(async {
///     store.insert_record(&Record::new(table.clone())).await?;
///     store.list_records(&table).await
/// })?;
/// assert_eq!(found.len(), 1);
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    park_until(|context| future.as_mut().poll(context))
}

/// Polls until the result is ready, and sleeps between polls.
pub(crate) fn park_until<T>(poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    blocking(|| {
        #[cfg(target_os = "linux")]
        if let Some(bell) = BELL.with(Option::clone) {
            return bell::sleep_until(&bell, poll);
        }
        parked_until(poll)
    })
}

/// [`park_until`] without a socket to sleep on.
fn parked_until<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    loop {
        if let Poll::Ready(result) = poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        thread::park_timeout(PARK_MAX);
    }
}

#[cfg(target_os = "linux")]
mod bell {
    //! A bell that wakes a thread which may sleep on a socket.

    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::task::{Context, Poll, Wake, Waker};
    use std::thread::{self, Thread};

    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

    use super::{PARK_MAX, SLEEP, Sleep};
    use crate::runtime::spin_wait::SpinWait;

    const AWAKE: u8 = 0;
    /// The thread sleeps on a socket and this bell.
    const ASLEEP: u8 = 1;
    const RUNG: u8 = 2;

    /// The bell of one thread, made once.
    pub(super) struct Bell {
        thread: Thread,
        state: AtomicU8,
        event: OwnedFd,
    }

    impl Bell {
        pub(super) fn new() -> Option<Self> {
            let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
            Some(Self { thread: thread::current(), state: AtomicU8::new(AWAKE), event })
        }

        /// Sleeps until something happens to the socket, the bell is rung, or [`PARK_MAX`] has
        /// passed.
        fn sleep(&self, on: &Sleep) {
            let woken =
                self.state.compare_exchange(AWAKE, ASLEEP, Ordering::SeqCst, Ordering::SeqCst);
            if woken.is_ok() {
                let room = if on.writes { PollFlags::OUT } else { PollFlags::empty() };
                let mut on = [
                    PollFd::new(&on.source, PollFlags::IN | room),
                    PollFd::new(&self.event, PollFlags::IN),
                ];
                let wait = SpinWait::begin();
                let at_once = Timespec::default();
                // If the wait is interrupted or fails, the operation is polled again.
                if !wait.spin(|| poll(&mut on, Some(&at_once)) != Ok(0)) {
                    let timeout = Timespec::try_from(PARK_MAX).ok();
                    let _ = poll(&mut on, timeout.as_ref());
                }
            }
            if self.state.swap(AWAKE, Ordering::SeqCst) == RUNG {
                let _ = rustix::io::read(&self.event, &mut [0; 8]);
            }
        }
    }

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.wake_by_ref();
        }

        fn wake_by_ref(self: &Arc<Self>) {
            if self.state.swap(RUNG, Ordering::SeqCst) == ASLEEP {
                let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
            }
            self.thread.unpark();
        }
    }

    /// Collects what the poll sets to sleep on; ends also if the poll panics.
    struct Polling;

    impl Polling {
        fn begin() -> Self {
            SLEEP.with_borrow_mut(|slot| *slot = Some(None));
            Self
        }
    }

    impl Drop for Polling {
        fn drop(&mut self) {
            SLEEP.with_borrow_mut(|slot| *slot = None);
        }
    }

    /// Polls until the result is ready; sleeps on the socket that a poll names, otherwise parks the
    /// thread.
    pub(super) fn sleep_until<T>(
        bell: &Arc<Bell>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> T {
        let waker = Waker::from(Arc::clone(bell));
        let mut context = Context::from_waker(&waker);
        loop {
            let polling = Polling::begin();
            if let Poll::Ready(result) = poll(&mut context) {
                return result;
            }
            let sleep = SLEEP.with_borrow_mut(|slot| slot.take().flatten());
            drop(polling);
            match sleep {
                Some(sleep) => bell.sleep(&sleep),
                None => thread::park_timeout(PARK_MAX),
            }
        }
    }
}
