//! Promises about the caller's thread: no operation blocks it.

pub mod budgets;
pub mod event_loop;
