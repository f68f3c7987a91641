//! What programs see of loaded tables: rows as they stand in a file, errors
//! that say where, indexes, joins and JSON.
#![allow(clippy::unwrap_used, reason = "tests may")]

mod broken;
mod differential;
mod lookup;
mod oddities;
