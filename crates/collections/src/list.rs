//! [`List`]: a vector of items, and a discipline that is chosen when it is
//! made and holds from then on.
//!
//! The items lie in one `Vec`, so a list is read as a slice, with all that
//! slices can do. The discipline is a type parameter: what a list cannot do
//! is a compile error, and a plain list pays for nothing.

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
