//! The service of the soak runs. `soak_server URL [--cache] [--plain] [ARGUMENTS]` runs the
//! subcommand `serve` with the models of the differential test, on a free port, with further
//! arguments of `serve`. The URLs `postgres:` and `mongodb:` start a temporary server. `--plain`
//! omits the models with history and `Idempotency-Key`, which need transactions.
#![allow(missing_docs, reason = "a program")]

#[path = "../tests/soak/service.rs"]
mod service;

use std::process::ExitCode;

use marmota::command::Command;
use marmota_postgres::TemporaryPostgres;

/// The maximum size of the cache, small enough that rows are evicted.
const CACHE_BYTES: u64 = 16 * 1024;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let has_cache = take(&mut words, "--cache");
    let is_plain = take(&mut words, "--plain");
    if words.is_empty() {
        return Err("soak_server URL [--cache] [--plain] [ARGUMENTS of serve]".into());
    }
    let url = words.remove(0);
    let database = (url == "postgres:").then(|| TemporaryPostgres::start(&[])).transpose()?;
    let documents = (url == "mongodb:").then(marmota_mongo::TemporaryMongo::start).transpose()?;
    let url = match &database {
        Some(server) => server.make_database()?,
        None => url,
    };
    let url = documents.as_ref().map_or(url, marmota_mongo::TemporaryMongo::url);
    let program = Command::new(move |url| {
        let builder = if is_plain { service::open_plain(url) } else { service::open(url) }?;
        Ok(if has_cache { builder.cache(CACHE_BYTES) } else { builder })
    });
    let serve = ["soak_server", "serve", "--listen", "127.0.0.1:0", "--db", &url];
    Ok(program.run_with(serve.into_iter().map(str::to_owned).chain(words)))
}

/// Removes a word from the arguments. Returns true if it was present.
fn take(words: &mut Vec<String>, word: &str) -> bool {
    let before = words.len();
    words.retain(|other| other != word);
    words.len() < before
}
