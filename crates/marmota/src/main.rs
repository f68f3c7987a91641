//! The `marmota` program: a data service to look at, on a SQLite file of its own.
#![forbid(unsafe_code)]

mod demo;

use std::process::ExitCode;

use clap::Parser;
use marmota::prelude::*;

/// Serves the demonstration models as REST.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT")]
    listen: String,
    /// The database: sqlite:FILE, sqlite::memory: or memory:
    #[arg(long, default_value = "sqlite:data/marmota.db", value_name = "URL")]
    db: String,
    /// Threads; one for each core it may use, if not given.
    #[arg(long)]
    threads: Option<usize>,
}

fn main() -> ExitCode {
    match serve(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("marmota: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let store = demo::open(&arguments.db)?;
    let mut server = Server::bind(arguments.listen.as_str())?;
    if let Some(threads) = arguments.threads {
        server = server.threads(threads);
    }
    let address = server.local_addr();
    println!("Marmota serves {} on http://{address} (Ctrl-C ends it). Try:", arguments.db);
    println!("  curl 'http://{address}/api/person?order=year_of_birth&limit=3'");
    println!(
        "  curl http://{address}/api/person -d \
         '{{\"first_name\":\"Emmy\",\"last_name\":\"Noether\",\"year_of_birth\":1882}}'"
    );
    println!(
        "  curl --get http://{address}/api/person \
         --data-urlencode \"filter=last_name ~ 'cur' and year_of_death > 1930\""
    );
    server.run(rest::api(&store))?;
    store.close()?;
    println!("Closed cleanly.");
    Ok(())
}
