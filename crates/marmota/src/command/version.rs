//! The version of a program, with its build options, for `--version` and the log.
//!
//! ```text
//! $ people --version
//! people 1.4.0
//! marmota 0.1.0
//! features: sqlite, remote, auth, tls, compression
//! SQLite 3.54.1
//! ```

/// The optional features of the build, in the order of the manifest.
const FEATURES: [(&str, bool); 12] = [
    ("sqlite", cfg!(feature = "sqlite")),
    ("encryption", cfg!(feature = "encryption")),
    ("postgres", cfg!(feature = "postgres")),
    ("mongodb", cfg!(feature = "mongodb")),
    ("remote", cfg!(feature = "remote")),
    ("auth", cfg!(feature = "auth")),
    ("services", cfg!(feature = "services")),
    ("http2", cfg!(feature = "http2")),
    ("tls", cfg!(feature = "tls")),
    ("acme", cfg!(feature = "acme")),
    ("compression", cfg!(feature = "compression")),
    ("otel", cfg!(feature = "otel")),
];

/// Returns the names of the features that this build has, separated by commas.
fn features() -> String {
    let names: Vec<&str> = FEATURES.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    names.join(", ")
}

/// Returns the program's version and, on further lines, its build options.
pub(super) fn long(version: &str) -> String {
    let mut text = format!("{version}\nmarmota {}\nfeatures: {}", marmota_version(), features());
    if let Some(sqlite) = sqlite() {
        text.push_str("\nSQLite ");
        text.push_str(sqlite);
    }
    text
}

/// Returns the same in one line.
pub(super) fn line(version: &str) -> String {
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
#[allow(clippy::unnecessary_wraps, reason = "without the feature there is none")]
fn sqlite() -> Option<&'static str> {
    Some(marmota_sqlite::Sqlite::sqlite_version())
}

#[cfg(not(feature = "sqlite"))]
const fn sqlite() -> Option<&'static str> {
    None
}
