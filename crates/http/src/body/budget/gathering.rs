//! The share of one HTTP/2 connection in the request bodies that are gathered at once.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The bodies that one HTTP/2 connection gathers at once. Each claims its length before it is read,
/// in order of arrival, so that bodies in progress can always be completed.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    claimed: Cell<usize>,
    next: Cell<u64>,
    waiting: RefCell<VecDeque<(u64, Option<Waker>)>>,
}

/// The bytes of a connection's share that one body has claimed.
#[derive(Debug)]
pub(crate) struct Claim {
    gathering: Rc<Gathering>,
    bytes: usize,
}

/// A place in the queue.
struct Place<'a> {
    gathering: &'a Gathering,
    number: u64,
}

impl Gathering {
    /// Waits until a body of this many bytes can be gathered; a single one always can.
    pub(crate) async fn claim(self: &Rc<Self>, bytes: usize, max: usize) -> Claim {
        let number = self.next.replace(self.next.get() + 1);
        self.waiting.borrow_mut().push_back((number, None));
        let place = Place { gathering: self, number };
        poll_fn(|context| {
            let mut waiting = self.waiting.borrow_mut();
            let claimed = self.claimed.get();
            let is_first = waiting.front().is_some_and(|(first, _)| *first == number);
            if is_first && (claimed == 0 || claimed.saturating_add(bytes) <= max) {
                return Poll::Ready(());
            }
            if let Some((_, waker)) = waiting.iter_mut().find(|(waits, _)| *waits == number) {
                *waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
        self.claimed.set(self.claimed.get() + bytes);
        drop(place);
        Claim { gathering: Rc::clone(self), bytes }
    }

    /// Wakes the first in the queue to check again.
    fn wake(&self) {
        let waker = self.waiting.borrow_mut().front_mut().and_then(|(_, waker)| waker.take());
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.gathering.waiting.borrow_mut().retain(|(number, _)| *number != self.number);
        self.gathering.wake();
    }
}

impl Claim {
    /// Returns the bytes that the body did not need.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let spare = self.bytes.saturating_sub(bytes);
        self.bytes -= spare;
        self.gathering.claimed.set(self.gathering.claimed.get() - spare);
        self.gathering.wake();
    }
}

impl Drop for Claim {
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
        let gathering = Rc::new(Gathering::default());
        let mut context = Context::from_waker(Waker::noop());
        let mut large = pin!(gathering.claim(200, 100));
        let Poll::Ready(large) = large.as_mut().poll(&mut context) else {
            panic!("one always may")
        };
        let mut second = pin!(gathering.claim(90, 100));
        assert!(second.as_mut().poll(&mut context).is_pending());
        {
            let mut third = Box::pin(gathering.claim(5, 100));
            assert!(third.as_mut().poll(&mut context).is_pending(), "it came later");
        }
        drop(large);
        let Poll::Ready(mut second) = second.as_mut().poll(&mut context) else { panic!("free") };
        let mut fourth = pin!(gathering.claim(20, 100));
        assert!(fourth.as_mut().poll(&mut context).is_pending());
        second.shrink_to(80);
        assert!(fourth.as_mut().poll(&mut context).is_ready());
    }
}
