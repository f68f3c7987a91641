//! The server of the TechEmpower benchmark: the same routes through the ORM, through the layer below
//! it, and by raw SQL.
#![forbid(unsafe_code)]

mod answer;
mod data;
mod direct;
mod fortune;
mod number;
mod orm;
mod sql;

use std::process::ExitCode;

use clap::Parser;
use marmota::http::{BatchScheduling, Flow, Method};
use marmota::prelude::*;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serves the TechEmpower benchmark's routes.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The database: `sqlite` (a file in ./data), or the URL of any engine.
    #[arg(long, default_value = "sqlite", value_name = "URL")]
    db: String,
    /// Create and fill the tables, and exit.
    #[arg(long)]
    init_db: bool,
    /// The port to listen on, on every address.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// The address to listen on.
    #[arg(long, default_value = "0.0.0.0")]
    address: String,
    /// Number of listeners, each with its own threads.
    #[arg(short = 's', long)]
    servers: Option<usize>,
    /// Threads of each listener. Default: the number of available cores.
    #[arg(short = 't', long)]
    threads: Option<usize>,
    /// Pin each thread to a core.
    #[arg(short = 'p', long)]
    pin: bool,
    /// The scheduling policy SCHED_BATCH for the threads: auto (if the database server is on this
    /// machine), on or off.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    batch_scheduling: BatchScheduling,
    /// Write the page of fortunes with a Mustache template, not with the compiled one.
    #[arg(long)]
    mustache: bool,
}

/// The object of `/json`, serialised for each request.
#[derive(serde::Serialize)]
struct Message {
    message: &'static str,
}

fn main() -> ExitCode {
    match serve(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("techempower: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    if arguments.init_db {
        data::init(&arguments.db)?;
        println!("{} has 10,000 rows of world and 12 of fortune", arguments.db);
        return Ok(());
    }
    if arguments.mustache {
        fortune::use_mustache()?;
    }
    let data = data::Data::open(&arguments.db)?;
    let mut server = Server::bind((arguments.address.as_str(), arguments.port))?
        .pin(arguments.pin)
        .batch_scheduling(arguments.batch_scheduling);
    if let Some(servers) = arguments.servers {
        server = server.listeners(servers);
    }
    if let Some(threads) = arguments.threads {
        server = server.threads_per_listener(threads);
    }
    println!("TechEmpower on {} at http://{}", arguments.db, server.local_addr());
    server.run(router(&data)?)?;
    Ok(data.store.close()?)
}

fn router(data: &data::Data) -> Result<Router> {
    let router = Router::new()
        .local_database(data.store.capability().local_server.as_deref())
        .direct(Method::Get, "/plaintext", |_, out| {
            out.send("text/plain", b"Hello, World!");
            Flow::Done
        })
        .direct(Method::Get, "/json", |_, out| {
            let message = Message { message: "Hello, World!" };
            let body = out.content_type("application/json").body_mut();
            if serde_json::to_writer(body, &message).is_err() {
                out.respond(Response::from_status(Status::INTERNAL_SERVER_ERROR));
            }
            Flow::Done
        });
    direct::routes(sql::routes(orm::routes(router, data), data), data)
}
