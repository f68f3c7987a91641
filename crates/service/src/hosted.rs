//! A contract with its implementation.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Error, Result};
use marmota_store::meter::Counts;

use crate::call::arguments::Arguments;
use crate::call::dispatch::{Dispatch, Prepared};
use crate::call::{Call, Start};
use crate::contract::Contract;
use crate::peer::Known;
use crate::transfer::Answer;

mod counting;
mod execution;
mod instances;
mod json_methods;

use counting::counters;
pub(crate) use counting::{Counting, name_of};
pub use execution::Execution;
use execution::Runner;
pub use instances::Lifetime;
pub(crate) use instances::{Bounds, Instances};

/// A service with its instances, to be added to [`crate::Services`].
#[must_use]
pub struct Hosted {
    pub(crate) contract: &'static Contract,
    host: Arc<dyn Host>,
    bounds: Bounds,
    runner: Runner,
    pub(crate) is_method: bool,
    /// True if each stub has a separate instance.
    pub(crate) per_stub: bool,
    /// The call counters, by method.
    pub(crate) counts: Arc<[Counts]>,
}

/// The implementation of one service.
pub(crate) trait Host: Send + Sync {
    /// Parses a call of the method with that number.
    fn prepare(self: Arc<Self>, arguments: Arguments<'_>, to: (usize, Bounds)) -> Result<Start>;
}

struct HostOf<D, T> {
    instances: Instances<T>,
    dispatch: PhantomData<fn() -> D>,
}

impl<D: Dispatch<T>, T: Send + Sync + 'static> Host for HostOf<D, T> {
    fn prepare(self: Arc<Self>, arguments: Arguments<'_>, to: (usize, Bounds)) -> Result<Start> {
        let (method, bounds) = to;
        let Prepared(begin) = D::prepare(method, arguments)?;
        Ok(Box::new(move |call| Ok(begin(self.instances.find(call, bounds)?))))
    }
}

impl Hosted {
    pub(crate) fn new<D: Dispatch<T>, T: Send + Sync + 'static>(instances: Instances<T>) -> Self {
        let per_stub = matches!(instances, Instances::Owned { .. });
        let host = Arc::new(HostOf::<D, T> { instances, dispatch: PhantomData });
        Self { per_stub, ..Self::of_host(D::CONTRACT, host) }
    }

    pub(crate) fn of_host(contract: &'static Contract, host: Arc<dyn Host>) -> Self {
        Self {
            contract,
            host,
            bounds: Bounds { instances_max: 10_000, idle: Duration::from_secs(1_800) },
            runner: Runner::new(Execution::Inline, 1_024),
            is_method: false,
            per_stub: false,
            counts: counters(contract),
        }
    }

    /// Sets the threads and the concurrency of calls. Default: [`Execution::Inline`].
    pub fn execution(mut self, execution: Execution) -> Self {
        self.runner = self.runner.with(execution);
        self
    }

    /// Sets the maximum number of concurrent calls. Default: 1,024. More calls are refused with
    /// [`marmota_model::ErrorKind::Busy`].
    pub fn calls_max(mut self, calls: usize) -> Self {
        self.runner = self.runner.with_max(calls);
        self
    }

    /// Sets the maximum number of instances. Default: 10,000. A call that needs one more is refused
    /// with [`marmota_model::ErrorKind::Busy`].
    pub const fn instances_max(mut self, instances: usize) -> Self {
        self.bounds.instances_max = instances;
        self
    }

    /// Sets how long an instance must be unused before it can be dropped to make room for others.
    /// Default: 30 minutes.
    pub const fn idle(mut self, time: Duration) -> Self {
        self.bounds.idle = time;
        self
    }

    /// Returns the contract.
    #[must_use]
    pub const fn contract(&self) -> &'static Contract {
        self.contract
    }

    /// Returns the description of the service for clients.
    pub(crate) fn known(&self) -> Known {
        let methods = self.contract.methods.iter();
        Known {
            name: self.contract.name.to_owned(),
            is_method: self.is_method,
            methods: methods.map(|method| (method.to_string(), method.hash())).collect(),
            per_stub: self.per_stub,
        }
    }

    /// Executes a call.
    ///
    /// # Errors
    /// If the arguments are invalid, no instance is available or too many calls are running.
    pub(crate) fn call(&self, call: Call, arguments: Arguments<'_>) -> Result<Answer> {
        let host = Arc::clone(&self.host);
        let start = call.enter(|| host.prepare(arguments, (call.number(), self.bounds)))?;
        Ok(Box::pin(self.runner.run(call, start)?))
    }
}

impl std::fmt::Debug for Hosted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hosted({})", self.contract.name)
    }
}

/// Hosts one instance for all calls.
pub fn shared<D: Dispatch<T>, T: Send + Sync + 'static>(instance: T) -> Hosted {
    Hosted::new::<D, T>(Instances::Shared(Arc::new(instance)))
}

/// Hosts instances that are created on their first call.
pub fn per<D: Dispatch<T>, T: Send + Sync + 'static>(
    lifetime: Lifetime,
    make: impl Fn(&Call) -> Result<T, Error> + Send + Sync + 'static,
) -> Hosted {
    Hosted::new::<D, T>(Instances::each(lifetime, Box::new(make)))
}
