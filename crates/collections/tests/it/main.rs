//! What users of the collections may rely on, through the public API alone.

mod interning;
mod list;
mod map;
mod persist;
mod shared;
