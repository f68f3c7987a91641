//! Workloads for benchmarks (feature `bench`).

pub mod baseline;
pub mod clients;
