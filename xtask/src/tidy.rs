//! Checks the structure that ARCHITECTURE.md describes and no lint checks: which crate depends on
//! which, where unsafe code is, that each file begins with its subject, and that no large file is
//! committed. Documents and comments are in plain English, and the names in documents exist.

use std::fs;
use std::path::Path;
use std::process::Command;

mod doc_share;
mod documents;
mod folders;
mod imports;
mod markdown;
mod names;
mod phrases;
mod prose;
mod settings;

use crate::step::{Failure, root};

/// The project's crates that each crate may depend on.
const ARROWS: [(&str, &[&str]); 33] = [
    ("model", &[]),
    ("derive", &[]),
    ("store", &["marmota-model"]),
    ("http", &[]),
    ("admin", &["marmota-http"]),
    ("collections", &["marmota-model"]),
    ("columns", &["marmota-model"]),
    ("memory", &["marmota-model", "marmota-store"]),
    ("sql", &["marmota-model", "marmota-store"]),
    ("sqlite", &["marmota-model", "marmota-store", "marmota-sql"]),
    ("postgres", &["marmota-model", "marmota-store", "marmota-sql"]),
    ("blocking", &["marmota-model", "marmota-store", "marmota-sql"]),
    ("mariadb", &["marmota-model", "marmota-store", "marmota-sql", "marmota-blocking"]),
    ("mongo", &["marmota-model", "marmota-store"]),
    ("odbc", &["marmota-model", "marmota-store", "marmota-blocking"]),
    ("objects", &["marmota-model"]),
    ("replication", &["marmota-model", "marmota-store", "marmota-objects"]),
    ("files", &["marmota-model", "marmota-derive", "marmota-store", "marmota-objects"]),
    ("auth", &["marmota-model", "marmota-derive", "marmota-store"]),
    ("app", &["marmota-model", "marmota-store"]),
    ("client", &["marmota-model"]),
    ("jobs", &["marmota-model", "marmota-derive", "marmota-store"]),
    ("mail", &["marmota-model", "marmota-store", "marmota-auth", "marmota-jobs"]),
    ("providers", &["marmota-model", "marmota-auth"]),
    (
        "webhooks",
        &[
            "marmota-model",
            "marmota-derive",
            "marmota-store",
            "marmota-jobs",
            "marmota-http",
            "marmota-auth",
            "marmota-web",
        ],
    ),
    ("mcp", &["marmota-model", "marmota-http"]),
    ("web", &["marmota-model", "marmota-store", "marmota-http", "marmota-auth"]),
    (
        "rest",
        &[
            "marmota-model",
            "marmota-store",
            "marmota-http",
            "marmota-auth",
            "marmota-web",
            "marmota-files",
        ],
    ),
    ("rpc", &["marmota-model", "marmota-store", "marmota-http"]),
    ("remote", &["marmota-model", "marmota-store", "marmota-http", "marmota-rpc"]),
    (
        "service",
        &[
            "marmota-model",
            "marmota-store",
            "marmota-http",
            "marmota-auth",
            "marmota-web",
            "marmota-rpc",
        ],
    ),
    (
        "testkit",
        &[
            "marmota-model",
            "marmota-derive",
            "marmota-store",
            "marmota-memory",
            "marmota-sqlite",
            "marmota-auth",
            "marmota-jobs",
        ],
    ),
    (
        "marmota",
        &[
            "marmota-model",
            "marmota-derive",
            "marmota-store",
            "marmota-http",
            "marmota-collections",
            "marmota-columns",
            "marmota-memory",
            "marmota-sqlite",
            "marmota-postgres",
            "marmota-replication",
            "marmota-files",
            "marmota-mariadb",
            "marmota-mongo",
            "marmota-odbc",
            "marmota-rest",
            "marmota-admin",
            "marmota-app",
            "marmota-auth",
            "marmota-client",
            "marmota-jobs",
            "marmota-mail",
            "marmota-providers",
            "marmota-webhooks",
            "marmota-mcp",
            "marmota-remote",
            "marmota-service",
        ],
    ),
];

/// The only files and folders of libraries with unsafe code.
const UNSAFE: [&str; 9] = [
    "bindings/c/src/",
    "crates/http/src/reactor/ring.rs",
    "crates/http/src/reactor/ring/",
    "crates/http/src/reactor/portable.rs",
    "crates/http/src/reactor/memory_trimmer.rs",
    "crates/http/src/reactor/thread_policy.rs",
    "crates/mariadb/src/socket.rs",
    "crates/sqlite/src/ffi.rs",
    "crates/sqlite/src/ffi/",
];

const FILE_BYTES_MAX: u64 = 1 << 20;
/// The maximum length of a source file.
const FILE_LINES_MAX: usize = 700;

/// Crates above a crate that its tests may use, with the reason.
const TESTED_WITH: [(&str, &str); 12] = [
    // Its tests serve a database with users.
    ("mcp", "marmota-auth"),
    ("mcp", "marmota-derive"),
    ("mcp", "marmota-memory"),
    ("mcp", "marmota-rest"),
    ("mcp", "marmota-store"),
    // Its tests open a store with the tables of a file.
    ("app", "marmota-memory"),
    // Its promises and examples need an engine and models.
    ("store", "marmota-memory"),
    ("store", "marmota-derive"),
    // The macros' tests compile what the macros generate.
    ("derive", "marmota-store"),
    ("derive", "marmota-service"),
    ("derive", "marmota-jobs"),
    // The guide's page opens a store by its URL.
    ("mongo", "marmota"),
];

const FORBIDDEN_NAMES: [&str; 7] =
    ["util.rs", "utils.rs", "common.rs", "helper.rs", "helpers.rs", "misc.rs", "manager.rs"];

pub(crate) fn check() -> Result<(), Failure> {
    let mut faults = Vec::new();
    check_arrows(&mut faults)?;
    for file in tracked()? {
        check_file(&file, &mut faults)?;
    }
    let files = tracked()?;
    folders::check(&files, &mut faults);
    imports::check(&files, &mut faults)?;
    names::check(&files, &mut faults)?;
    let glossary = fs::read_to_string(root().join("docs/glossary.md"))?;
    let phrases = phrases::Phrases::of_glossary(&glossary)?;
    documents::check(&files, &phrases, &mut faults)?;
    settings::check(&mut faults)?;
    prose::check(&files, &phrases, &mut faults)?;
    doc_share::check(&files, &mut faults)?;
    if faults.is_empty() {
        eprintln!("==> tidy");
        return Ok(());
    }
    Err(Failure(faults.join("\n       ")))
}

fn check_arrows(faults: &mut Vec<String>) -> Result<(), Failure> {
    for (name, allowed) in ARROWS {
        let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml"))?;
        for dependency in dependencies(&manifest, "[dependencies]") {
            if !allowed.contains(&dependency) {
                faults.push(format!("crates/{name} must not depend on {dependency}"));
            }
        }
        let own = format!("marmota-{name}");
        for dependency in dependencies(&manifest, "[dev-dependencies]") {
            let is_above = dependency != own && uses(dependency, &own);
            if is_above && !TESTED_WITH.contains(&(name, dependency)) {
                faults.push(format!("tests of crates/{name} must not use {dependency} above it"));
            }
        }
    }
    Ok(())
}

/// Returns the project's crates in a section of a manifest.
fn dependencies<'m>(manifest: &'m str, section: &str) -> impl Iterator<Item = &'m str> {
    let lines = manifest.split_once(section).map_or("", |(_, rest)| rest);
    let lines = lines.split("\n[").next().unwrap_or_default().lines();
    lines
        .map(|line| line.split([' ', '.', '=']).next().unwrap_or_default())
        .filter(|name| name.starts_with("marmota"))
}

/// Returns true if a crate depends on another, directly or through others.
fn uses(above: &str, below: &str) -> bool {
    let name = above.strip_prefix("marmota-").unwrap_or(above);
    if name == "cli" {
        return true;
    }
    let (_, used) = ARROWS.iter().find(|(arrow, _)| *arrow == name).copied().unwrap_or_default();
    used.iter().any(|one| *one == below || uses(one, below))
}

pub(crate) fn tracked() -> Result<Vec<String>, Failure> {
    let output = Command::new("git").args(["ls-files"]).current_dir(root()).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

fn check_file(file: &str, faults: &mut Vec<String>) -> Result<(), Failure> {
    let path = root().join(file);
    let Ok(metadata) = fs::metadata(&path) else { return Ok(()) };
    if metadata.len() > FILE_BYTES_MAX {
        faults.push(format!("{file} has more than 1 MB"));
    }
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    if is_rust && fs::read_to_string(&path)?.lines().count() > FILE_LINES_MAX {
        faults.push(format!("{file} has more than {FILE_LINES_MAX} lines"));
    }
    let is_library_or_program =
        ["crates/", "apps/", "bindings/"].iter().any(|folder| file.starts_with(folder));
    let is_source = is_library_or_program && file.contains("/src/");
    if !is_source || !is_rust {
        return Ok(());
    }
    let text = fs::read_to_string(&path)?;
    if !text.starts_with("//!") {
        faults.push(format!("{file} does not begin with its subject (`//!`)"));
    }
    let name = Path::new(file).file_name().unwrap_or_default().to_string_lossy();
    if FORBIDDEN_NAMES.contains(&&*name) {
        faults.push(format!("{file} has a name that does not tell its subject"));
    }
    let has_unsafe = text.lines().any(|line| {
        let code = line.trim_start();
        !code.starts_with("//") && (code.contains("unsafe {") || code.contains("unsafe fn"))
    });
    if has_unsafe && !UNSAFE.iter().any(|allowed| file.starts_with(allowed)) {
        faults.push(format!("{file} has unsafe code; only {} may", UNSAFE.join(", ")));
    }
    Ok(())
}
