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

use crate::reactor::bell::Bell;
use crate::reactor::event::Token;

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
        self.bell.ring();
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
        self.bell.silence();
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
