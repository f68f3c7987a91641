//! The `marmota` program: a demo data service with its own SQLite file.
#![forbid(unsafe_code)]

mod bench;
mod demo;
mod prove;
mod stress;

use std::process::ExitCode;

use marmota::command::Command;

/// Allocates memory for the static program, because musl's allocator has one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Command::new(demo::models)
        .about("Serves the tables of app.toml as REST, or a demonstration without that file")
        .version(env!("CARGO_PKG_VERSION"))
        .commit(option_env!("MARMOTA_COMMIT"))
        .seed(demo::seed)
        .application_files("app.toml", "marmota.toml")
        .greeting(greeting)
        .subcommand(bench::command(), bench::run)
        .subcommand(stress::command(), stress::run)
        .subcommand(prove::command(), prove::run)
        .run()
}

fn greeting(url: &str) -> String {
    format!(
        "Marmota serves {url} (Ctrl-C ends it). Try:\n  \
         curl '{url}/api/person?order=year_of_birth&limit=3'\n  \
         curl {url}/api/person -d \
         '{{\"first_name\":\"Emmy\",\"last_name\":\"Noether\",\"year_of_birth\":1882}}'\n  \
         curl --get {url}/api/person \
         --data-urlencode \"filter=last_name ~ 'cur' and year_of_death > 1930\""
    )
}
