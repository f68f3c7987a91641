//! A contract with what answers it.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Error, Result};
use marmota_store::meter::Counts;

use crate::activity::counters;
use crate::arguments::Arguments;
use crate::call::Call;
use crate::contract::Contract;
use crate::dispatch::{Answer, Dispatch, Prepared};
use crate::execution::{Execution, Runner};
use crate::instances::{Bounds, Instances, Lifetime};

/// A service with its instances, to be added to [`crate::Services`].
#[must_use]
pub struct Hosted {
    pub(crate) contract: &'static Contract,
    host: Arc<dyn Host>,
    bounds: Bounds,
    runner: Runner,
    pub(crate) is_method: bool,
    /// Each stub has an instance of its own.
    pub(crate) per_stub: bool,
    /// What became of calls, by method.
    pub(crate) counts: Arc<[Counts]>,
}

/// A call that was read; begun where it is to run.
pub(crate) type Start = Box<dyn FnOnce(&Call) -> Result<Answer> + Send>;

/// What answers the calls of one service.
pub(crate) trait Host: Send + Sync {
    /// Reads a call of the method of that number.
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

    /// Where calls run, and how many at once; [`Execution::Inline`] by default.
    pub fn execution(mut self, execution: Execution) -> Self {
        self.runner = self.runner.with(execution);
        self
    }

    /// Calls under way at once, 1,024 by default; more are refused as
    /// [`marmota_model::ErrorKind::Busy`].
    pub fn calls_max(mut self, calls: usize) -> Self {
        self.runner = self.runner.with_max(calls);
        self
    }

    /// Instances at once, 10,000 by default; a call that needs one more is
    /// refused as [`marmota_model::ErrorKind::Busy`].
    pub const fn instances_max(mut self, instances: usize) -> Self {
        self.bounds.instances_max = instances;
        self
    }

    /// An instance that was not called for so long makes room for others; half
    /// an hour by default.
    pub const fn idle(mut self, time: Duration) -> Self {
        self.bounds.idle = time;
        self
    }

    /// The contract.
    #[must_use]
    pub const fn contract(&self) -> &'static Contract {
        self.contract
    }

    /// Carries out a call.
    ///
    /// # Errors
    /// What can be said before it has begun.
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

/// Hosts instances that are made when they are first called.
pub fn per<D: Dispatch<T>, T: Send + Sync + 'static>(
    lifetime: Lifetime,
    make: impl Fn(&Call) -> Result<T, Error> + Send + Sync + 'static,
) -> Hosted {
    Hosted::new::<D, T>(Instances::each(lifetime, Box::new(make)))
}
