//! Two databases that many SQL tutorials use: a music store with the tables and numbers of rows of the
//! Chinook sample database, and a shop for rentals with those of Pagila. The rows are generated.
#![allow(missing_docs, reason = "the fields are self-explanatory")]

mod generated;
pub mod music;
pub mod rentals;
