//! `cargo xtask package`: the program as a static binary, as the root file system of an image, and as a
//! Debian package, each started once, with a table of their sizes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{debian, image};
use crate::step::{Failure, cargo, install_missing, root, run};

/// The target of the static binary.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// A file that is made, and the size that it must not exceed.
pub(super) struct Package {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) bytes_max: u64,
}

/// The size that the program must not exceed. The goal is 20 MB; docs/design/063-operations.md has what
/// the program consists of.
const PROGRAM_BYTES_MAX: u64 = 35_000_000;

/// Makes all packages in `target/packages`.
pub(crate) fn make() -> Result<(), Failure> {
    install_missing(&[
        ("musl-gcc", "musl-tools"),
        ("dpkg-deb", "dpkg"),
        ("lintian", "lintian"),
        ("unshare", "util-linux"),
    ])?;
    add_target()?;
    let built = build()?;
    let folder = root().join("target/packages");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let program = folder.join("marmota");
    fs::copy(&built, &program)?;
    let packages = [
        Package { bytes: size(&program)?, path: program.clone(), bytes_max: PROGRAM_BYTES_MAX },
        image::make(&folder, &program)?,
        debian::make(&folder, &program)?,
    ];
    println!("{:<40} {:>10} {:>10}", "package", "bytes", "at most");
    for Package { path, bytes, bytes_max } in &packages {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        println!("{name:<40} {bytes:>10} {bytes_max:>10}");
    }
    match packages.iter().find(|package| package.bytes > package.bytes_max) {
        None => Ok(()),
        Some(Package { path, bytes, bytes_max }) => {
            let path = path.display();
            Err(Failure(format!("{path} has {bytes} bytes, more than {bytes_max}")))
        }
    }
}

/// Installs the standard library of the target, if rustup knows it is missing.
fn add_target() -> Result<(), Failure> {
    let rustc =
        Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output()?;
    let folder = String::from_utf8_lossy(&rustc.stdout).trim().to_owned();
    if Path::new(&folder).is_dir() {
        return Ok(());
    }
    run(Command::new("rustup").args(["target", "add", TARGET]))
}

/// Builds the program; returns its path.
fn build() -> Result<PathBuf, Failure> {
    run(cargo()
        .args(["build", "--profile", "shipped", "--locked", "--package", "marmota-cli"])
        .args(["--target", TARGET])
        .env("CC_x86_64_unknown_linux_musl", "musl-gcc")
        // No panic unwinds through C.
        .env(
            "CFLAGS_x86_64_unknown_linux_musl",
            "-fno-asynchronous-unwind-tables -fno-unwind-tables",
        ))?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    Ok(root().join(target).join(TARGET).join("shipped/marmota"))
}

/// Returns the size of a file.
pub(super) fn size(path: &Path) -> Result<u64, Failure> {
    Ok(fs::metadata(path)?.len())
}
