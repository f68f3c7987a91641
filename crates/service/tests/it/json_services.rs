//! Services whose contract is known at run time, and calls without a stub, over all transports.

use futures_lite::future::block_on;
use marmota_derive::service;
use marmota_model::{Error, ErrorKind, Result};
use marmota_service::{Contract, Execution, Hosted, Services};

use crate::transports::everywhere;

#[service]
trait Calculator {
    async fn add(&self, a: i64, b: i64) -> Result<i64>;
    async fn greet(&self, name: Option<String>) -> Result<String>;
}

const CONTRACT: &str = r#"{"name":"calculator","methods":[
    {"name":"add","parameters":[{"name":"a","type":"i64"},{"name":"b","type":"i64"}],"result":"i64"},
    {"name":"greet","parameters":[{"name":"name","type":"Option<String>"}],"result":"String"},
    {"name":"reset"}]}"#;

fn calculator() -> Services {
    let contract = Contract::from_json(CONTRACT).unwrap();
    let hosted = Hosted::json(contract, |call, arguments| match call.method() {
        "add" => match (arguments["a"].as_i64(), arguments["b"].as_i64()) {
            (Some(a), Some(b)) => Ok((a + b).to_string()),
            _ => Err(Error::new(ErrorKind::Invalid, "`a` and `b` are integers")),
        },
        "greet" => Ok(format!("\"Hello {}\"", arguments["name"].as_str().unwrap_or("you"))),
        other => panic!("{other} on purpose"),
    });
    Services::new().service(hosted.execution(Execution::Pool(2))).unwrap()
}

#[test]
fn a_contract_of_run_time_serves_stubs_and_plain_calls() {
    let (servers, clients) = everywhere(&calculator());
    for (url, client) in &clients {
        let stub = block_on(CalculatorClient::new(client)).unwrap();
        assert_eq!(block_on(stub.add(40, 2)).unwrap(), 42, "{url}");
        assert_eq!(block_on(stub.greet(None)).unwrap(), "Hello you", "{url}");
        let call = |method: &str, arguments: &str| block_on(client.call_json(method, arguments));
        assert_eq!(call("calculator.add", r#"{"a":1,"b":-3}"#).unwrap(), "-2", "{url}");
        assert_eq!(call("calculator.add", "[1,2]").unwrap(), "3", "{url}");
        assert_eq!(call("calculator.greet", r#"{"name":"Ada"}"#).unwrap(), r#""Hello Ada""#);
        let kind = |method: &str, arguments: &str| call(method, arguments).unwrap_err().kind();
        assert_eq!(kind("calculator.add", r#"{"a":1}"#), ErrorKind::Invalid, "{url}");
        assert_eq!(kind("calculator.add", r#"{"a":1,"b":2,"c":3}"#), ErrorKind::Invalid, "{url}");
        for wrong in ["{", "", "7", "{} {}"] {
            assert_eq!(kind("calculator.add", wrong), ErrorKind::Invalid, "{url} {wrong}");
        }
        assert_eq!(kind("calculator.divide", "{}"), ErrorKind::NotFound, "{url}");
        assert_eq!(kind("calculator.reset", "{}"), ErrorKind::Bug, "{url}");
    }
    drop(clients);
    servers.shutdown().unwrap();
}

#[test]
fn equal_contracts_are_kept_once() {
    let again = format!(" {CONTRACT} ");
    let (one, two) = (Contract::from_json(CONTRACT).unwrap(), Contract::from_json(&again).unwrap());
    assert!(std::ptr::eq(one, two));
}

#[test]
fn a_contract_that_is_not_valid_is_refused_and_named() {
    for (json, part) in [
        ("{", "EOF"),
        (r#"{"name":"a"}"#, "methods"),
        (r#"{"name":"a","methods":[],"more":1}"#, "more"),
        (r#"{"name":"a/b","methods":[]}"#, "a/b"),
        (r#"{"name":"","methods":[]}"#, "service"),
        (r#"{"name":"a","methods":[{"name":"x"},{"name":"x"}]}"#, "two methods `x`"),
        (r#"{"name":"a","methods":[{"name":"1x"}]}"#, "1x"),
        (r#"{"name":"a","methods":[{"name":"x","parameters":[{"name":"p"}]}]}"#, "type"),
        (
            r#"{"name":"a","methods":[{"name":"x","parameters":[
                {"name":"p","type":"i64"},{"name":"p","type":"i64"}]}]}"#,
            "two parameters `p`",
        ),
    ] {
        let error = Contract::from_json(json).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{json}");
        assert!(error.message().contains(part), "{json}: {error}");
    }
}
