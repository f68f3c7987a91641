//! Mocks of services for tests: rules define the answers of methods, and calls are recorded.

use std::sync::Arc;

use futures_lite::stream::StreamExt as _;
use marmota_model::text::excerpt;
use marmota_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::call::Start;
use crate::call::arguments::Arguments;
use crate::contract::{Contract, Described};
use crate::hosted::{Bounds, Host, Hosted};
use crate::transfer::{
    ByteStream, ChunkStream, Decoding, Expected, ItemStream, Reply, TransferForm, to_base64,
};

/// The maximum number of recorded calls.
const TOLD_MAX: usize = 100_000;
/// The maximum size of a recorded stream in bytes.
const BYTES_MAX: usize = 64 << 20;

/// A service that answers as a test defines: calls pass the same checks and codecs as those of a
/// real service, over any transport.
///
/// Rules are tried in the order of their creation; the first that matches a call and is not used up
/// ([`When::times`]) answers it. A call without a matching rule is an error, which [`Mock::verify`]
/// also reports.
///
/// ```
/// use marmota_derive::service;
/// use marmota_model::{ErrorKind, Result};
/// use marmota_service::{Client, Services};
/// use serde_json::json;
///
/// #[service]
/// trait Calculator {
///     async fn add(&self, a: i32, b: i32) -> Result<i32>;
/// }
///
/// # futures_lite::future::block_on(async {
/// let mock = CalculatorService::mock();
/// mock.on("add").with(json!({"a": 1, "b": 2})).times(1).returns(3);
/// mock.on("add").fails(ErrorKind::Busy, "too much at once");
///
/// let services = Services::new().service(mock.hosted())?;
/// let calculator = CalculatorClient::new(&Client::in_process(&services)).await?;
/// assert_eq!(calculator.add(1, 2).await?, 3);
/// assert_eq!(calculator.add(1, 2).await.unwrap_err().kind(), ErrorKind::Busy);
/// assert_eq!(mock.calls("add"), [json!({"a": 1, "b": 2}), json!({"a": 1, "b": 2})]);
/// mock.verify()
/// # })?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone)]
pub struct Mock {
    contract: &'static Contract,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    told: Vec<(usize, Value)>,
    /// Calls without a matching rule.
    unexpected: Vec<String>,
}

struct Rule {
    method: usize,
    /// The arguments to match; `None` matches any.
    with: Option<Value>,
    times: Option<u64>,
    used: u64,
    answer: Arc<Answering>,
}

type Answering = dyn Fn(&Value) -> Result<Said> + Send + Sync;

/// The answer of a rule.
struct Said {
    /// The result as JSON.
    json: Vec<u8>,
    /// The error at the end of the stream.
    end: Option<Error>,
}

impl Said {
    fn of(result: &impl Serialize) -> Result<Self> {
        let json = serde_json::to_vec(result).map_err(|error| {
            let message = format!("the answer of the mock cannot be written as JSON: {error}");
            Error::new(ErrorKind::Bug, message)
        })?;
        Ok(Self { json, end: None })
    }

    /// Converts the answer to the form of the method's result.
    fn reply(self, form: TransferForm, called: &str) -> Result<Reply> {
        if form.is_value() {
            return self.end.map_or(Ok(Reply::Value(self.json)), Err);
        }
        let is_bytes = form == TransferForm::Bytes;
        let bytes = is_bytes.then(|| serde_json::from_slice::<Vec<u8>>(&self.json).ok()).flatten();
        let text = String::from_utf8_lossy(&self.json);
        let pieces = match bytes {
            Some(bytes) => Ok(ChunkStream::whole(bytes)),
            None => ChunkStream::of_json(form, &text),
        };
        let pieces = pieces.map_err(|wanted| {
            let message = format!(
                "the mock answers {called} with {}, which is not a stream: use {wanted}",
                excerpt(&text)
            );
            Error::new(ErrorKind::Protocol, message)
        })?;
        let end = futures_lite::stream::iter(self.end.map(Err));
        Ok(Reply::Stream(ChunkStream::new(pieces.chain(end))))
    }
}

impl Rule {
    fn fits(&self, method: usize, arguments: &Value) -> bool {
        let is_for = |with: &Value| with == arguments;
        self.method == method
            && self.with.as_ref().is_none_or(is_for)
            && self.times.is_none_or(|times| self.used < times)
    }
}

/// A rule for some calls of a method. It has no effect until [`When::returns`], [`When::fails`] or
/// [`When::answers`] sets its answer.
#[must_use = "set the answer: `returns`, `fails` or `answers`"]
pub struct When<'m> {
    mock: &'m Mock,
    method: usize,
    with: Option<Value>,
    times: Option<u64>,
}

/// Creates a mock of a contract.
pub fn mock<D: Described>() -> Mock {
    Mock { contract: D::CONTRACT, state: Arc::default() }
}

impl Mock {
    /// Starts a rule for a method.
    ///
    /// # Panics
    /// If the contract has no such method.
    #[track_caller]
    pub fn on(&self, method: &str) -> When<'_> {
        When { mock: self, method: self.place(method), with: None, times: None }
    }

    #[track_caller]
    fn place(&self, method: &str) -> usize {
        let names = || {
            let names: Vec<&str> = self.contract.methods.iter().map(|one| one.name).collect();
            names.join(", ")
        };
        match self.contract.find(method) {
            Some(place) => place,
            None => panic!("`{}` has no method `{method}`; it has {}", self.contract.name, names()),
        }
    }

    /// Returns the service, to be added to [`crate::Services`].
    pub fn hosted(&self) -> Hosted {
        Hosted::of_host(self.contract, Arc::new(self.clone()))
    }

    /// Returns the arguments of a method's calls so far, by name, in order of arrival. Streams are
    /// read to their end before a rule is matched; a stream of items is an array here, one of bytes
    /// a base64url string.
    ///
    /// # Panics
    /// If the contract has no such method.
    #[must_use]
    #[track_caller]
    pub fn calls(&self, method: &str) -> Vec<Value> {
        let place = self.place(method);
        let state = self.state.lock();
        let told = state.told.iter().filter(|(method, _)| *method == place);
        told.map(|(_, arguments)| arguments.clone()).collect()
    }

    /// Checks that all expected calls were made, and no others.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`], listing each call without a matching rule, and each rule with
    /// [`When::times`] that was used less often.
    pub fn verify(&self) -> Result<()> {
        let state = self.state.lock();
        let unexpected = state.unexpected.iter().map(|call| format!("{call} was not expected"));
        let missed = state.rules.iter().filter_map(|rule| {
            let times = rule.times.filter(|times| rule.used < *times)?;
            let with = rule.with.as_ref().map_or("(…)".to_owned(), |with| format!("({with})"));
            let name = self.name(rule.method);
            Some(format!("{name}{with} was called {} times instead of {times}", rule.used))
        });
        let faults: Vec<String> = unexpected.chain(missed).collect();
        if faults.is_empty() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Conflict, faults.join("; ")))
    }

    fn name(&self, method: usize) -> String {
        let method = self.contract.methods.get(method).map_or("", |method| method.name);
        format!("{}.{method}", self.contract.name)
    }

    fn answer(&self, method: usize, arguments: &Value) -> Result<Reply> {
        let mut state = self.state.lock();
        let rule = state.rules.iter_mut().find(|rule| rule.fits(method, arguments));
        let answer = rule.map(|rule| {
            rule.used += 1;
            Arc::clone(&rule.answer)
        });
        if answer.is_none() && state.unexpected.len() < TOLD_MAX {
            let call = format!("{}({})", self.name(method), excerpt(&arguments.to_string()));
            state.unexpected.push(call);
        }
        if state.told.len() < TOLD_MAX {
            state.told.push((method, arguments.clone()));
        }
        // The answer may call the mock, so the lock is released.
        drop(state);
        match answer {
            Some(answer) => {
                let form = self.contract.methods.get(method).map(|one| one.result_form);
                answer(arguments)?.reply(form.unwrap_or_default(), &self.name(method))
            }
            None => {
                let (name, arguments) = (self.name(method), excerpt(&arguments.to_string()));
                let message = format!("the mock has no answer for {name}({arguments})");
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }
}

impl std::fmt::Debug for Mock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mock({})", self.contract.name)
    }
}

impl Host for Mock {
    fn prepare(
        self: Arc<Self>,
        mut arguments: Arguments<'_>,
        (method, _): (usize, Bounds),
    ) -> Result<Start> {
        let (mut named, mut streams) = (Map::new(), Vec::new());
        let parameters = self.contract.methods.get(method).map_or(&[][..], |one| one.parameters);
        for parameter in parameters {
            if parameter.form.is_value() {
                let value = arguments.read().unwrap_or(Value::Null);
                named.insert(parameter.name.to_owned(), value);
            } else if let Some((pieces, expected)) = arguments.read_stream(parameter.form) {
                streams.push((parameter, pieces, expected));
            }
        }
        arguments.end()?;
        Ok(Box::new(move |_| {
            Ok(Box::pin(async move {
                for (parameter, pieces, expected) in streams {
                    let value = whole(parameter.form, pieces, expected).await?;
                    named.insert(parameter.name.to_owned(), value);
                }
                self.answer(method, &Value::Object(named))
            }))
        }))
    }
}

/// Reads a stream into JSON: an array of items, or a base64url string.
async fn whole(form: TransferForm, pieces: ChunkStream, expected: Expected) -> Result<Value> {
    if form == TransferForm::Bytes {
        let bytes = ByteStream::new(pieces.bounded(expected)).collect(BYTES_MAX).await?;
        return Ok(Value::String(to_base64(&bytes)));
    }
    let items = ItemStream::new(Decoding::<Value>::new(pieces, expected));
    items.collect(TOLD_MAX).await.map(Value::Array)
}

impl When<'_> {
    /// Matches only calls with these arguments, all by name.
    pub fn with(mut self, arguments: Value) -> Self {
        self.with = Some(arguments);
        self
    }

    /// Matches this number of calls, no more; [`Mock::verify`] requires all of them.
    pub const fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Answers with a result. A result of another type than the method's is an error of the caller,
    /// [`ErrorKind::Protocol`]. A stream of items is a `Vec` of items here, one of bytes a
    /// `Vec<u8>`.
    pub fn returns(self, result: impl Serialize + Send + Sync + 'static) {
        self.rule(Arc::new(move |_| Said::of(&result)));
    }

    /// Answers with a stream of these items or bytes that ends with an error.
    pub fn breaks(
        self,
        items: impl Serialize + Send + Sync + 'static,
        kind: ErrorKind,
        message: impl Into<String>,
    ) {
        let message = message.into();
        self.rule(Arc::new(move |_| {
            let end = Some(Error::new(kind, message.clone()));
            Ok(Said { end, ..Said::of(&items)? })
        }));
    }

    /// Answers with an error.
    pub fn fails(self, kind: ErrorKind, message: impl Into<String>) {
        let message = message.into();
        self.rule(Arc::new(move |_| Err(Error::new(kind, message.clone()))));
    }

    /// Answers with a function of the arguments, which are named as the parameters.
    pub fn answers<R: Serialize>(
        self,
        answer: impl Fn(&Value) -> Result<R> + Send + Sync + 'static,
    ) {
        self.rule(Arc::new(move |arguments| Said::of(&answer(arguments)?)));
    }

    fn rule(self, answer: Arc<Answering>) {
        let Self { mock, method, with, times } = self;
        mock.state.lock().rules.push(Rule { method, with, times, used: 0, answer });
    }
}

impl std::fmt::Debug for When<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "When({})", self.mock.name(self.method))
    }
}
