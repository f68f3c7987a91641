//! The checks before each commit: formatting, structure, and the lints and unit tests of the packages
//! with uncommitted changes, or of those that the last commit changed.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::step::{Failure, root, run};
use crate::summary::{Outcome, Summary};
use crate::tidy;

/// Runs these checks.
pub(crate) fn check() -> Result<(), Failure> {
    let mut files = listed(&["diff", "--name-only", "HEAD"])?;
    files.extend(listed(&["ls-files", "--others", "--exclude-standard"])?);
    if files.is_empty() {
        files = listed(&["diff", "--name-only", "HEAD~1"])?;
    }
    let packages: BTreeSet<String> = files.iter().filter_map(|file| package_of(file)).collect();
    let mut summary = Summary::new("quick", &[]);
    let passed = |()| Outcome::Passed;
    summary.run("formatting", || run(cargo().args(["fmt", "--all", "--check"])).map(passed));
    summary.run("tidy", || tidy::check().map(passed));
    if packages.is_empty() {
        println!("no package has changed");
        return summary.finish();
    }
    let chosen = || packages.iter().flat_map(|package| ["--package", package]);
    summary.run("lints", || {
        let mut clippy = cargo();
        clippy.arg("clippy").args(chosen()).args(["--all-targets", "--locked"]);
        run(clippy.args(["--", "-D", "warnings"])).map(passed)
    });
    summary.run("unit tests", || unit_tests(&packages).map(passed));
    summary.finish()
}

/// Runs the unit tests of libraries, and of the packages that are programs only.
fn unit_tests(packages: &BTreeSet<String>) -> Result<(), Failure> {
    let libraries = libraries()?;
    for (kind, is_library) in [("--lib", true), ("--bins", false)] {
        let chosen = packages.iter().filter(|name| libraries.contains(*name) == is_library);
        let chosen: Vec<&str> = chosen.flat_map(|name| ["--package", name]).collect();
        if !chosen.is_empty() {
            run(cargo().arg("test").args(chosen).args([kind, "--locked", "--quiet"]))?;
        }
    }
    Ok(())
}

/// Returns the workspace's packages that are libraries.
fn libraries() -> Result<BTreeSet<String>, Failure> {
    let manifests = listed(&["ls-files", "*/Cargo.toml"])?;
    let folders = manifests.iter().filter_map(|manifest| manifest.strip_suffix("Cargo.toml"));
    Ok(folders
        .filter(|folder| root().join(folder).join("src/lib.rs").is_file())
        .filter_map(|folder| package_of(&format!("{folder}Cargo.toml")))
        .collect())
}

/// Returns cargo with incremental builds, unlike [`crate::step::cargo`].
fn cargo() -> Command {
    let mut command = crate::step::cargo();
    command.env_remove("CARGO_INCREMENTAL");
    command
}

/// Returns the files that a git command lists.
fn listed(words: &[&str]) -> Result<Vec<String>, Failure> {
    let output = Command::new("git").args(words).current_dir(root()).output()?;
    if !output.status.success() {
        return Err(Failure(format!("`git {}` failed", words.join(" "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Returns the name of the workspace's package that a file belongs to.
fn package_of(file: &str) -> Option<String> {
    if file.starts_with("bench/peers/") || file.starts_with("fuzz/") {
        return None;
    }
    let mut folder = root().join(file);
    while folder.pop() && folder != root() {
        if let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) {
            let name = manifest.lines().find_map(|line| line.strip_prefix("name = \""))?;
            return Some(name.trim_end_matches('"').to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::package_of;

    #[test]
    fn a_file_belongs_to_the_package_around_it() {
        assert_eq!(package_of("crates/http/src/proto/head.rs").as_deref(), Some("marmota-http"));
        assert_eq!(package_of("apps/marmota/Cargo.toml").as_deref(), Some("marmota-cli"));
        assert_eq!(package_of("README.md"), None);
        assert_eq!(package_of("bench/peers/http/Cargo.toml"), None);
    }
}
