//! A calculator and its callers, by every way: `cargo run -p marmota-service
//! --example calculator`, or with `serve` to try it by curl.

use futures_lite::future::block_on;
use marmota_derive::{method, service};
use marmota_http::Server;
use marmota_model::{Error, ErrorKind, Result};
use marmota_service::{Client, Services};

#[service]
trait Calculator {
    async fn add(&self, a: i32, b: i32) -> Result<i32>;
    async fn divide(&self, a: i32, b: i32) -> Result<i32>;
}

struct Abacus;

impl Calculator for Abacus {
    async fn add(&self, a: i32, b: i32) -> Result<i32> {
        a.checked_add(b).ok_or_else(|| Error::new(ErrorKind::Invalid, "the sum is too large"))
    }

    async fn divide(&self, a: i32, b: i32) -> Result<i32> {
        a.checked_div(b).ok_or_else(|| Error::new(ErrorKind::Invalid, "`b` must not be 0"))
    }
}

#[method]
fn sum(a: i32, b: i32) -> Result<i32> {
    Ok(a + b)
}

/// Knows the trait, and not where it is answered.
async fn reckon(way: &str, calculator: &impl Calculator) -> Result<()> {
    let half = calculator.divide(calculator.add(40, 44).await?, 2).await?;
    let error = calculator.divide(1, 0).await.err().map(|error| error.to_string());
    println!("{way}: {half}, {error:?}");
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let services = Services::new().service(CalculatorService::shared(Abacus))?.method::<sum>()?;
    let unix = format!("unix:@marmota-calculator-{}", std::process::id());
    if std::env::args().any(|argument| argument == "serve") {
        println!("curl 127.0.0.1:8080/api/calculator/add -d '{{\"a\":1,\"b\":2}}'");
        return Ok(Server::bind("127.0.0.1:8080")?.run(services.router())?);
    }
    let server = Server::bind("127.0.0.1:0")?.and(&unix)?.start(services.router())?;
    let http = format!("http://{}/api", server.addresses()[0]);
    block_on(async {
        reckon("the trait itself", &Abacus).await?;
        let here = Client::in_process(&services);
        reckon("in process", &CalculatorClient::new(&here).await?).await?;
        for url in [&unix, &http] {
            let client = Client::connect(url)?;
            reckon(url, &CalculatorClient::new(&client).await?).await?;
            println!("{url}: {}", sum::at(&client, 1, 2).await?);
        }
        Ok::<(), Error>(())
    })?;
    Ok(server.shutdown()?)
}
