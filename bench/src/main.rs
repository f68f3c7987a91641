//! `cargo run --release -p bench -- SUITE` measures Marmota, its peers and a floor in one run, and
//! prints the ratios between them. The suites are http, web, techempower, orm, models, transit,
//! office, originals, feed, jobs, live, relations, replication and scale. `bench/README.md`
//! explains the suites and their tables. The peers are separate programs in `bench/peers` that are
//! built on demand; this program does not depend on them.

mod feed;
mod http;
mod jobs;
mod live;
mod models;
mod office;
mod originals;
mod orm;
mod relations;
mod replication;
mod scale;
mod techempower;
mod transit;
mod web;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "bench", about = "Measures Marmota, its peers and a floor")]
struct Cli {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// HTTP servers: plaintext and JSON, with and without pipelining
    Http(http::Args),
    /// Files, TLS, HTTP/2 and WebSockets, compared with nginx and the usual crates
    Web(web::Args),
    /// The TechEmpower server: all tests, on PostgreSQL and SQLite
    Techempower(techempower::Args),
    /// Stores: inserts, reads by id and lists on each engine
    Orm(orm::Args),
    /// Compile time that a model adds to a build
    Models(models::Args),
    /// Schedules from CSV: load, memory, CPU and requests, compared with a plain program
    Transit(transit::Args),
    /// Offices from MongoDB, compared with a Node.js server
    Office(office::Args),
    /// mORMot 2 from a checkout, compared with Marmota in Rust and in Pascal, on SQLite
    Originals(originals::Args),
    /// The change feed: writes without it and with it
    Feed(feed::Args),
    /// Jobs: how many a second are enqueued and finished, and how long they wait
    Jobs(jobs::Args),
    /// Lists with related rows over REST, compared with axum and Django
    Relations(relations::Args),
    /// Replication: writes without it, with it, and with Litestream; a restore
    Replication(replication::Args),
    /// Live queries: the time to events of many subscribers, compared with PocketBase
    Live(live::Args),
    /// How cost grows with rows, batches, tables, tenants, threads, connections and bodies
    Scale(scale::Args),
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
        Suite::Originals(args) => originals::run(&args),
        Suite::Feed(args) => feed::run(&args),
        Suite::Jobs(args) => jobs::run(&args),
        Suite::Relations(args) => relations::run(&args),
        Suite::Replication(args) => replication::run(&args),
        Suite::Live(args) => live::run(&args),
        Suite::Scale(args) => scale::run(&args),
    }
}
