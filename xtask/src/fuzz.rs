//! Runs the fuzz targets, built by the stable compiler with LLVM's coverage instrumentation like that
//! of `cargo fuzz`, but without the address sanitizer, which needs the nightly compiler. The targets
//! find panics, overflows, hangs and broken assertions.

use std::path::Path;
use std::process::Command;

use crate::parallel;
use crate::step::{Failure, cargo, names_in, root, run};

/// The coverage instrumentation that libFuzzer reads, and the checks of a debug build.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 -Cdebug-assertions=yes -Coverflow-checks=yes";

/// Runs each target for 10 s, as many at once as there are processors, with an empty corpus and a fixed seed, so that a change elsewhere does
/// not fail by a finding that only longer runs should make.
pub(crate) fn check() -> Result<(), Failure> {
    let begun_anew = root().join("target/fuzz/begun-anew");
    if begun_anew.exists() {
        std::fs::remove_dir_all(&begun_anew)?;
    }
    fuzz("10", &begun_anew, &["-seed=1"])
}

/// Runs each target for a number of seconds, on the corpus of earlier runs.
pub(crate) fn search(seconds: &str) -> Result<(), Failure> {
    fuzz(seconds, &root().join("target/fuzz/corpus"), &[])
}

fn fuzz(seconds: &str, corpora: &Path, options: &[&str]) -> Result<(), Failure> {
    let seconds: u32 = seconds.parse().map_err(|_| {
        Failure(format!("`{seconds}` is not a number of seconds; an example: cargo xtask fuzz 600"))
    })?;
    let (folder, triple) = (root().join("target/fuzz"), host()?);
    // With an explicit target, build scripts and macros are built without the flags.
    run(cargo()
        .args(["build", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target"])
        .args([&triple, "--target-dir"])
        .arg(&folder)
        .env("RUSTFLAGS", FLAGS))?;
    let programs = folder.join(&triple).join("release");
    parallel::for_each(names_in("fuzz/fuzz_targets", "rs")?, |target| {
        let (corpus, finds) = (corpora.join(&target), folder.join("finds"));
        std::fs::create_dir_all(&corpus)?;
        std::fs::create_dir_all(&finds)?;
        let mut fuzz = Command::new(programs.join(&target));
        fuzz.arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/{target}-", finds.display()))
            .args(options)
            .args(["-timeout=20", "-verbosity=0", "-print_funcs=0", "-print_final_stats=1"])
            .arg(&corpus);
        let seeds = root().join("fuzz/seeds").join(&target);
        if seeds.is_dir() {
            fuzz.arg(seeds);
        }
        run(&mut fuzz)
    })
}

/// Returns the target triple of this machine.
pub(crate) fn host() -> Result<String, Failure> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let triple = version.lines().find_map(|line| line.strip_prefix("host: "));
    triple.map(str::to_owned).ok_or_else(|| Failure("`rustc -vV` does not print a host".to_owned()))
}
