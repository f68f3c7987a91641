//! [`Discipline`]: how a list maintains the order or the uniqueness of its items.

use sealed::{Keeps, Twice};

/// The invariant that a list maintains. This trait is sealed.
pub trait Discipline<T>: sealed::Keeps<T> {}

pub(super) mod sealed {
    /// The places of two items with the same key.
    #[derive(Clone, Copy, Debug)]
    pub struct Twice(pub usize, pub usize);

    /// Keeps the data of a discipline in step with changes to the items.
    pub trait Keeps<T> {
        /// Orders all items and rebuilds the data of the discipline; leaves the discipline
        /// unchanged on an error.
        fn restore(&mut self, items: &mut Vec<T>) -> Result<(), Twice>;

        /// Called before the item at `place` is removed and the following items move up.
        fn removing(&mut self, items: &[T], place: usize);

        /// Called before the items for which `keep` is false are removed.
        fn keeping(&mut self, keep: &[bool]);

        /// Called before all items are removed.
        fn clearing(&mut self);
    }
}

/// No discipline: items stay where they are put.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl<T> Discipline<T> for Plain {}

impl<T> Keeps<T> for Plain {
    fn restore(&mut self, _: &mut Vec<T>) -> Result<(), Twice> {
        Ok(())
    }

    fn removing(&mut self, _: &[T], _: usize) {}

    fn keeping(&mut self, _: &[bool]) {}

    fn clearing(&mut self) {}
}
