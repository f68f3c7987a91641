//! Versity's S3 gateway, the server for the tests of replication to buckets. It is built with Go into
//! the user's cache, once for each version.

use std::path::PathBuf;

use crate::step::{Failure, go, run};

/// The version; `crates/replication/tests/it/bucket.rs` looks for the same.
const VERSION: &str = "1.8.0";

/// Builds the server if it is missing.
pub(crate) fn make() -> Result<(), Failure> {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    let folder = cache.join(format!("marmota/versitygw-{VERSION}"));
    if folder.join("versitygw").is_file() || std::env::var_os("MARMOTA_VERSITYGW").is_some() {
        return Ok(());
    }
    std::fs::create_dir_all(&folder)?;
    let mut build = go()?;
    // The program is put in its place when it is complete.
    build.env("GOBIN", &folder).arg("install");
    run(build.arg(format!("github.com/versity/versitygw/cmd/versitygw@v{VERSION}")))
}
