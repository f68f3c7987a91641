//! Services whose methods are known at run time: one function answers all of them with JSON.

use std::sync::Arc;

use marmota_model::Result;
use serde_json::{Map, Value};

use super::{Bounds, Host, Hosted};
use crate::call::arguments::Arguments;
use crate::call::{Call, Start};
use crate::contract::Contract;
use crate::transfer::Reply;

struct JsonMethods<F> {
    contract: &'static Contract,
    answer: F,
}

impl Hosted {
    /// Hosts a service whose methods are known at run time ([`Contract::from_json`]). `answer` gets
    /// the call ([`Call::method`] is the name of its method) and the arguments by name, and returns
    /// the result as JSON. Missing arguments are null; unknown ones are refused before.
    ///
    /// Callers use such a service like any other: by routes, JSON-RPC, WebSockets and stubs. It
    /// checks the types of the arguments itself. Set an [`crate::Execution`] if `answer` waits.
    ///
    /// ```
    /// use marmota_model::{Error, ErrorKind};
    /// use marmota_service::{Client, Contract, Hosted, Services};
    ///
    /// let contract = Contract::from_json(
    ///     r#"{"name":"calculator","methods":[
    ///         {"name":"add","parameters":[{"name":"a","type":"i64"},{"name":"b","type":"i64"}],
    ///          "result":"i64"}]}"#,
    /// )?;
    /// let calculator = Hosted::json(contract, |_, arguments| {
    ///     match (arguments["a"].as_i64(), arguments["b"].as_i64()) {
    ///         (Some(a), Some(b)) => Ok((a + b).to_string()),
    ///         _ => Err(Error::new(ErrorKind::Invalid, "`a` and `b` are not integers")),
    ///     }
    /// });
    /// let services = Services::new().service(calculator)?;
    /// # futures_lite::future::block_on(async {
    /// let client = Client::in_process(&services);
    /// assert_eq!(client.call_json("calculator.add", r#"{"a":1,"b":2}"#).await?, "3");
    /// # Ok::<(), Error>(())
    /// # })?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn json(
        contract: &'static Contract,
        answer: impl Fn(&Call, &Map<String, Value>) -> Result<String> + Send + Sync + 'static,
    ) -> Self {
        Self::of_host(contract, Arc::new(JsonMethods { contract, answer }))
    }
}

impl<F> Host for JsonMethods<F>
where
    F: Fn(&Call, &Map<String, Value>) -> Result<String> + Send + Sync + 'static,
{
    fn prepare(
        self: Arc<Self>,
        mut arguments: Arguments<'_>,
        (method, _): (usize, Bounds),
    ) -> Result<Start> {
        let parameters = self.contract.methods.get(method).map_or(&[][..], |one| one.parameters);
        let mut named = Map::new();
        for parameter in parameters {
            named.insert(parameter.name.to_owned(), arguments.read().unwrap_or(Value::Null));
        }
        arguments.end()?;
        Ok(Box::new(move |call| {
            let call = call.clone();
            Ok(Box::pin(async move {
                (self.answer)(&call, &named).map(|json| Reply::Value(json.into_bytes()))
            }))
        }))
    }
}
