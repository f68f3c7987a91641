//! FerretDB, the server for the tests of MongoDB's protocol. It is built with Go from
//! `crates/mongo/ferretdb` into the user's cache, once for each version.

use std::path::PathBuf;

use crate::step::{Failure, go, root, run};

/// The path in the cache, where the temporary server of the MongoDB engine looks for it.
const PROGRAM: &str = "marmota/ferretdb-1.24.0-logins";

/// Builds the server if it is missing.
pub(crate) fn make() -> Result<(), Failure> {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    let program = cache.join(PROGRAM);
    if program.is_file() || std::env::var_os("MARMOTA_FERRETDB").is_some() {
        return Ok(());
    }
    if let Some(folder) = program.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // An interrupted build must not leave an incomplete program.
    let unfinished = program.with_extension("unfinished");
    let mut build = go()?;
    build.args(["build", "-o"]).arg(&unfinished).arg(".");
    run(build.current_dir(root().join("crates/mongo/ferretdb")))?;
    Ok(std::fs::rename(unfinished, program)?)
}
