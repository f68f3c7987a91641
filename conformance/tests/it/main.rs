//! Every engine of Marmota, held to its promises.
#![allow(clippy::unwrap_used, reason = "tests panic")]

use marmota_conformance::{Subject, conformance};
use marmota_store::Store;
use marmota_store::memory::Memory;

conformance!(memory, || Subject::new("memory", || Store::builder(Memory::new())));
