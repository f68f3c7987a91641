//! The patches of live lists, applied by libraries for JSON Patch (RFC 6902) of npm and PyPI.

use std::process::Command;

use crate::server::Server;
use crate::workshop::{APP, Workshop, tool};

/// The versions; `xtask` installs them.
const NPM: &str = "rfc6902-5.4.0/node_modules/rfc6902/index.js";
const PYPI: &str = "jsonpatch/bin/python";

fn applies_all_patches(program: &str, file: &str, text: &str) {
    let workshop = Workshop::new(APP);
    workshop.write(file, text);
    let server = Server::start(workshop.path());
    let mut program = Command::new(program);
    program.arg(file).env("RFC6902", tool(NPM));
    program.env("SHOP_URL", &server.url).env("SHOP_TOKEN", &server.token);
    assert_eq!(workshop.succeed(&mut program), "done\n");
}

#[test]
fn a_library_of_npm_keeps_a_live_list_up_to_date() {
    applies_all_patches("node", "patches.mjs", include_str!("patches.mjs"));
}

#[test]
fn a_library_of_pypi_keeps_a_live_list_up_to_date() {
    let python = tool(PYPI);
    applies_all_patches(python.to_str().unwrap(), "patches.py", include_str!("patches.py"));
}
