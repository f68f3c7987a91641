//! The services of a server by name, and the common path of all calls to them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use marmota_auth::Auth;
use marmota_model::text::excerpt;
use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Store;
use marmota_store::refusal::copy_of;

use crate::call::arguments::Arguments;
use crate::call::dispatch::Dispatch;
use crate::call::{Call, CallOrigin};
use crate::contract::MethodContract;
use crate::hosted::{Counting, Hosted, Instances, name_of};
use crate::limits::Limits;
use crate::transfer::Answer;

pub(crate) mod activity;
mod in_process;
pub(crate) mod json_rpc;
pub(crate) mod origin;
pub(crate) mod peer_calls;

/// Services that are served together.
#[derive(Clone, Debug)]
#[must_use]
pub struct Services(pub(crate) Arc<Settings>);

#[derive(Clone)]
pub(crate) struct Settings {
    /// Sorted by name.
    pub(crate) hosted: Vec<Arc<Hosted>>,
    pub(crate) store: Option<Store>,
    pub(crate) auth: Option<Auth>,
    pub(crate) body_bytes_max: usize,
    pub(crate) limits: Limits,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.hosted.iter().map(|one| one.contract.name)).finish()
    }
}

impl Default for Services {
    fn default() -> Self {
        Self::new()
    }
}

impl Services {
    /// Creates an empty set of services.
    pub fn new() -> Self {
        let settings = Settings {
            hosted: Vec::new(),
            store: None,
            auth: None,
            body_bytes_max: 1 << 20,
            limits: Limits::DEFAULT,
        };
        Self(Arc::new(settings))
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Adds a service.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if the name is already used.
    pub fn service(self, hosted: Hosted) -> Result<Self> {
        let name = hosted.contract.name;
        match self.0.place(name) {
            Ok(_) => {
                let message = format!(
                    "there already is a service `{name}`; give one of them another name: \
                     `#[service(name = \"…\")]`"
                );
                Err(Error::new(ErrorKind::Conflict, message))
            }
            Err(at) => Ok(self.with(|settings| settings.hosted.insert(at, Arc::new(hosted)))),
        }
    }

    /// Adds a `#[method]` function under its name.
    ///
    /// # Errors
    /// As [`Services::service`].
    pub fn method<M: Dispatch<()>>(self) -> Result<Self> {
        let mut hosted = Hosted::new::<M, ()>(Instances::Shared(Arc::new(())));
        hosted.is_method = true;
        self.service(hosted)
    }

    /// Sets the store that methods get from [`Call::store`].
    pub fn store(self, store: &Store) -> Self {
        self.with(|settings| settings.store = Some(store.clone()))
    }

    /// Authenticates callers: only users with the grant may call a method
    /// ([`marmota_store::rights::Grant::call`]), and [`Call::store`] has the rights of the caller.
    /// In-process callers are anonymous.
    pub fn auth(self, auth: &Auth) -> Self {
        self.with(|settings| settings.auth = Some(auth.clone()))
    }

    /// Sets the maximum size of a call's arguments in bytes, without streams. Default: 1 MiB.
    pub fn body_bytes_max(self, bytes: usize) -> Self {
        self.with(|settings| settings.body_bytes_max = bytes)
    }

    /// Sets the maximum size of one item of a caller's [`crate::ItemStream`], as JSON. Default: 1
    /// MiB. The number of items is not limited.
    pub fn item_bytes_max(self, bytes: usize) -> Self {
        self.with(|settings| settings.limits.item_bytes_max = bytes)
    }

    /// Sets the maximum size of a caller's [`crate::ByteStream`]. Default: 1 GiB.
    pub fn stream_bytes_max(self, bytes: u64) -> Self {
        self.with(|settings| settings.limits.stream_bytes_max = bytes)
    }

    /// Sets the maximum number of concurrent streams of one connection, for parameters and for
    /// results each. Default: 64. More streams are refused with [`marmota_model::ErrorKind::Busy`].
    /// Each buffers up to 64 KiB that its receiver has not read.
    pub fn streams_max(self, streams: usize) -> Self {
        self.with(|settings| settings.limits.streams_max = streams)
    }

    /// Sets how long a stream on a connection may stall because of the caller: one that sends
    /// nothing while the method waits, or reads nothing while data is available. Default: 5
    /// minutes. Then the stream ends with [`marmota_model::ErrorKind::Timeout`]. For single
    /// requests the server's own limits apply.
    pub fn stream_timeout(self, time: Duration) -> Self {
        self.with(|settings| settings.limits.reconnect_timeout = time)
    }
}

/// The called method of a service.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) hosted: Arc<Hosted>,
    pub(crate) method: usize,
}

impl Settings {
    fn place(&self, name: &str) -> std::result::Result<usize, usize> {
        self.hosted.binary_search_by(|one| one.contract.name.cmp(name))
    }

    pub(crate) fn service(&self, name: &str) -> Result<&Arc<Hosted>> {
        let found = self.place(name).map(|at| &self.hosted[at]);
        found.map_err(|_| {
            let message = format!("there is no service `{}`", excerpt(name));
            Error::new(ErrorKind::NotFound, message)
        })
    }

    /// Finds a method by name: `calculator.add`, or the name of a function.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], listing the existing names.
    pub(crate) fn target(&self, name: &str) -> Result<Target> {
        match name.split_once('.') {
            Some((service, method)) => self.method_of(service, method),
            None => {
                let hosted = self.service(name)?;
                match hosted.is_method {
                    true => Ok(Target { hosted: Arc::clone(hosted), method: 0 }),
                    false => Err(hosted.no_method("")),
                }
            }
        }
    }

    pub(crate) fn method_of(&self, service: &str, method: &str) -> Result<Target> {
        let hosted = self.service(service)?;
        match hosted.contract.find(method) {
            Some(method) if !hosted.is_method => Ok(Target { hosted: Arc::clone(hosted), method }),
            _ => Err(hosted.no_method(method)),
        }
    }
}

impl Hosted {
    #[cold]
    fn no_method(&self, method: &str) -> Error {
        let name = self.contract.name;
        let message = if self.is_method {
            format!("`{name}` is a single method; call it as `{name}`")
        } else {
            let names: Vec<&str> = self.contract.methods.iter().map(|one| one.name).collect();
            let names = names.join(", ");
            format!("`{name}` has no method `{}`; it has {names}", excerpt(method))
        };
        Error::new(ErrorKind::NotFound, message)
    }
}

impl Target {
    /// Returns the name of the method as JSON-RPC uses it.
    pub(crate) fn name(&self) -> String {
        name_of(self.hosted.contract, self.hosted.is_method, self.method)
    }

    /// Returns the method's entry in its contract.
    pub(crate) fn described(&self) -> Option<&'static MethodContract> {
        self.hosted.contract.methods.get(self.method)
    }

    /// Parses arguments from JSON.
    pub(crate) fn arguments<'a>(&self, json: &'a [u8]) -> Result<Arguments<'a>> {
        Arguments::of_json(self.hosted.contract, self.method, json)
    }

    /// Executes a call. All calls reach their method through this function.
    ///
    /// # Errors
    /// If the call cannot start: the caller lacks rights, or the arguments are invalid.
    pub(crate) fn call(&self, origin: CallOrigin, arguments: Arguments<'_>) -> Result<Answer> {
        // Counts as failed unless it completes.
        let counting = Counting {
            counts: Arc::clone(&self.hosted.counts),
            contract: self.hosted.contract,
            is_method: self.hosted.is_method,
            method: self.method,
            store: origin.store.clone(),
            began: Instant::now(),
            failed: true,
        };
        Ok(counting.around(self.begin(origin, arguments)?))
    }

    fn begin(&self, origin: CallOrigin, arguments: Arguments<'_>) -> Result<Answer> {
        let contract = self.hosted.contract;
        if let Some(error) = &origin.refusal {
            return Err(copy_of(error));
        }
        if let Some(rights) = origin.store.as_ref().and_then(|store| store.rights()) {
            let method = (!self.hosted.is_method).then(|| contract.methods[self.method].name);
            rights.check_call(contract.name, method)?;
        }
        self.hosted.call(Call::new(contract, self.method, origin), arguments)
    }
}
