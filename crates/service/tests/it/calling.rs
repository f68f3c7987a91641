//! One call, in process and over HTTP: results, faults, panics.

use futures_lite::future::block_on;
use marmota_derive::{method, service};
use marmota_http::{RunningServer, Server};
use marmota_model::{Error, ErrorKind, Result};
use marmota_service::{Call, Client, Services};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Point {
    x: f64,
    y: f64,
}

/// What is reckoned.
#[service]
trait Calculator {
    /// The sum.
    async fn add(&self, a: i32, b: i32) -> Result<i32>;
    async fn divide(&self, a: i32, b: i32) -> Result<i32>;
    async fn mirrored(&self, point: Point, label: Option<String>) -> Result<(Point, String)>;
    async fn name(&self) -> Result<String>;
}

struct Abacus;

impl Calculator for Abacus {
    async fn add(&self, a: i32, b: i32) -> Result<i32> {
        futures_lite::future::yield_now().await;
        Ok(a + b)
    }

    async fn divide(&self, a: i32, b: i32) -> Result<i32> {
        if a == 0 {
            return Err(Error::new(ErrorKind::Conflict, "nothing is to be divided"));
        }
        Ok(a / b)
    }

    async fn mirrored(&self, point: Point, label: Option<String>) -> Result<(Point, String)> {
        Ok((Point { x: -point.x, ..point }, label.unwrap_or_default()))
    }

    async fn name(&self) -> Result<String> {
        futures_lite::future::yield_now().await;
        let call = Call::current().unwrap();
        Ok(format!("{}.{}", call.service(), call.method()))
    }
}

/// A function by itself.
#[method]
fn sum(a: i32, b: i32) -> Result<i32> {
    Ok(a + b)
}

#[method]
async fn greeting(name: String, loud: Option<bool>) -> Result<String> {
    let text = format!("hello {name}");
    Ok(if loud == Some(true) { text.to_uppercase() } else { text })
}

pub(crate) fn services() -> Services {
    let services = Services::new().service(CalculatorService::shared(Abacus)).unwrap();
    services.method::<sum>().unwrap().method::<greeting>().unwrap()
}

pub(crate) fn served() -> RunningServer {
    Server::bind("127.0.0.1:0").unwrap().listeners(1).start(services().router()).unwrap()
}

pub(crate) fn url(server: &RunningServer, path: &str) -> String {
    format!("http://{}{path}", server.addresses()[0])
}

pub(crate) fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().into()
}

pub(crate) fn post(server: &RunningServer, path: &str, body: &str) -> (u16, Value) {
    let mut answer =
        agent().post(url(server, path)).content_type("application/json").send(body).unwrap();
    (answer.status().as_u16(), answer.body_mut().read_json().unwrap())
}

fn get(server: &RunningServer, path: &str) -> (u16, Value) {
    let mut answer = agent().get(url(server, path)).call().unwrap();
    (answer.status().as_u16(), answer.body_mut().read_json().unwrap())
}

#[test]
fn a_stub_in_process_is_the_trait() {
    block_on(async {
        let calculator = CalculatorClient::new(&Client::in_process(&services())).await.unwrap();
        assert_eq!(calculator.add(1, 2).await.unwrap(), 3);
        let point = Point { x: 1.5, y: 2.0 };
        let (mirrored, label) = calculator.mirrored(point, Some("p".into())).await.unwrap();
        assert_eq!((mirrored, &*label), (Point { x: -1.5, y: 2.0 }, "p"));
        assert_eq!(calculator.name().await.unwrap(), "calculator.name");
        let error = calculator.divide(0, 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(error.message(), "nothing is to be divided");
        let client = Client::in_process(&services());
        assert_eq!(sum::at(&client, 20, 22).await.unwrap(), 42);
    });
    assert_eq!(sum(1, 1).unwrap(), 2);
    assert!(Call::current().is_none());
}

#[test]
fn a_panic_is_an_error_that_names_its_method() {
    block_on(async {
        let calculator = CalculatorClient::new(&Client::in_process(&services())).await.unwrap();
        let error = calculator.divide(1, 0).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Bug);
        assert!(error.message().starts_with("calculator.divide: "), "{error}");
        assert_eq!(calculator.add(1, 2).await.unwrap(), 3);
    });
    let server = served();
    let (status, body) = post(&server, "/api/calculator/divide", r#"{"a":1,"b":0}"#);
    assert_eq!(status, 500);
    assert!(body["detail"].as_str().unwrap().starts_with("calculator.divide: "), "{body}");
    assert_eq!(post(&server, "/api/calculator/add", "[1,2]"), (200, json!({"result":3})));
}

#[test]
fn calls_over_http_are_answered_or_told_what_is_wrong() {
    let server = served();
    let add = |body| post(&server, "/api/calculator/add", body);
    assert_eq!(add(r#"{"a":1,"b":2}"#), (200, json!({"result":3})));
    assert_eq!(add("[1,2]"), (200, json!({"result":3})));
    let (status, body) = add(r#"{"a":"one","c":3}"#);
    assert_eq!(status, 422, "{body}");
    let fault = |number: usize| {
        let one = &body["errors"][number];
        (one["field"].as_str().unwrap(), one["rule"].as_str().unwrap())
    };
    assert_eq!(
        [fault(0), fault(1), fault(2)],
        [("a", "type"), ("b", "required"), ("c", "unknown")]
    );
    assert_eq!(add("{").0, 400);
    assert_eq!(post(&server, "/api/calculator/divide", "[0,1]").0, 409);
    assert_eq!(get(&server, "/api/sum?a=1&b=2"), (200, json!({"result":3})));
    assert_eq!(post(&server, "/api/sum", r#"{"a":1,"b":2}"#), (200, json!({"result":3})));
    let greeted = get(&server, "/api/greeting?name=12&loud=true");
    assert_eq!(greeted, (200, json!({"result":"HELLO 12"})));
    assert_eq!(get(&server, "/api/sum?a=1&b=x").0, 422);
    let (_, contract) = get(&server, "/api/calculator");
    assert_eq!(contract["methods"][0]["parameters"][1]["name"], "b");
    assert_eq!(agent().get(url(&server, "/api/calculator/add")).call().unwrap().status(), 405);
    server.shutdown().unwrap();
}

#[test]
fn two_services_of_one_name_are_refused() {
    let error = services().service(CalculatorService::shared(Abacus)).unwrap_err();
    assert!(error.message().contains("calculator"), "{error}");
}

mod other {
    use super::{Result, service};

    /// As an older program may know it.
    #[service(name = "calculator")]
    pub(super) trait Older {
        async fn add(&self, a: i32, b: i64) -> Result<i32>;
    }

    #[service(name = "calculator")]
    pub(super) trait Newer {
        async fn power(&self, a: i32) -> Result<i32>;
    }
}

#[test]
fn a_contract_that_differs_is_refused_by_the_methods_name() {
    block_on(async {
        let client = Client::in_process(&services());
        let error = other::OlderClient::new(&client).await.unwrap_err();
        assert!(error.message().contains("`add(a: i32, b: i64) -> i32`"), "{error}");
        assert!(error.message().contains("`add(a: i32, b: i32) -> i32`"), "{error}");
        let error = other::NewerClient::new(&client).await.unwrap_err();
        assert!(error.message().contains("power"), "{error}");
        assert!(sum::at(&Client::in_process(&Services::new()), 1, 2).await.is_err());
    });
}
