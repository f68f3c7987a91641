//! The wake-ups of connections whose handlers wait: wakers, a list of the connections woken on the
//! thread itself, and an inbox for those woken from other threads.
//!
//! One [`Task`] is passed to each handler that is polled for the first time. Most handlers answer
//! at once and never clone the waker, so the same task serves the next request. Only a handler that
//! waits keeps it, and only then is a new one created.
//!
//! A wake-up on the thread itself costs a push to a list. One from another thread takes a lock and,
//! if the inbox was empty, rings the bell that ends the thread's wait.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

#[cfg(target_os = "linux")]
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::BorrowedFd;
#[cfg(target_os = "linux")]
use rustix::fd::{AsFd, OwnedFd};

use crate::reactor::backend::ChosenBackend;
use crate::reactor::portable::SharedPoller;

/// The name of a connection: its slot and the slot's generation. A slot that is reused has another
/// generation, so that a late wake-up does not reach the next connection.
pub(crate) type Token = u64;

thread_local! {
    /// The inbox of the current server thread, and the tokens woken on it.
    static CURRENT: RefCell<CurrentThread> =
        const { RefCell::new(CurrentThread { inbox: 0, woken: Vec::new() }) };
}

/// The state of a server thread for wakers that are called on it.
struct CurrentThread {
    /// The id of the thread's inbox; 0 on a thread that does not serve.
    inbox: usize,
    /// The tokens woken on the thread since it last took them.
    woken: Vec<Token>,
}

/// The means by which other threads end a thread's wait.
#[derive(Debug)]
pub(crate) enum Bell {
    /// The thread does not wait in a reactor.
    Silent,
    /// An event counter (eventfd(2)) that the thread's reactor watches.
    #[cfg(target_os = "linux")]
    Counter(OwnedFd),
    /// A notification of the thread's poller.
    Poller(Arc<SharedPoller>),
}

impl Bell {
    /// Creates the bell for a thread with this backend.
    pub(crate) fn new(chosen: ChosenBackend) -> std::io::Result<Self> {
        match chosen {
            #[cfg(target_os = "linux")]
            ChosenBackend::Ring | ChosenBackend::RingOrEpoll | ChosenBackend::Epoll => {
                let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
                Ok(Self::Counter(eventfd(0, flags)?))
            }
            _ => SharedPoller::new().map(Self::Poller),
        }
    }

    /// Returns the descriptor that the thread's reactor must watch, unless the bell is its poller.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Counter(counter) => Some(counter.as_fd()),
            Self::Silent | Self::Poller(_) => None,
        }
    }
}

/// The tokens that other threads wake, and the bell that ends the thread's wait.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// The number by which a waker recognises its own thread.
    id: usize,
    /// The tokens that the thread has not taken yet.
    tokens: Mutex<Vec<Token>>,
    /// Ends the thread's wait.
    pub(crate) bell: Bell,
    /// How often the thread has emptied it.
    collections: AtomicU64,
}

impl Inbox {
    /// Creates an empty inbox.
    pub(crate) fn new(bell: Bell) -> Arc<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            tokens: Mutex::new(Vec::new()),
            bell,
            collections: AtomicU64::new(0),
        })
    }

    /// Assigns this inbox to the calling thread.
    pub(crate) fn install(&self) {
        CURRENT.with_borrow_mut(|here| *here = CurrentThread { inbox: self.id, woken: Vec::new() });
    }

    /// Ends the thread's wait.
    pub(crate) fn notify(&self) {
        match &self.bell {
            Bell::Silent => {}
            // A full counter (EAGAIN) is signalled already.
            #[cfg(target_os = "linux")]
            Bell::Counter(counter) => {
                let _ = rustix::io::write(counter, &1u64.to_ne_bytes());
            }
            Bell::Poller(shared) => shared.notify(),
        }
    }

    /// Returns how often the thread has emptied it. After [`Inbox::notify`] the number grows, unless
    /// the thread is blocked.
    pub(crate) fn collections(&self) -> u64 {
        self.collections.load(Ordering::Relaxed)
    }

    /// Wakes a connection from any thread.
    fn wake(&self, token: Token) {
        if wake_on_this_thread(self.id, token) {
            return;
        }
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.push(token);
        // The thread that finds it empty notifies; it is emptied only after the thread took the signal.
        if tokens.len() == 1 {
            self.notify();
        }
    }

    /// Moves what other threads left into `tokens`; called when the bell has rung.
    pub(crate) fn collect(&self, tokens: &mut Vec<Token>) {
        #[cfg(target_os = "linux")]
        if let Bell::Counter(counter) = &self.bell {
            let _ = rustix::io::read(counter, &mut [0u8; 8]);
        }
        self.collections.fetch_add(1, Ordering::Relaxed);
        tokens.append(&mut self.tokens.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn wake_on_this_thread(inbox: usize, token: Token) -> bool {
    CURRENT
        .try_with(|here| match here.try_borrow_mut() {
            Ok(mut here) if here.inbox == inbox => {
                here.woken.push(token);
                true
            }
            _ => false,
        })
        .unwrap_or(false)
}

/// Schedules another turn of a connection on this thread before the thread waits.
pub(crate) fn requeue(token: Token) {
    CURRENT.with_borrow_mut(|here| here.woken.push(token));
}

/// Moves the tokens woken on this thread into `tokens`.
pub(crate) fn woken(tokens: &mut Vec<Token>) {
    CURRENT.with_borrow_mut(|here| tokens.append(&mut here.woken));
}

/// A waker with the connection that it wakes. A connection keeps it while its handler waits;
/// otherwise it is in reserve on the thread.
#[derive(Debug)]
pub(crate) struct Task {
    shared: Arc<Shared>,
    waker: Waker,
}

/// The part of a task that its wakers share.
#[derive(Debug)]
struct Shared {
    /// The connection to wake.
    token: AtomicU64,
    /// The connection was woken and not polled since: further wake-ups do nothing.
    queued: AtomicBool,
    /// The inbox of the connection's thread.
    inbox: Arc<Inbox>,
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.inbox.wake(self.token.load(Ordering::Acquire));
        }
    }
}

impl Task {
    /// Creates a task that wakes connections of the thread with this inbox.
    pub(crate) fn new(inbox: &Arc<Inbox>) -> Self {
        let shared = Arc::new(Shared {
            token: AtomicU64::new(0),
            queued: AtomicBool::new(false),
            inbox: Arc::clone(inbox),
        });
        Self { waker: Waker::from(Arc::clone(&shared)), shared }
    }

    /// Returns the waker.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Sets the connection to wake.
    pub(crate) fn aim(&self, token: Token) {
        self.shared.token.store(token, Ordering::Release);
    }

    /// Re-enables the waker; called before each poll.
    pub(crate) fn arm(&self) {
        self.shared.queued.store(false, Ordering::Release);
    }

    /// Returns true if no clone of the waker exists, so that it may serve another connection.
    pub(crate) fn is_free(&self) -> bool {
        Arc::strong_count(&self.shared) == 2
    }
}
