//! Builds the contenders with cargo, each from a separate workspace and lock file, into one target
//! folder next to the main one.

use super::roster::{ContenderSpec, Role, workspace};
use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;
use std::process::Command;

/// Builds every spec whose folder exists. One that does not build is reported and left out, so that the
/// others are still measured.
pub(crate) fn all(specs: Vec<ContenderSpec>) -> Vec<(ContenderSpec, PathBuf)> {
    let mut built: Vec<(ContenderSpec, PathBuf)> = Vec::new();
    for spec in specs {
        match cargo_build(&spec) {
            Ok(binary) => built.push((spec, binary)),
            Err(error) => eprintln!("note: {} is skipped: {error:#}", spec.name),
        }
    }
    if !built.iter().any(|(spec, _)| spec.role == Role::Ours) {
        eprintln!("note: Marmota is not among the contenders, so no target is checked");
    }
    built
}

fn cargo_build(spec: &ContenderSpec) -> Result<PathBuf> {
    ensure!(
        workspace().join(spec.manifest()).exists(),
        "{} does not exist",
        spec.manifest().display()
    );
    let target = target();
    eprintln!("building {} (the first time takes a minute or two)", spec.name);
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--quiet", "--bin", spec.binary])
        // Marmota's lock file follows the crates of the main workspace; those of the peers are
        // fixed.
        .args((spec.role != Role::Ours).then_some("--locked"))
        .arg("--manifest-path")
        .arg(spec.manifest())
        .arg("--target-dir")
        .arg(&target)
        .current_dir(workspace())
        .status()
        .context("starting cargo")?;
    if !status.success() {
        bail!("cargo could not build {}; its messages are above", spec.binary);
    }
    Ok(target.join("release").join(spec.binary).with_extension(std::env::consts::EXE_EXTENSION))
}

fn target() -> PathBuf {
    let main = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => workspace().join(folder),
        None => workspace().join("target"),
    };
    main.join("peers/orm")
}
