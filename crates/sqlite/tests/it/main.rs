//! The SQLite engine through its public interface.

mod concurrency;
mod database;
mod disk;
mod kill;
mod operations;
mod prepare;
mod queries;
mod refusals;
mod transactions;
