//! cargo-deny: licences, duplicate versions, and the sources of all dependencies, by the rules of
//! `deny.toml`. It is built under `target/tools` if it is missing there.

use std::process::Command;

use crate::outsiders::tools;
use crate::step::{Failure, cargo, root, run};

const VERSION: &str = "0.20.2";

/// Checks the workspace's dependencies. Advisories are left out: they need a download that changes
/// from day to day (`cargo deny check` includes them).
pub(crate) fn check() -> Result<(), Failure> {
    let program = tools().join("bin/cargo-deny");
    if !program.exists() {
        // A debug build checks in a few seconds, and takes a fraction of the time to build.
        run(cargo()
            .args(["install", "--quiet", "--locked", "--debug", "--no-default-features"])
            .args(["--version", VERSION, "--root"])
            .arg(tools())
            .arg("cargo-deny")
            .env("CARGO_PROFILE_DEV_DEBUG", "none"))?;
    }
    let rules = ["bans", "licenses", "sources"];
    run(Command::new(program)
        .args(["--locked", "check", "--hide-inclusion-graph"])
        .args(rules)
        .current_dir(root()))
}
