//! Counts the calls of a service: how many, how long they took and which failed.

use std::sync::Arc;
use std::time::Instant;

use marmota_store::Store;
use marmota_store::meter::Counts;
use tracing::Instrument;

use crate::contract::Contract;
use crate::transfer::Answer;

/// Returns the name of a method as JSON-RPC uses it.
pub(crate) fn name_of(contract: &Contract, is_method: bool, method: usize) -> String {
    match is_method {
        true => contract.name.to_owned(),
        false => format!("{}.{}", contract.name, contract.methods[method].name),
    }
}

/// Returns a counter for each method of a contract.
pub(crate) fn counters(contract: &Contract) -> Arc<[Counts]> {
    // A function served as a service is the only method of its contract.
    (0..contract.methods.len().max(1)).map(|_| Counts::default()).collect()
}

/// A running call; counted when it is dropped.
pub(crate) struct Counting {
    pub(crate) counts: Arc<[Counts]>,
    pub(crate) contract: &'static Contract,
    pub(crate) is_method: bool,
    pub(crate) method: usize,
    /// The store whose slow-call log the call belongs to.
    pub(crate) store: Option<Store>,
    pub(crate) began: Instant,
    pub(crate) failed: bool,
}

impl Counting {
    /// Wraps the call in a span and counts it when it ends.
    pub(crate) fn around(self, answer: Answer) -> Answer {
        let method = || name_of(self.contract, self.is_method, self.method);
        let span = tracing::info_span!(
            target: "marmota_service",
            "call",
            otel.name = method(),
            rpc.system = "marmota",
            rpc.method = method(),
        );
        let call = async move {
            // Moves all of `self` into the future: its drop is the end of the call.
            let mut whole = self;
            let result = answer.await;
            whole.failed = result.is_err();
            result
        };
        Box::pin(call.instrument(span))
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let time = self.began.elapsed();
        self.counts[self.method].note(time, 0, self.failed);
        if let Some(store) = &self.store {
            store.note_call(time, || name_of(self.contract, self.is_method, self.method));
        }
    }
}
