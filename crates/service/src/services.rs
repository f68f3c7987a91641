//! All that is served together: services by name, and the one way by which
//! every call reaches them.

use std::sync::Arc;
use std::time::Instant;

use marmota_auth::{Auth, Identity, Proof};
use marmota_model::text::excerpt;
use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Store;
use marmota_store::refusal::copy_of;

use crate::activity::{Counting, name_of};
use crate::arguments::Arguments;
use crate::call::{Call, CallOrigin};
use crate::contract::Method;
use crate::dispatch::{Answer, Dispatch};
use crate::hosted::Hosted;
use crate::instances::Instances;
use crate::limits::Limits;

/// Services that are served together.
#[derive(Clone, Debug)]
#[must_use]
pub struct Services(pub(crate) Arc<Settings>);

#[derive(Clone)]
pub(crate) struct Settings {
    /// By name.
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
    /// None yet.
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
    /// [`ErrorKind::Conflict`] if there is one of its name.
    pub fn service(self, hosted: Hosted) -> Result<Self> {
        let name = hosted.contract.name;
        match self.0.place(name) {
            Ok(_) => {
                let message = format!(
                    "there is a service `{name}` already; give one another name: \
                     `#[service(name = \"…\")]`"
                );
                Err(Error::new(ErrorKind::Conflict, message))
            }
            Err(at) => Ok(self.with(|settings| settings.hosted.insert(at, Arc::new(hosted)))),
        }
    }

    /// Adds a function that is a `#[method]`, by its name.
    ///
    /// # Errors
    /// As [`Services::service`].
    pub fn method<M: Dispatch<()>>(self) -> Result<Self> {
        let mut hosted = Hosted::new::<M, ()>(Instances::Shared(Arc::new(())));
        hosted.is_method = true;
        self.service(hosted)
    }

    /// The store that methods find by [`Call::store`].
    pub fn store(self, store: &Store) -> Self {
        self.with(|settings| settings.store = Some(store.clone()))
    }

    /// Has callers authenticated: methods are called by those to whom they were
    /// granted ([`marmota_store::rights::Grant::call`]), and find the store as it
    /// is for their caller ([`Call::store`]). In process the caller is nobody.
    pub fn auth(self, auth: &Auth) -> Self {
        self.with(|settings| settings.auth = Some(auth.clone()))
    }

    /// Bytes of a call's arguments at most, 1 MiB by default, but for streams.
    pub fn body_bytes_max(self, bytes: usize) -> Self {
        self.with(|settings| settings.body_bytes_max = bytes)
    }
}

/// A service's method that is called.
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

    /// The method of a name: `calculator.add`, or that of a function.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], naming those there are.
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

    /// Where a call comes from that nobody in particular makes.
    pub(crate) fn origin(&self) -> CallOrigin {
        CallOrigin { store: self.store.clone(), ..CallOrigin::default() }
    }

    /// Where a call of this process' own comes from.
    pub(crate) fn own_origin(&self) -> Result<CallOrigin> {
        match &self.auth {
            Some(auth) => self.origin_by(auth, None),
            None => Ok(self.origin()),
        }
    }

    /// Takes who calls by a connection that is kept as they are known now: a logout or a right
    /// taken away holds from the next call on.
    pub(crate) fn look_again(origin: &mut CallOrigin, found: Result<Arc<Identity>>) {
        let Some((_, known)) = &mut origin.known else { return };
        match found {
            Ok(now) => {
                origin.store = Some(now.store().clone());
                (*known, origin.refusal) = (now, None);
            }
            Err(error) => origin.refusal = Some(Arc::new(error)),
        }
    }

    /// Where a call comes from, of who was found by a credential.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] for nobody, who may do nothing.
    pub(crate) fn origin_by(
        &self,
        auth: &Auth,
        known: Option<Arc<Identity>>,
    ) -> Result<CallOrigin> {
        if let Some(known) = known {
            let session = match known.proof() {
                Proof::Session(session) => format!("session {session}"),
                Proof::Key(key) => format!("key {key}"),
            };
            let (store, session) = (Some(known.store().clone()), Some(session.into()));
            return Ok(CallOrigin {
                store,
                session,
                known: Some((auth.clone(), known)),
                ..CallOrigin::default()
            });
        }
        match auth.anonymous() {
            Some(store) => Ok(CallOrigin { store: Some(store.clone()), ..CallOrigin::default() }),
            None => {
                let message = "log in, or send a token: `Authorization: Bearer …`";
                Err(Error::new(ErrorKind::Unauthenticated, message))
            }
        }
    }
}

impl Hosted {
    #[cold]
    fn no_method(&self, method: &str) -> Error {
        let name = self.contract.name;
        let message = if self.is_method {
            format!("`{name}` is a method by itself; call it by `{name}`")
        } else {
            let names: Vec<&str> = self.contract.methods.iter().map(|one| one.name).collect();
            let names = names.join(", ");
            format!("`{name}` has no method `{}`; it has {names}", excerpt(method))
        };
        Error::new(ErrorKind::NotFound, message)
    }
}

impl Target {
    /// The target's name as JSON-RPC has it.
    pub(crate) fn name(&self) -> String {
        name_of(self.hosted.contract, self.hosted.is_method, self.method)
    }

    /// The method's entry in its contract.
    pub(crate) fn described(&self) -> Option<&'static Method> {
        self.hosted.contract.methods.get(self.method)
    }

    /// Arguments of JSON.
    pub(crate) fn arguments<'a>(&self, json: &'a [u8]) -> Result<Arguments<'a>> {
        Arguments::of_json(self.hosted.contract, self.method, json)
    }

    /// Carries out a call: the only way by which any reaches its method.
    ///
    /// # Errors
    /// What can be said before it has begun: of rights, and of arguments.
    pub(crate) fn call(&self, origin: CallOrigin, arguments: Arguments<'_>) -> Result<Answer> {
        // As failed, unless its answer comes.
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
