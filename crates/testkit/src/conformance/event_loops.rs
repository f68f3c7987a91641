//! Promises about the thread of a caller: no operation blocks it.

pub mod budgets;
pub mod event_loop;
