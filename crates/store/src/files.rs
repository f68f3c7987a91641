//! The files of a database: their modes and their keys.

pub mod key;
pub mod private_file;
pub mod temporary_file;
