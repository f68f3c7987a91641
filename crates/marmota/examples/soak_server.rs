//! The service of the differential test: `soak_server URL [--cache]` serves its
//! models until its standard input ends, and prints the address first. The URL
//! `postgres:` starts a PostgreSQL server of its own.
#![allow(missing_docs, reason = "a program")]

#[path = "../tests/soak/service.rs"]
mod service;

use std::io::Read;

use marmota::http::Server;
use marmota_postgres::TemporaryServer;

/// What the cache holds at most, so that rows leave it too.
const CACHE_BYTES: u64 = 16 * 1024;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let url = words.first().ok_or("soak_server URL [--cache]")?;
    let database = (url == "postgres:").then(|| TemporaryServer::start(&[])).transpose()?;
    let url = match &database {
        Some(server) => server.make_database()?,
        None => url.clone(),
    };
    let builder = service::open(&url)?;
    let builder = match words.iter().any(|word| word == "--cache") {
        true => builder.cache(CACHE_BYTES),
        false => builder,
    };
    let store = builder.open()?;
    let server = Server::bind("127.0.0.1:0")?.threads(2);
    let url = server.url();
    let running = server.start(service::routes(&store))?;
    println!("{}", url.trim_start_matches("http://"));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    running.shutdown_handle().shutdown();
    running.join()?;
    Ok(store.close()?)
}
