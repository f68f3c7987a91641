//! Marmota next to the program that its TechEmpower server is modelled on: mORMot 2, built from a
//! checkout that the user names, and the same routes in Pascal on Marmota. All on SQLite.

mod build;

use crate::http::roster::{Role, ServerSpec, Source};
use crate::techempower::load::{LoadArgs, LoadTest};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Options of `bench originals`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of a checkout of <https://github.com/synopse/mORMot2>. Default: the variable
    /// MORMOT2_DIR
    #[arg(long, value_name = "DIR")]
    mormot2: Option<PathBuf>,
    #[command(flatten)]
    load: LoadArgs,
}

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
pub(crate) fn run(args: &Args) -> Result<()> {
    let tests = args.load.select(&TESTS)?;
    let checkout = args.mormot2.clone().or_else(|| std::env::var_os("MORMOT2_DIR").map(Into::into));
    let checkout = checkout.context(
        "no mORMot 2: set MORMOT2_DIR, or --mormot2, to the folder of a checkout of \
         https://github.com/synopse/mORMot2",
    )?;
    let mormot = build::mormot(&checkout)?;
    let pascal = build::pascal()?;
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
    let figures = args.load.measure(&programs, &tests, None, lines)?;
    println!("{}", figures.table());
    Ok(())
}

/// A server that ends when its input does: it gets an input without an end.
fn with_input(name: &str, role: Role, command: &str) -> (ServerSpec, PathBuf) {
    let command = format!("mkfifo input && exec 3<>input && {command} <&3");
    let shell = Path::new("/bin/sh");
    let source = Source::Program(shell.to_owned());
    (ServerSpec::new(name, role, source, &["-c", &command], ""), shell.to_owned())
}
