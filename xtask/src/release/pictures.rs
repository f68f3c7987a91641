//! `cargo xtask pictures`: the pictures of the guide, from the tests that drive the real pages in
//! Chromium.

use std::fs;

use crate::step::{Failure, cargo, root, run};

/// The screenshots of the tests that the guide shows.
const SHOWN: [&str; 4] = ["grid", "row", "schema-plan", "metrics"];

/// Runs the tests of the pages, and copies their screenshots.
pub(crate) fn make() -> Result<(), Failure> {
    run(cargo().args(["test", "--locked", "--package", "marmota-cli", "--test", "admin"]))?;
    let to = root().join("docs/pictures");
    fs::create_dir_all(&to)?;
    for name in SHOWN {
        let file = format!("{name}.png");
        fs::copy(root().join("target/admin").join(&file), to.join(&file))?;
    }
    Ok(())
}
