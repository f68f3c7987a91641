//! Waiting for others: the transaction lock, and long reads.

pub(crate) mod long_reads;
pub(crate) mod transaction_gate;
