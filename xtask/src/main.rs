//! The project's commands: `cargo xtask test` runs everything that must pass.
#![forbid(unsafe_code)]

mod deny;
mod ferretdb;
mod fuzz;
mod outsiders;
mod parallel;
mod quick;
mod readme;
mod release;
mod soak;
mod step;
mod summary;
mod tidy;
mod units;
mod versitygw;

use std::process::ExitCode;

use step::{Failure, WORKSPACE, cargo, install_missing, root, run};
use summary::{Outcome, Summary};

const HELP: &str = "\
cargo xtask COMMAND

  test [--allow-not-run NAME]
            everything below, after installing what is missing
  quick     what to run before a commit: formatting, structure, and lints and unit tests of
            the crates that were changed since the last commit
  packages  installs missing packages and programs (apt, Go, npm)
  check     formatting, lints, documentation
  tidy      the structure that ARCHITECTURE.md describes
  deny      licences, duplicate versions and sources of dependencies (cargo-deny)
  units     all tests of the workspace
  encrypted the tests of the feature `encryption`
  http2     h2spec against the server
  tls       sslyze against the server
  openapi   openapi-spec-validator against an OpenAPI document, Schemathesis against the server
  readme    the examples of README and Getting started, each in a new crate
  soak [NAME] [--allow-not-run NAME]
            the long runs, or those whose name starts with NAME; not part of `test`
  cluster patroni [--rounds N] [--seed S] [--pgbouncer]
            failures of each part of a cluster that Patroni manages; root for networks and disks
  cluster move [--clients N] [--rate N] [--seconds N] [--release]
            a server moves between SQLite, PostgreSQL and MariaDB under the load of clients
  package   the static program, an image's files and a Debian package, in target/packages
  pictures  the pictures of the guide, from the tests of the admin pages in Chromium
  site      the documentation as pages with search, in target/site/html, with its links checked
  fuzz [N]  each fuzz target for N seconds (in `test`: 10, with fixed seeds)";

fn main() -> ExitCode {
    match units::record() {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            return ExitCode::FAILURE;
        }
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["test", arguments @ ..] => test(arguments),
        ["quick"] => quick::check(),
        ["packages"] => packages(),
        ["check"] => check(),
        ["deny"] => deny::check(),
        ["tidy"] => tidy::check(),
        ["units"] => units::check(),
        ["encrypted"] => encrypted(),
        ["http2"] => outsiders::http2(),
        ["tls"] => outsiders::tls(),
        ["openapi"] => outsiders::open_api(),
        ["readme"] => readme::check(),
        ["soak", arguments @ ..] => soak::start(arguments),
        ["cluster", "move", options @ ..] => soak::moves::start(options),
        ["cluster", "patroni", options @ ..] => soak::patroni::start(options),
        ["package"] => release::packages(),
        ["pictures"] => release::pictures(),
        ["site"] => release::site(),
        ["fuzz"] => fuzz::check(),
        ["fuzz", seconds] => fuzz::search(seconds),
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

type Step = (&'static str, fn() -> Result<(), Failure>);

/// The steps of `test`, in this order.
const STEPS: [Step; 11] = [
    ("packages", packages),
    ("tidy", tidy::check),
    ("check", check),
    ("deny", deny::check),
    ("units", units::check),
    ("encrypted", encrypted),
    ("http2", outsiders::http2),
    ("tls", outsiders::tls),
    ("openapi", outsiders::open_api),
    ("readme", readme::check),
    ("fuzz", fuzz::check),
];

/// If one of these fails, the steps after it are not run: they would fail for the same reason.
const FIRST: [&str; 3] = ["packages", "tidy", "check"];

fn test(arguments: &[&str]) -> Result<(), Failure> {
    let (allowed, rest) = summary::allowed(arguments)?;
    summary::check_names(&allowed, &STEPS.map(|(name, _)| name))?;
    if let Some(word) = rest.first() {
        return Err(Failure(format!("test: unknown argument {word}")));
    }
    let mut summary = Summary::new("test", &allowed);
    let mut stopped = None;
    for (name, step) in STEPS {
        summary.run(name, || match stopped {
            Some(earlier) => Ok(Outcome::NotRun(format!("{earlier} failed"))),
            None if allowed.contains(&name) => Ok(Outcome::NotRun("by --allow-not-run".into())),
            None => step().map(|()| Outcome::Passed),
        });
        if stopped.is_none() && summary.has_faults() && FIRST.contains(&name) {
            stopped = Some(name);
        }
    }
    summary.finish()
}

/// Installs the programs that the tests need.
fn packages() -> Result<(), Failure> {
    install_missing(&[
        ("cc", "build-essential"),
        ("g++", "g++"),
        ("curl", "curl"),
        ("fpc", "fpc"),
        ("lazbuild", "lcl-utils"),
        ("/usr/lib/lazarus/default/lcl/lclversion.pas", "lazarus-src"),
        // Methods of interfaces in Pascal.
        (&library("libffi.so"), "libffi-dev"),
        ("openssl", "openssl"),
        ("nginx", "nginx-light"),
        ("python3", "python3-venv"),
        // Debian's wrapper comes with the server.
        ("pg_ctlcluster", "postgresql"),
        ("pgbouncer", "pgbouncer"),
        ("mariadbd", "mariadb-server"),
        ("/usr/lib/galera/libgalera_smm.so", "galera-4"),
        ("rsync", "rsync"),
        ("odbcinst", "odbcinst"),
        ("/usr/include/sql.h", "unixodbc-dev"),
        (&library("odbc/libmaodbc.so"), "odbc-mariadb"),
        (&library("odbc/psqlodbcw.so"), "odbc-postgresql"),
        ("chromium", "chromium"),
        ("chromedriver", "chromium-driver"),
        ("npm", "npm"),
    ])?;
    ferretdb::make()?;
    versitygw::make()?;
    outsiders::install_axe()?;
    outsiders::install_open_id_provider()?;
    outsiders::install_client_tools()?;
    outsiders::install_pebble()
}

/// Returns the path of a shared library of Debian.
fn library(file: &str) -> String {
    format!("/usr/lib/{}-linux-gnu/{file}", std::env::consts::ARCH)
}

fn check() -> Result<(), Failure> {
    locks()?;
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo().arg("clippy").args(WORKSPACE).args(["--all-targets", "--", "-D", "warnings"]))?;
    let bare = ["clippy", "--package", "marmota-http", "--no-default-features", "--locked"];
    run(cargo().args(bare).args(["--", "-D", "warnings"]))?;
    run(cargo()
        .arg("doc")
        .args(WORKSPACE)
        .args(["--no-deps", "--quiet"])
        .env("RUSTDOCFLAGS", "-D warnings"))
}

/// Checks that the lock files of the other workspaces fit the manifests of the crates they use.
fn locks() -> Result<(), Failure> {
    let tracked = tidy::tracked()?;
    for folder in tracked.iter().filter_map(|file| file.strip_suffix("/Cargo.lock")) {
        run(cargo()
            .args(["update", "--workspace", "--locked", "--quiet", "--manifest-path"])
            .arg(root().join(folder).join("Cargo.toml")))?;
    }
    Ok(())
}

/// Runs the tests of the feature `encryption`, which compiles another SQLite: all tests of the
/// engines, and the promises of the conformance suite that concern files.
fn encrypted() -> Result<(), Failure> {
    let feature = ["--features", "encryption", "--locked"];
    for engine in ["marmota-memory", "marmota-sqlite"] {
        let lints = ["clippy", "--package", engine, "--all-targets"];
        run(cargo().args(lints).args(feature).args(["--", "-D", "warnings"]))?;
        run(cargo().args(["test", "--package", engine]).args(feature))?;
    }
    let suite = ["test", "--package", "marmota-testkit", "--test", "it"];
    for subject in ["sqlite_encrypted", "memory_encrypted_log"] {
        let promises = ["concurrency", "differential", "durability", "transactions"]
            .map(|module| format!("{subject}::{module}"));
        run(cargo().args(suite).args(feature).arg("--").args(promises))?;
    }
    let replication = ["test", "--package", "marmota-replication", "--test", "it"];
    run(cargo().args(replication).args(feature).args(["--", "encrypted"]))?;
    let guide = ["test", "--package", "marmota", "--doc"];
    run(cargo().args(guide).args(feature).args(["--", "guide::encryption"]))
}
