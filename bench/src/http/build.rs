//! Builds the servers with cargo: Marmota as a user would build it, and the peers from their own
//! workspace into a separate target folder. The paths of the executables come from cargo's JSON
//! messages.

use super::roster::{Role, ServerSpec, Source, workspace};
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds every spec. One that cannot be built is reported and left out; if none can be built, that is
/// an error.
pub(crate) fn all(specs: Vec<ServerSpec>, native: bool) -> Result<Vec<(ServerSpec, PathBuf)>> {
    let mut built = Vec::new();
    for spec in specs {
        match cargo_build(&spec.source, native) {
            Ok(binary) => built.push((spec, binary)),
            Err(error) => eprintln!("left out: {}: {error:#}", spec.name),
        }
    }
    ensure!(!built.is_empty(), "no server could be built");
    if !built.iter().any(|(spec, _)| spec.role == Role::Ours) {
        eprintln!("note: Marmota is not among the servers");
    }
    Ok(built)
}

fn cargo_build(source: &Source, native: bool) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--message-format=json-render-diagnostics"])
        .current_dir(workspace())
        .stdout(Stdio::piped());
    let mut folder = target();
    // The peers' workspaces set their fastest options in the profile `release`.
    let profile = if matches!(source, Source::Peer { .. }) { "release" } else { "dist" };
    cargo.args(["--profile", profile]);
    let name = match source {
        Source::Package(package) => {
            cargo.args(["--package", package]);
            package
        }
        Source::Example { package, example } => {
            cargo.args(["--package", package, "--example", example]);
            example
        }
        Source::Peer { set, package } => {
            // Some peers require a newer Rust than they need; the lock file has versions that are known to build.
            cargo
                .args(["--locked", "--ignore-rust-version", "--package", package])
                .args(["--manifest-path", &format!("bench/peers/{set}/Cargo.toml")]);
            folder = target().join("peers").join(set);
            package
        }
        Source::Program(path) => return Ok(path.clone()),
    };
    if native {
        // Other flags make other artifacts. A separate folder avoids rebuilding the usual ones.
        cargo.env("RUSTFLAGS", "-C target-cpu=native");
        folder.push("native");
    }
    cargo.arg("--target-dir").arg(folder);
    eprintln!("building {name} (the first time takes a minute or two)");
    run_for_executable(cargo, name)
}

fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => workspace().join(dir),
        None => workspace().join("target"),
    }
}

fn run_for_executable(mut cargo: Command, name: &str) -> Result<PathBuf> {
    let mut child = cargo.spawn().context("starting cargo")?;
    let messages = child.stdout.take().context("cargo's messages")?;
    let mut executable = None;
    for line in BufReader::new(messages).lines() {
        executable = executable_of(&line?, name).or(executable);
    }
    if !child.wait()?.success() {
        bail!("cargo could not build {name}; its messages are above");
    }
    executable.with_context(|| format!("cargo built no executable called {name}"))
}

/// Returns the path of the executable `name` if this cargo message reports it.
fn executable_of(message: &str, name: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["target"]["name"] != name {
        return None;
    }
    message["executable"].as_str().map(|path| Path::new(path).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_read_from_its_artifact_message_only() {
        let artifact = |name: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","target":{{"name":"{name}"}},"executable":"/t/{name}"}}"#
            )
        };
        assert_eq!(executable_of(&artifact("a"), "a"), Some("/t/a".into()));
        assert_eq!(executable_of(&artifact("b"), "a"), None);
        let library = r#"{"reason":"compiler-artifact","target":{"name":"a"},"executable":null}"#;
        assert_eq!(executable_of(library, "a"), None);
        assert_eq!(executable_of("not json", "a"), None);
    }
}
