//! The lean server in Pascal, compared with the examples on Marmota that have its routes: those that
//! need no database.

use super::{build, with_input};
use crate::http::roster::{Role, ServerSpec, Source};
use crate::techempower::load::{LoadArgs, LoadTest};
use anyhow::{Context, Result};
use marmota_mongo::TemporaryMongo;
use std::path::Path;

/// A route.
struct Route(&'static str);

impl LoadTest for Route {
    fn name(&self) -> &'static str {
        self.0
    }

    fn depth(&self) -> u32 {
        1
    }
}

const ROUTES: [Route; 2] = [Route("hello"), Route("json")];

/// Builds the servers, measures them and prints the table.
pub(super) fn run(load: &LoadArgs, checkout: &Path, lnet: &Path) -> Result<()> {
    let routes = load.select(&ROUTES)?;
    // The examples open their store when they start.
    let database = TemporaryMongo::start().context("starting FerretDB")?;
    let url = database.url();
    let ours = ServerSpec::new(
        "marmota",
        Role::Ours,
        Source::Package("office"),
        &["--db", &url, "--listen", "127.0.0.1:{port}"],
        "",
    );
    let mut programs = crate::http::build::all(vec![ours], false)?;
    let pascal = build::pascal("office")?;
    programs.push(with_input(
        "marmota in Pascal",
        Role::Ours,
        &format!("exec '{}' '{url}' 127.0.0.1:{{port}}", pascal.display()),
    ));
    let lean = build::lean(checkout, lnet, &url)?;
    programs.push(with_input(
        "pascal-web-server",
        Role::Peer,
        &format!("PORT={{port}} exec '{}'", lean.display()),
    ));
    let lines = |spec: &ServerSpec, route: &Route| {
        let path = if route.0 == "hello" { "/hello" } else { "/json" };
        vec![(spec.name.clone(), path)]
    };
    let figures = load.measure(&programs, &routes, None, lines)?;
    println!("{}", figures.table());
    Ok(())
}
