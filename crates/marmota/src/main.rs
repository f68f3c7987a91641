//! The `marmota` program: a data service to look at, on a SQLite file of its own.
#![forbid(unsafe_code)]

mod bench;
mod demo;

use std::net::SocketAddr;
use std::process::ExitCode;

use marmota::command::Command;

fn main() -> ExitCode {
    Command::new(demo::models)
        .about("Serves the demonstration models as REST")
        .version(env!("CARGO_PKG_VERSION"))
        .seed(demo::seed)
        .greeting(greeting)
        .subcommand(bench::command(), bench::run)
        .run()
}

fn greeting(address: SocketAddr) -> String {
    format!(
        "Marmota serves http://{address} (Ctrl-C ends it). Try:\n  \
         curl 'http://{address}/api/person?order=year_of_birth&limit=3'\n  \
         curl http://{address}/api/person -d \
         '{{\"first_name\":\"Emmy\",\"last_name\":\"Noether\",\"year_of_birth\":1882}}'\n  \
         curl --get http://{address}/api/person \
         --data-urlencode \"filter=last_name ~ 'cur' and year_of_death > 1930\""
    )
}
