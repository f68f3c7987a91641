//! Runs work for many items on as many threads as the machine has processors.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};

use crate::step::Failure;

/// Returns the number of processors.
pub(crate) fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Calls `work` for each item, in their order, on several threads. A thread stops at its first error.
pub(crate) fn for_each<T: Send>(
    items: Vec<T>,
    work: impl Fn(T) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let waiting = Mutex::new(VecDeque::from(items));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work_all = || -> Result<(), Failure> {
        while let Some(item) = next() {
            work(item)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..processors()).map(|_| scope.spawn(work_all)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(worked) => worked,
            Err(_) => Err(Failure("a thread panicked".to_owned())),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_worked_on_once() {
        let sum = Mutex::new(0);
        for_each((1..=100).collect(), |number: u32| {
            *sum.lock().unwrap() += number;
            Ok(())
        })
        .unwrap();
        assert_eq!(sum.into_inner().unwrap(), 5050);
        assert!(for_each(vec![1], |_| Err(Failure("no".to_owned()))).is_err());
    }
}
