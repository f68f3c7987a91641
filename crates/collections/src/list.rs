//! [`List`]: a vector of items with a discipline, which is chosen when the list is created and is
//! then kept.
//!
//! The items are in one `Vec`, so a list can be read as a slice. The discipline is a type
//! parameter: a method that a list does not support is a compile error, and a plain list has no
//! overhead.

pub use discipline::{Discipline, Plain};
pub use hashed::HashedBy;
pub use items::List;
pub use refused::Refused;
pub use sorted::SortedBy;

pub(crate) mod discipline;
mod hashed;
mod items;
mod plain;
mod refused;
mod sorted;
