//! What a client's side of a contract is made of.

use std::sync::Arc;

use marmota_model::Result;

use crate::arguments::Written;
use crate::client::Client;
use crate::contract::Contract;
use crate::dispatch::Described;
use crate::form::Transfer;
use crate::link::Terms;
use crate::owned::Owner;

/// A stub of the macros': `CalculatorClient`.
pub trait Stubbed: Clone + Send + Sync + 'static {
    /// What it calls.
    type Service: Described;

    /// It, of what finds and calls the service.
    #[doc(hidden)]
    fn of(stub: Stub) -> Self;
}

/// A service somewhere.
#[derive(Clone)]
pub struct Stub {
    client: Client,
    contract: &'static Contract,
    /// What its calls rest on; none where nobody says so.
    terms: Option<Terms>,
    /// The names of its methods, as they are called.
    names: Arc<[String]>,
    /// Where the instance is this stub's own.
    owner: Option<Arc<Owner>>,
}

impl Stub {
    /// Finds it, and compares the contracts.
    ///
    /// # Errors
    /// If there is none, or another.
    pub async fn new<D: Described>(client: &Client) -> Result<Self> {
        let contract = D::CONTRACT;
        let terms = client.agree(contract).await?;
        let is_method = terms.is_some_and(|terms| terms.is_method);
        let per_stub = terms.is_some_and(|terms| terms.per_stub);
        let owner = per_stub.then(|| Arc::new(Owner::new(client, contract.name)));
        let names = contract.methods.iter().map(|method| match is_method {
            true => contract.name.to_owned(),
            false => format!("{}.{}", contract.name, method.name),
        });
        Ok(Self { client: client.clone(), contract, terms, names: names.collect(), owner })
    }

    /// Calls a method by its number.
    ///
    /// # Errors
    /// The method's, and those of the way.
    pub async fn call<R: Transfer>(&self, method: usize, with: Written) -> Result<R> {
        self.called(method, with, false).await
    }

    /// As [`Stub::call`] for a method that may take place twice.
    ///
    /// # Errors
    /// As there.
    pub async fn call_repeatable<R: Transfer>(&self, method: usize, with: Written) -> Result<R> {
        self.called(method, with, true).await
    }

    async fn called<R: Transfer>(
        &self,
        method: usize,
        with: Written,
        is_retryable: bool,
    ) -> Result<R> {
        let name = &self.names[method];
        let stub = self.owner.as_ref().map(|owner| owner.stub);
        let by = (self.terms, stub);
        let reply = self.client.call(name, with.into_parts()?, by, is_retryable).await?;
        reply.read(self.client.expected(name))
    }
}

impl std::fmt::Debug for Stub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stub({} by {:?})", self.contract.name, self.client)
    }
}
