//! Sets `MARMOTA_COMMIT`, which `marmota version --verbose` prints: the commit of the source in optimised
//! builds. Other builds have none, because each commit would build the program again. Also an option of
//! the linker for the static program.

use std::process::Command;

fn main() {
    if std::env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("musl") {
        // Relative relocations as bitmaps of a few KB, instead of 24 bytes for each of them.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    println!("cargo::rerun-if-env-changed=MARMOTA_COMMIT");
    let is_optimised = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if std::env::var_os("MARMOTA_COMMIT").is_some() || !is_optimised {
        return;
    }
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=MARMOTA_COMMIT={commit}");
    }
}
