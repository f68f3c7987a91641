//! [`Discipline`]: how a list keeps its items in order or apart.

use sealed::{Keeps, Twice};

/// What a list does to keep its promise. It cannot be implemented elsewhere.
pub trait Discipline<T>: sealed::Keeps<T> {}

pub(super) mod sealed {
    /// Two items with one key, by their places.
    #[derive(Clone, Copy, Debug)]
    pub struct Twice(pub usize, pub usize);

    /// How a discipline follows what happens to the items.
    pub trait Keeps<T> {
        /// Puts all items in order and forgets the old ones; without effect on
        /// the discipline if that cannot be.
        fn restore(&mut self, items: &mut Vec<T>) -> Result<(), Twice>;

        /// Called before the item at `place` leaves and those behind move up.
        fn removing(&mut self, items: &[T], place: usize);

        /// Called before only those leave that `keep` is false for.
        fn keeping(&mut self, keep: &[bool]);

        /// Called before all leave.
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
