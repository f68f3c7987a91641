//! Builds the contenders by cargo, each from its own workspace and lock file,
//! all into one target folder beside the main one.

use super::roster::{ContenderSpec, Role, workspace};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// Builds every spec whose folder is there.
pub(crate) fn all(specs: Vec<ContenderSpec>) -> Result<Vec<(ContenderSpec, PathBuf)>> {
    if !specs.iter().any(|spec| spec.role == Role::Ours) {
        eprintln!("note: Marmota is not among the contenders, so no aim is checked");
    }
    let mut built: Vec<(ContenderSpec, PathBuf)> = Vec::new();
    for spec in specs {
        if !workspace().join(spec.manifest()).exists() {
            eprintln!("note: {} is left out, {} is absent", spec.name, spec.manifest().display());
            continue;
        }
        let binary = cargo_build(&spec).with_context(|| format!("building {}", spec.name))?;
        built.push((spec, binary));
    }
    Ok(built)
}

fn cargo_build(spec: &ContenderSpec) -> Result<PathBuf> {
    let target = target();
    eprintln!("building {} (the first time takes a minute or two)", spec.name);
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--quiet", "--bin", spec.binary])
        // Our own lock file follows the crates of the main workspace, the peers' are fixed.
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
