//! mORMot's TechEmpower server, compared with Marmota's in Rust and in Pascal, all on SQLite.

use super::{build, with_input};
use crate::http::roster::{Role, ServerSpec, Source};
use crate::techempower::load::{LoadArgs, LoadTest};
use anyhow::Result;
use std::path::Path;

/// A test: its path, and the requests in flight on one connection.
struct Test {
    name: &'static str,
    path: &'static str,
    depth: u32,
    /// False if the example in Pascal does not have it.
    in_pascal: bool,
}

impl LoadTest for Test {
    fn name(&self) -> &'static str {
        self.name
    }

    fn depth(&self) -> u32 {
        self.depth
    }
}

const fn test(name: &'static str, path: &'static str) -> Test {
    Test { name, path, depth: 1, in_pascal: true }
}

/// The tests that mORMot's server has on SQLite.
const TESTS: [Test; 9] = [
    test("plaintext", "/plaintext"),
    Test { depth: 16, ..test("plaintext ×16", "/plaintext") },
    test("json", "/json"),
    test("db", "/db"),
    test("queries", "/queries"),
    test("queries=20", "/queries?queries=20"),
    Test { in_pascal: false, ..test("cached=100", "/cached-queries?count=100") },
    test("updates=20", "/updates?queries=20"),
    test("fortunes", "/fortunes"),
];

const IN_PASCAL: &str = "marmota in Pascal, SQLite file";

/// Builds the servers, measures them and prints the table.
pub(super) fn run(load: &LoadArgs, checkout: &Path) -> Result<()> {
    let tests = load.select(&TESTS)?;
    let mormot = build::mormot(checkout, &build::TECHEMPOWER)?;
    let pascal = build::pascal("techempower")?;
    let ours = ServerSpec::new(
        "marmota, SQLite file",
        Role::Ours,
        Source::Package("techempower"),
        &["--port", "{port}", "--db", "sqlite"],
        "",
    );
    let mut programs = crate::http::build::all(vec![ours], false)?;
    programs.push(with_input(
        "mORMot 2, SQLite in memory",
        Role::Peer,
        &format!("PORT={{port}} exec '{}'", mormot.display()),
    ));
    programs.push(with_input(
        IN_PASCAL,
        Role::Ours,
        &format!("exec '{}' sqlite:techempower.db 127.0.0.1:{{port}}", pascal.display()),
    ));
    let lines = |spec: &ServerSpec, test: &Test| match spec.name == IN_PASCAL && !test.in_pascal {
        true => Vec::new(),
        false => vec![(spec.name.clone(), test.path)],
    };
    let figures = load.measure(&programs, &tests, None, lines)?;
    println!("{}", figures.table());
    Ok(())
}
