//! Detects operations from within a row callback of the same store.
//!
//! A sink receives rows while the engine is in the middle of a step, with the lock of the session
//! held. A call of the same store from there would deadlock, so it is refused. A call of another
//! store is allowed: a program may serve one store to another.

use std::cell::{Cell, RefCell};

use marmota_model::{Error, ErrorKind, Result};

thread_local! {
    /// The store whose engine lends rows to a sink on this thread; 0 for none.
    static LENDING: Cell<usize> = const { Cell::new(0) };
    /// The stores around it: one store of a process may serve another.
    static LENDING_AROUND: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Refuses an operation from within a row callback of the same store: the engine is in the middle
/// of a step, and the session's lock is held.
pub(in crate::layers) struct Lending {
    around: usize,
}

impl Lending {
    /// Begins to lend rows of the store with this number, which is not 0.
    #[inline]
    pub(super) fn begin(store: usize) -> Result<Self> {
        match LENDING.replace(store) {
            0 => Ok(Self { around: 0 }),
            around => Self::begin_within(store, around),
        }
    }

    /// Begins to lend rows within a row callback of another store.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if it is a callback of the same store, or one around it.
    #[cold]
    fn begin_within(store: usize, around: usize) -> Result<Self> {
        let is_around = LENDING_AROUND.with_borrow(|outer| outer.contains(&store));
        if store == around || is_around {
            LENDING.set(around);
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the store was called from within a row callback; collect the rows first",
            ));
        }
        LENDING_AROUND.with_borrow_mut(|outer| outer.push(around));
        Ok(Self { around })
    }

    /// Returns true within a row callback of this store on this thread.
    pub(super) fn is_active(store: usize) -> bool {
        LENDING.get() == store || LENDING_AROUND.with_borrow(|outer| outer.contains(&store))
    }
}

impl Drop for Lending {
    /// Returns to the store around this one, if there is one.
    fn drop(&mut self) {
        LENDING.set(self.around);
        if self.around != 0 {
            let _ = LENDING_AROUND.with_borrow_mut(Vec::pop);
        }
    }
}
