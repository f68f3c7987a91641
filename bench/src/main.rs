//! `cargo run --release -p bench -- http|web|techempower|orm|models|transit|office`: Marmota, its peers
//! and a floor measured side by side in one run, with ratios between them. What is measured
//! and how to read it is in `bench/README.md`. The peers are programs of their
//! own under `bench/peers`, built on demand; this program depends on none.

mod http;
mod models;
mod office;
mod orm;
mod techempower;
mod transit;
mod web;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "bench", about = "Measures Marmota beside its peers and a floor")]
struct Cli {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// HTTP servers: plaintext and json, pipelined and not
    Http(http::Args),
    /// Files, TLS, HTTP/2 and WebSockets, compared with nginx and the usual crates
    Web(web::Args),
    /// The TechEmpower server, all lines, on PostgreSQL and SQLite
    Techempower(techempower::Args),
    /// Stores: inserts, reads by id and lists on each engine
    Orm(orm::Args),
    /// Builds: what a model adds to one
    Models(models::Args),
    /// Schedules from CSV: load, memory, CPU and requests, compared with a plain program
    Transit(transit::Args),
    /// Offices from MongoDB, compared with a Node.js server
    Office(office::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().suite {
        Suite::Http(args) => http::run(&args),
        Suite::Web(args) => web::run(&args),
        Suite::Techempower(args) => techempower::run(&args),
        Suite::Orm(args) => orm::run(args),
        Suite::Models(args) => models::run(&args),
        Suite::Transit(args) => transit::run(&args),
        Suite::Office(args) => office::run(&args),
    }
}
