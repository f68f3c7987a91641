//! The suite `relations`: the 100 newest issues as JSON, alone and with assignee, labels and the last
//! three comments, from the same PostgreSQL database by Marmota, axum with sqlx, and Django REST
//! framework. Their answers are compared first.

use crate::http::build;
use crate::http::roster::{Role, ServerSpec, Source, workspace};
use crate::http::server::Server;
use crate::http::wrk::Wrk;
use crate::techempower::database::{Database, DatabaseServer};
use crate::techempower::load::LoadRun;
use crate::techempower::table::Figures;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `bench relations`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rounds; the table shows medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Seconds of load in each measured run
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Number of connections
    #[arg(long, default_value_t = 32, value_name = "N")]
    connections: u32,
}

const MARMOTA: &str = "marmota";
const AXUM: &str = "axum, sqlx";
const DJANGO: &str = "Django REST framework";

/// A page: its name in the table, and its path of Marmota and of the peers.
const PAGES: [(&str, &str, &str); 2] = [
    ("100 issues", "/api/issue?limit=100&order=-id", "/issues?limit=100"),
    (
        "100 issues with related rows",
        "/api/issue?limit=100&order=-id&expand=assignee(fields=name),labels(fields=name,order=id),\
         comment(order=-id,limit=3)",
        "/expanded?limit=100",
    ),
];

/// Runs the suite and prints its table.
pub(crate) fn run(args: &Args) -> Result<()> {
    let database = DatabaseServer::start(Database::Postgres)?;
    let url = database.make_database()?;
    let programs = build::all(specs(&url)?, false)?;
    let (_, ours) = &programs[0];
    let filled = Command::new(ours).args(["--db", &url, "--fill"]).status()?;
    ensure!(filled.success(), "the tables could not be filled");
    // Plans that are made without statistics would be a matter of chance.
    let analyzed = Command::new("psql").args([&url, "-qc", "ANALYZE"]).status();
    ensure!(analyzed.context("running psql")?.success(), "the tables could not be analyzed");
    compare(&programs)?;
    let wrk = Wrk::find_or_install(2)?;
    let script = wrk.add_script("page.lua", "")?;
    let mut figures = Figures::default();
    for round in 1..=args.rounds {
        let mut servers = Vec::new();
        for (spec, program) in &programs {
            servers.push((spec, Server::start(spec, program)?));
        }
        for page in PAGES {
            eprintln!("  round {round}: {}", page.0);
            let load = LoadRun {
                wrk: &wrk,
                script: &script,
                connections: args.connections,
                depth: 1,
                seconds: args.seconds,
                database: Some(&database),
            };
            for (spec, server) in &mut servers {
                let figure = load.run(server, path_of(spec, page))?;
                let is_peer = spec.role == Role::Peer;
                figures.add(page.0, args.connections, &spec.name, is_peer, figure);
            }
        }
    }
    println!("medians of {} rounds\n{}", args.rounds, figures.table());
    Ok(())
}

fn specs(url: &str) -> Result<Vec<ServerSpec>> {
    let django = workspace().join("bench/peers/relations/django");
    let folder = django.to_str().context("the peer's path is not UTF-8")?;
    let (gunicorn, database) = (gunicorn(&django)?, format!("DATABASE_URL={url}"));
    let axum = Source::Peer { set: "relations", package: "peer-axum-sqlx" };
    Ok(vec![
        ServerSpec::new(
            MARMOTA,
            Role::Ours,
            Source::Package("bench-issues"),
            &["--db", url, "--port", "{port}"],
            "five models and `rest::api`",
        ),
        ServerSpec::new(AXUM, Role::Peer, axum, &["--port", "{port}", url], "by hand"),
        ServerSpec::new(
            DJANGO,
            Role::Peer,
            Source::Program(gunicorn),
            &[
                "--chdir",
                folder,
                "--env",
                &database,
                "--bind",
                "127.0.0.1:{port}",
                "--workers",
                "2",
                "--threads",
                "8",
                "server:application",
            ],
            "serializers and prefetch_related, by gunicorn",
        ),
    ])
}

/// Returns gunicorn's path in an environment with the packages of `requirements.txt`.
fn gunicorn(django: &Path) -> Result<PathBuf> {
    let folder = workspace().join("target/peers/relations/python");
    let gunicorn = folder.join("bin/gunicorn");
    if !gunicorn.is_file() {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).status();
        ensure!(made.context("running python3")?.success(), "python3 could not make a venv");
        let installed = Command::new(folder.join("bin/pip"))
            .args(["install", "--quiet", "--requirement"])
            .arg(django.join("requirements.txt"))
            .status()?;
        ensure!(installed.success(), "pip could not install the packages of Django");
    }
    Ok(gunicorn)
}

const fn path_of(spec: &ServerSpec, page: (&str, &'static str, &'static str)) -> &'static str {
    match spec.role {
        Role::Ours => page.1,
        _ => page.2,
    }
}

/// Checks that the rows of all servers are equal.
fn compare(programs: &[(ServerSpec, PathBuf)]) -> Result<()> {
    ensure!(programs.len() == 3, "all three programs are needed");
    for page in PAGES {
        let mut rows = Vec::new();
        for (spec, program) in programs {
            let server = Server::start(spec, program)?;
            let url = format!("http://127.0.0.1:{}{}", server.port(), path_of(spec, page));
            let answer =
                ureq::get(&url).call().with_context(|| format!("{} at {url}", spec.name))?;
            let text = answer.into_body().read_to_string()?;
            let mut document: serde_json::Value = serde_json::from_str(&text)?;
            rows.push(document["rows"].take());
            server.stop();
        }
        ensure!(rows[0].as_array().is_some_and(|rows| rows.len() == 100), "{}: rows", page.0);
        for (other, (spec, _)) in rows.iter().zip(programs) {
            ensure!(rows[0] == *other, "{}: the rows of {} differ", page.0, spec.name);
        }
    }
    Ok(())
}
