//! Handlers with descriptions for OpenAPI: [`described`], and [`Router::descriptions`], which collects
//! those of a router.

use std::any::type_name;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::extract::describe::{DescribeRequest, DescribeResponse, RouteDescription};
use crate::proto::method::Method;
use crate::proto::status::Status;
use crate::routing::endpoint::Endpoint;
use crate::routing::router::Router;
use crate::routing::typed_handler::TypedHandler;

/// A function whose arguments and answer can be described. It is implemented for functions of up to
/// eight arguments; the compiler infers `Arguments`.
pub trait DescribeHandler<Arguments> {
    /// Adds the parts of the arguments and of the answer.
    fn describe_handler(route: &mut RouteDescription<'_>);
}

/// Implements the trait for functions of this number of arguments.
macro_rules! described_handlers {
    ($(($($part:ident $mode:ident)*))*) => {
        $(impl<F, T, $($part, $mode),*> DescribeHandler<($(($part, $mode),)*)> for F
        where
            F: Fn($($part),*) -> T,
            T: Future,
            T::Output: DescribeResponse,
            $($part: DescribeRequest,)*
        {
            fn describe_handler(route: &mut RouteDescription<'_>) {
                $($part::describe_request(route);)*
                T::Output::describe_response(route);
            }
        })*
    };
}

described_handlers! {
    ()
    (A MA)
    (A MA B MB)
    (A MA B MB C MC)
    (A MA B MB C MC D MD)
    (A MA B MB C MC D MD E ME)
    (A MA B MB C MC D MD E ME G MG)
    (A MA B MB C MC D MD E ME G MG H MH)
    (A MA B MB C MC D MD E ME G MG H MH I MI)
}

/// Returns a handler of [`Router::with_state`] that has a description for OpenAPI: its parameters,
/// body and answers by their types, and the texts that are added to it. The name of the function is
/// the `operationId`.
///
/// ```
/// use marmota_http::extract::Path;
/// use marmota_http::{Router, TestRequest, described};
///
/// async fn greet(Path(name): Path<String>) -> String {
///     format!("Hello, {name}!")
/// }
///
/// let router = Router::with_state(())
///     .get("/greet/{name}", described(greet).summary("Greets a person"))
///     .router();
/// assert_eq!(router.call(TestRequest::get("/greet/Ada"))?.text(), "Hello, Ada!");
/// let operation = &router.descriptions().operations[0].2;
/// assert_eq!(operation["summary"], "Greets a person");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub fn described<H, Arguments>(handler: H) -> DescribedHandler<H, Arguments>
where
    H: DescribeHandler<Arguments>,
{
    let name = type_name::<H>().rsplit("::").next().unwrap_or_default();
    let is_named = !name.is_empty() && !name.contains(['{', '<', '(']);
    let mut texts = Map::new();
    if is_named {
        texts.insert("operationId".to_owned(), json!(name));
    }
    DescribedHandler { handler, texts, answers: Vec::new(), arguments: PhantomData }
}

/// A handler with a description; [`described`] makes it.
pub struct DescribedHandler<H, Arguments> {
    handler: H,
    /// `summary` and the other members of the operation.
    texts: Map<String, Value>,
    /// Statuses with their texts.
    answers: Vec<(Status, String)>,
    arguments: PhantomData<fn(Arguments)>,
}

impl<H, Arguments> DescribedHandler<H, Arguments> {
    /// Sets the summary: a few words.
    ///
    /// ```
    /// # use marmota_http::described;
    /// let ping = described(|| async { "pong" }).summary("Answers");
    /// # let _ = marmota_http::Router::with_state(()).get("/", ping);
    /// ```
    #[must_use]
    pub fn summary(self, text: &str) -> Self {
        self.text("summary", json!(text))
    }

    /// Sets the description, in Markdown.
    ///
    /// ```
    /// # use marmota_http::described;
    /// let ping = described(|| async { "pong" }).description("For *health checks*.");
    /// # let _ = marmota_http::Router::with_state(()).get("/", ping);
    /// ```
    #[must_use]
    pub fn description(self, text: &str) -> Self {
        self.text("description", json!(text))
    }

    /// Sets the name of the operation, from which generators make the name of a function. Default:
    /// the name of the handler's function; none for a closure.
    ///
    /// ```
    /// # use marmota_http::described;
    /// let ping = described(|| async { "pong" }).operation_id("ping");
    /// # let _ = marmota_http::Router::with_state(()).get("/", ping);
    /// ```
    #[must_use]
    pub fn operation_id(self, name: &str) -> Self {
        self.text("operationId", json!(name))
    }

    /// Sets the tag, by which tools group operations. Default: none.
    ///
    /// ```
    /// # use marmota_http::described;
    /// let ping = described(|| async { "pong" }).tag("operations");
    /// # let _ = marmota_http::Router::with_state(()).get("/", ping);
    /// ```
    #[must_use]
    pub fn tag(self, name: &str) -> Self {
        self.text("tags", json!([name]))
    }

    /// Adds an error with this status, as a problem document, in place of the one that an argument
    /// describes.
    ///
    /// ```
    /// use marmota_http::Status;
    /// # use marmota_http::described;
    /// let ping = described(|| async { Err::<&str, _>(Status::CONFLICT) })
    ///     .error(Status::CONFLICT, "The server is not ready yet");
    /// # let _ = marmota_http::Router::with_state(()).get("/", ping);
    /// ```
    #[must_use]
    pub fn error(mut self, status: Status, text: &str) -> Self {
        self.answers.push((status, text.to_owned()));
        self
    }

    /// Adds an answer without a body, for a handler that returns a `Status` or a `Response`.
    ///
    /// ```
    /// use marmota_http::Status;
    /// # use marmota_http::described;
    /// let start = described(|| async { Status::ACCEPTED }).empty(Status::ACCEPTED, "It is started");
    /// # let _ = marmota_http::Router::with_state(()).post("/", start);
    /// ```
    #[must_use]
    pub fn empty(self, status: Status, text: &str) -> Self {
        // The status decides whether it is an error.
        self.error(status, text)
    }

    /// Sets a member of the operation.
    fn text(mut self, name: &str, value: Value) -> Self {
        self.texts.insert(name.to_owned(), value);
        self
    }
}

impl<H, Arguments> fmt::Debug for DescribedHandler<H, Arguments> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DescribedHandler").field("texts", &self.texts).finish_non_exhaustive()
    }
}

impl<H, Arguments, S> TypedHandler<Arguments, S> for DescribedHandler<H, Arguments>
where
    H: TypedHandler<Arguments, S> + DescribeHandler<Arguments>,
    Arguments: 'static,
{
    fn endpoint(self, state: S) -> Endpoint {
        let Self { handler, texts, answers, .. } = self;
        let mut endpoint = handler.endpoint(state);
        endpoint.describe = Some(Arc::new(move |route| {
            for (status, text) in &answers {
                match status.code() {
                    400.. => route.error(*status, text),
                    _ => route.empty_response(*status, text),
                }
            }
            H::describe_handler(route);
            for (name, value) in &texts {
                route.set(name, value.clone());
            }
        }));
        endpoint
    }
}

/// The descriptions of a router's routes, as parts of an OpenAPI 3.1 document.
#[derive(Clone, Debug, Default)]
pub struct Descriptions {
    /// The method, the path and the Operation Object of each described route.
    pub operations: Vec<(Method, String, Value)>,
    /// The schemas to which they refer, by their names.
    pub schemas: Map<String, Value>,
    /// True if a route authenticates its callers.
    pub is_secured: bool,
}

impl Router {
    /// Returns the descriptions of those routes whose handlers have one ([`described`]). `OpenApi` of
    /// `marmota-web` makes a document of them. An `operationId` that occurs again gets a number.
    ///
    /// ```
    /// use marmota_http::{Router, described};
    /// let inner = Router::with_state(())
    ///     .get("/ping", described(|| async { "pong" }))
    ///     .get("/hidden", || async { "not described" });
    /// let descriptions = Router::new().nest("/v1", inner.router()).descriptions();
    /// assert_eq!(descriptions.operations.len(), 1);
    /// assert_eq!(descriptions.operations[0].1, "/v1/ping");
    /// ```
    #[must_use]
    pub fn descriptions(&self) -> Descriptions {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let mut generator = settings.into_generator();
        let mut described = Descriptions::default();
        for (method, pattern, endpoint) in self.endpoints() {
            let (Some(method), Some(describe)) = (method, &endpoint.describe) else { continue };
            let mut route = RouteDescription::new(&mut generator);
            describe(&mut route);
            let (path, mut operation, is_secured) = route.into_operation(pattern);
            let known = &described.operations;
            rename(&mut operation, |name| {
                known.iter().any(|(_, _, one)| one["operationId"] == name)
            });
            described.is_secured |= is_secured;
            described.operations.push((method, path, operation));
        }
        described.schemas = generator.take_definitions(true);
        described
    }
}

/// Appends a number to an `operationId` that is taken.
fn rename(operation: &mut Value, is_taken: impl Fn(&str) -> bool) {
    let Some(name) = operation["operationId"].as_str() else { return };
    if is_taken(name) {
        let numbered = (2..).map(|number| format!("{name}_{number}")).find(|name| !is_taken(name));
        operation["operationId"] = json!(numbered);
    }
}
