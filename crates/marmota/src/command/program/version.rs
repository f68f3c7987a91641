//! The version of a program, with its build options, for `version`, `--version` and the log.
//!
//! ```text
//! $ people version --verbose
//! people 1.4.0
//! library: marmota 0.1.0
//! features: sqlite, remote, auth, tls, compression
//! SQLite 3.54.1
//! commit: 5f0c1e7a9d42
//! target: x86_64-linux, gnu
//! ```

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::command::{Command, Done, JsonOutput, own_name};

/// The optional features of the build, in the order of the guide.
const FEATURES: [(&str, bool); 26] = [
    ("sqlite", cfg!(feature = "sqlite")),
    ("encryption", cfg!(feature = "encryption")),
    ("postgres", cfg!(feature = "postgres")),
    ("mariadb", cfg!(feature = "mariadb")),
    ("mongodb", cfg!(feature = "mongodb")),
    ("odbc", cfg!(feature = "odbc")),
    ("remote", cfg!(feature = "remote")),
    ("replication", cfg!(feature = "replication")),
    ("replication-s3", cfg!(feature = "replication-s3")),
    ("auth", cfg!(feature = "auth")),
    ("mail", cfg!(feature = "mail")),
    ("providers", cfg!(feature = "providers")),
    ("jobs", cfg!(feature = "jobs")),
    ("webhooks", cfg!(feature = "webhooks")),
    ("mcp", cfg!(feature = "mcp")),
    ("services", cfg!(feature = "services")),
    ("admin", cfg!(feature = "admin")),
    ("app", cfg!(feature = "app")),
    ("files", cfg!(feature = "files")),
    ("files-s3", cfg!(feature = "files-s3")),
    ("thumbnails", cfg!(feature = "thumbnails")),
    ("http2", cfg!(feature = "http2")),
    ("tls", cfg!(feature = "tls")),
    ("acme", cfg!(feature = "acme")),
    ("compression", cfg!(feature = "compression")),
    ("otel", cfg!(feature = "otel")),
];

/// Prints the version of the program
#[derive(Args)]
pub(in crate::command) struct Version {
    /// Print the version of marmota, the features of the build, the version of SQLite, the commit and
    /// the target too
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    output: JsonOutput,
}

impl Version {
    /// Prints the version.
    pub(in crate::command) fn run(&self, command: &Command) -> Done {
        let version = if command.version.is_empty() { "unknown" } else { command.version };
        let name = own_name();
        self.output.report(
            || {
                json!({
                    "program": name,
                    "version": version,
                    "marmota": marmota_version(),
                    "features": features().split(", ").collect::<Vec<_>>(),
                    "sqlite": sqlite(),
                    "commit": command.commit,
                    "target": target(),
                })
            },
            || match self.verbose {
                true => format!("{name} {}", long(version, command.commit)),
                false => format!("{name} {version}"),
            },
        )?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the target of the build: architecture, system and C library.
fn target() -> String {
    let library = match () {
        () if cfg!(target_env = "gnu") => ", gnu",
        () if cfg!(target_env = "musl") => ", musl",
        () => "",
    };
    format!("{}-{}{library}", std::env::consts::ARCH, std::env::consts::OS)
}

/// Returns the names of the features that this build has, separated by commas.
fn features() -> String {
    let names: Vec<&str> = FEATURES.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    names.join(", ")
}

/// Returns the program's version and, on further lines, its build options.
pub(in crate::command) fn long(version: &str, commit: Option<&str>) -> String {
    let sqlite = sqlite().map(|version| format!("SQLite {version}\n")).unwrap_or_default();
    format!(
        "{version}\nlibrary: marmota {}\nfeatures: {}\n{sqlite}commit: {}\ntarget: {}",
        marmota_version(),
        features(),
        commit.unwrap_or("unknown"),
        target(),
    )
}

/// Returns the same in one line.
pub(in crate::command) fn line(version: &str) -> String {
    let program = if version.is_empty() { String::new() } else { format!("version {version}, ") };
    let sqlite = sqlite().map(|version| format!(", SQLite {version}")).unwrap_or_default();
    format!("{program}marmota {}, features {}{sqlite}", marmota_version(), features())
}

/// Returns the version of this crate, which may differ from that of the program.
const fn marmota_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Returns the version of the SQLite that is compiled in; `None` without the engine.
#[cfg(feature = "sqlite")]
#[allow(clippy::unnecessary_wraps, reason = "a build without the engine has no version")]
fn sqlite() -> Option<&'static str> {
    Some(marmota_sqlite::Sqlite::sqlite_version())
}

#[cfg(not(feature = "sqlite"))]
const fn sqlite() -> Option<&'static str> {
    None
}
