//! The TechEmpower suite. It runs every test of the benchmark on a PostgreSQL or MariaDB server that
//! it starts and on SQLite, with Marmota's three families of routes, and with other servers on the
//! same database.

pub(crate) mod database;
pub(crate) mod load;
pub(crate) mod table;

use crate::http::build;
use crate::http::roster::{Role, ServerSpec, Source, guest};
use anyhow::{Result, ensure};
use database::{Database, DatabaseServer};
use load::{LoadArgs, LoadTest};
use std::path::PathBuf;
use std::process::Command;

/// Options of `bench techempower`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    load: LoadArgs,
    /// Only these servers in addition to Marmota's, by name: xitca, axum, …
    #[arg(long, value_delimiter = ',', value_name = "PEER,…")]
    peers: Option<Vec<String>>,
    /// Another build of `examples/techempower` to run on the same database, as `before=./old
    /// --port {port} --db {db}`; may be repeated
    #[arg(long, value_name = "NAME=COMMAND")]
    also: Vec<String>,
    /// Run every server under the scheduling policy SCHED_BATCH, with chrt
    #[arg(long)]
    batch: bool,
    /// The database server, which all peers use
    #[arg(long, value_enum, default_value = "postgres")]
    database: Database,
    /// Use this server; its tables `world` and `fortune` are replaced. By default, the suite starts
    /// one
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

/// One test: the path of each family, and the path of the peers.
struct Test {
    name: &'static str,
    orm: &'static str,
    direct: Option<&'static str>,
    sql: Option<&'static str>,
    peer: Option<&'static str>,
    /// Requests in flight on one connection.
    depth: u32,
}

impl Test {
    const fn without_database(name: &'static str, path: &'static str, depth: u32) -> Self {
        Self { name, orm: path, direct: None, sql: None, peer: None, depth }
    }

    const fn families(
        name: &'static str,
        paths: [&'static str; 3],
        peer: Option<&'static str>,
    ) -> Self {
        let [orm, direct, sql] = paths;
        Self { name, orm, direct: Some(direct), sql: Some(sql), peer, depth: 1 }
    }
}

impl LoadTest for Test {
    fn name(&self) -> &'static str {
        self.name
    }

    fn depth(&self) -> u32 {
        self.depth
    }
}

/// The tests of the benchmark.
const TESTS: [Test; 9] = [
    Test::without_database("plaintext", "/plaintext", 1),
    Test::without_database("plaintext ×16", "/plaintext", 16),
    Test::without_database("json", "/json", 1),
    Test::families("db", ["/db", "/rawdb", "/asyncdb"], Some("/db")),
    Test::families("queries", ["/queries", "/rawqueries", "/asyncqueries"], Some("/queries")),
    Test::families(
        "queries=20",
        ["/queries?queries=20", "/rawqueries?queries=20", "/asyncqueries?queries=20"],
        Some("/queries?queries=20"),
    ),
    Test::families(
        "cached=100",
        ["/cached-queries?count=100", "/rawcached?count=100", "/asynccached?count=100"],
        None,
    ),
    Test::families(
        "updates=20",
        ["/updates?queries=20", "/rawupdates?queries=20", "/asyncupdates?queries=20"],
        Some("/updates?queries=20"),
    ),
    Test::families("fortunes", ["/fortunes", "/rawfortunes", "/asyncfortunes"], Some("/fortunes")),
];

/// The peers: the database, the name in the table, the package, and arguments.
const PEERS: [(Database, &str, &str, &[&str]); 6] = [
    (Database::Postgres, "xitca, xitca-postgres", "peer-xitca-postgres", &[]),
    (Database::Postgres, "xitca on epoll, xitca-postgres", "peer-xitca-postgres", &["epoll"]),
    (Database::Postgres, "actix, tokio-postgres", "peer-actix-postgres", &[]),
    (Database::Postgres, "axum, tokio-postgres", "peer-axum-postgres", &[]),
    (Database::Mariadb, "axum, mysql_async", "peer-axum-mysql", &["mysql_async"]),
    (Database::Mariadb, "axum, sqlx", "peer-axum-mysql", &["sqlx"]),
];

/// A test of the benchmark.
#[derive(Clone, PartialEq)]
enum Contender {
    /// Marmota on SQLite.
    Sqlite,
    /// Marmota on the database server with default options.
    Server,
    /// The same without batch scheduling.
    BatchOff,
    /// Another build of Marmota with this name.
    Guest(String),
    /// The peer with this name.
    Peer(&'static str),
}

/// Runs the suite and prints its table.
pub(crate) fn run(args: &Args) -> Result<()> {
    let tests = args.load.select(&TESTS)?;
    let own = match args.url {
        Some(_) => None,
        None => Some(DatabaseServer::start(args.database)?),
    };
    let url = match (&args.url, &own) {
        (Some(url), _) => url.clone(),
        (None, Some(own)) => own.make_database()?,
        (None, None) => String::new(),
    };
    let mut programs = build::all(specs(args, &url)?, false)?;
    for (spec, program) in programs.iter().filter(|(spec, _)| spec.role == Role::Ours).take(1) {
        let status = Command::new(program).args(["--db", &url, "--init-db"]).status()?;
        ensure!(status.success(), "{}: the tables could not be filled", spec.name);
    }
    if args.batch {
        programs.iter_mut().for_each(schedule_as_batch);
    }
    let lines = |spec: &ServerSpec, test: &Test| table_rows(args.database, test, &contender(spec));
    let figures = args.load.measure(&programs, &tests, own.as_ref(), lines)?;
    println!("{}", figures.table());
    Ok(())
}

/// Returns the paths that are requested from a server in a test, and their names in the table.
fn table_rows(
    database: Database,
    test: &Test,
    contender: &Contender,
) -> Vec<(String, &'static str)> {
    let name = match contender {
        Contender::Peer(name) => {
            return test.peer.map(|path| ((*name).to_owned(), path)).into_iter().collect();
        }
        Contender::Server => database.name(),
        Contender::BatchOff => "batch off",
        Contender::Sqlite => "SQLite",
        Contender::Guest(name) => name,
    };
    // A route without a database is measured on one server, and on its other builds.
    let needs_no_database = test.direct.is_none();
    if needs_no_database && matches!(contender, Contender::BatchOff | Contender::Sqlite) {
        return Vec::new();
    }
    let families = [("orm", Some(test.orm)), ("direct", test.direct), ("async", test.sql)];
    let line = |(family, path): (&str, Option<_>)| Some((format!("{name} [{family}]"), path?));
    families.into_iter().filter_map(line).collect()
}

const ON_SERVER: &str = "marmota on the database server";
const BATCH_OFF: &str = "marmota on the database server without batch scheduling";

fn specs(args: &Args, url: &str) -> Result<Vec<ServerSpec>> {
    let ours = |name, db| {
        let arguments = ["--port", "{port}", "--db", db];
        ServerSpec::new(name, Role::Ours, Source::Package("techempower"), &arguments, "")
    };
    let is_selected = |name: &str| match &args.peers {
        Some(selected) => selected.iter().any(|prefix| name.starts_with(prefix)),
        None => true,
    };
    let mut batch_off = ours(BATCH_OFF, url);
    batch_off.arguments.extend(["--batch-scheduling", "off"].map(str::to_owned));
    let mut specs = vec![ours(ON_SERVER, url), batch_off];
    let of_database = PEERS.into_iter().filter(|(database, ..)| *database == args.database);
    for (_, name, package, words) in of_database.filter(|(_, name, ..)| is_selected(name)) {
        let source = Source::Peer { set: "http", package };
        // The drivers know the scheme of MySQL only.
        let url = url.replacen("mariadb:", "mysql:", 1);
        let arguments = [&["--port", "{port}", &url], words].concat();
        specs.push(ServerSpec::new(name, Role::Peer, source, &arguments, ""));
    }
    specs.push(ours("marmota on SQLite", "sqlite"));
    for text in &args.also {
        specs.push(guest(&text.replace("{db}", url))?);
    }
    Ok(specs)
}

/// Changes a command so that `chrt` starts it.
fn schedule_as_batch((spec, program): &mut (ServerSpec, PathBuf)) {
    let program = std::mem::replace(program, PathBuf::from("chrt"));
    let before = ["--batch".to_owned(), "0".to_owned(), program.display().to_string()];
    spec.arguments.splice(0..0, before);
}

fn contender(spec: &ServerSpec) -> Contender {
    let peer = PEERS.iter().find(|(_, name, ..)| *name == spec.name);
    match peer {
        Some((_, name, ..)) => Contender::Peer(name),
        None if spec.name == ON_SERVER => Contender::Server,
        None if spec.name == BATCH_OFF => Contender::BatchOff,
        None if spec.role == Role::Guest => Contender::Guest(spec.name.clone()),
        None => Contender::Sqlite,
    }
}
