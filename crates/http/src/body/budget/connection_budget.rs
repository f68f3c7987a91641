//! The budget of one HTTP/2 connection for the request bodies that it gathers at once
//! ([`crate::Limits::connection_body_bytes_max`]).
//!
//! One connection can have a hundred requests in progress. Without this limit a single client could
//! use all of the server's budget.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The bodies that one HTTP/2 connection gathers at once. Each reserves its length before it is
/// read, in the order of arrival, so that bodies in progress can always be completed.
#[derive(Debug, Default)]
pub(crate) struct ConnectionBudget {
    /// The bytes reserved by all bodies in progress.
    reserved: Cell<usize>,
    /// The number of the next body in the queue.
    next: Cell<u64>,
    /// The bodies that wait, in order, with the wakers of their tasks.
    waiting: RefCell<VecDeque<(u64, Option<Waker>)>>,
}

/// The bytes that one body has reserved. They are returned when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Rc<ConnectionBudget>,
    bytes: usize,
}

/// The place of a body in the queue, which it leaves when it is dropped: also when its request is
/// reset while it waits.
struct QueuePlace<'a> {
    budget: &'a ConnectionBudget,
    /// The number of the body.
    number: u64,
}

impl ConnectionBudget {
    /// Waits until a body of this many bytes can be gathered, within `max` bytes for all bodies of
    /// the connection. A single body always can, even if it is longer.
    pub(crate) async fn reserve(self: &Rc<Self>, bytes: usize, max: usize) -> Reservation {
        let number = self.next.replace(self.next.get() + 1);
        self.waiting.borrow_mut().push_back((number, None));
        let place = QueuePlace { budget: self, number };
        poll_fn(|context| {
            let mut waiting = self.waiting.borrow_mut();
            let reserved = self.reserved.get();
            let is_first = waiting.front().is_some_and(|(first, _)| *first == number);
            if is_first && (reserved == 0 || reserved.saturating_add(bytes) <= max) {
                return Poll::Ready(());
            }
            if let Some((_, waker)) = waiting.iter_mut().find(|(waits, _)| *waits == number) {
                *waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
        self.reserved.set(self.reserved.get() + bytes);
        drop(place);
        Reservation { budget: Rc::clone(self), bytes }
    }

    /// Wakes the first in the queue to check again.
    fn wake(&self) {
        let waker = self.waiting.borrow_mut().front_mut().and_then(|(_, waker)| waker.take());
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.budget.waiting.borrow_mut().retain(|(number, _)| *number != self.number);
        self.budget.wake();
    }
}

impl Reservation {
    /// Returns the bytes that the body did not need, down to `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let spare = self.bytes.saturating_sub(bytes);
        self.bytes -= spare;
        self.budget.reserved.set(self.budget.reserved.get() - spare);
        self.budget.wake();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    #[test]
    fn claims_are_granted_in_order() {
        let budget = Rc::new(ConnectionBudget::default());
        let mut context = Context::from_waker(Waker::noop());
        let mut large = pin!(budget.reserve(200, 100));
        let Poll::Ready(large) = large.as_mut().poll(&mut context) else {
            panic!("one always may")
        };
        let mut second = pin!(budget.reserve(90, 100));
        assert!(second.as_mut().poll(&mut context).is_pending());
        {
            let mut third = Box::pin(budget.reserve(5, 100));
            assert!(third.as_mut().poll(&mut context).is_pending(), "it came later");
        }
        drop(large);
        let Poll::Ready(mut second) = second.as_mut().poll(&mut context) else { panic!("free") };
        let mut fourth = pin!(budget.reserve(20, 100));
        assert!(fourth.as_mut().poll(&mut context).is_pending());
        second.shrink_to(80);
        assert!(fourth.as_mut().poll(&mut context).is_ready());
    }
}
