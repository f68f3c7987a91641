//! Every option in the documents exists in the program's help.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Subcommands with their own help.
const SUBCOMMANDS: [&str; 30] = [
    "client ts",
    "serve",
    "migrate",
    "backup",
    "move",
    "restore",
    "promote",
    "job list",
    "job statistics",
    "webhook deliveries",
    "webhook replay",
    "mcp",
    "user list",
    "user add",
    "group list",
    "key add",
    "config show",
    "schema adopt",
    "schema export",
    "doctor",
    "healthcheck",
    "deploy-files",
    "man",
    "version",
    "export",
    "import",
    "bench",
    "bench orm",
    "stress",
    "prove",
];

/// Options of builds with other features (`acme`, `otel`).
const OTHER_FEATURES: [&str; 4] = ["--acme", "--acme-contact", "--acme-folder", "--otlp"];

/// A property of CSS, an option that no help lists, and options of cargo, xtask, curl, chrt, mypy,
/// PostgreSQL's tools, systemctl, useradd, valgrind and of the example `techempower`.
const OTHER_PROGRAMS: [&str; 26] = [
    "--accent",
    "--all-targets",
    "--batch",
    "--compressed",
    "--data-binary",
    "--data-urlencode",
    "--dbname",
    "--example",
    "--features",
    "--file",
    "--format",
    "--get",
    "--http2-prior-knowledge",
    "--locked",
    "--now",
    "--path",
    "--pgbouncer",
    "--profile",
    "--release",
    "--root",
    "--strict",
    "--system",
    "--target",
    "--test",
    "--tool",
    "--version",
];

#[test]
fn options_in_the_documents_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut known: BTreeSet<String> =
        OTHER_FEATURES.into_iter().chain(OTHER_PROGRAMS).map(str::to_owned).collect();
    for subcommand in SUBCOMMANDS {
        let output = Command::new(env!("CARGO_BIN_EXE_marmota"))
            .args(subcommand.split(' '))
            .arg("--help")
            .output()
            .unwrap();
        assert!(output.status.success(), "{subcommand} --help");
        known.extend(options(&String::from_utf8(output.stdout).unwrap()));
    }
    let mut documents = vec![root.join("README.md"), root.join("docs/glossary.md")];
    for entry in std::fs::read_dir(root.join("docs/guide")).unwrap() {
        documents.push(entry.unwrap().path());
    }
    assert!(documents.len() > 30, "the guide has {} pages", documents.len());
    for document in documents {
        for option in options(&std::fs::read_to_string(&document).unwrap()) {
            assert!(known.contains(&option), "{}: no help has {option}", document.display());
        }
    }
}

/// Returns the words that begin with two hyphens.
fn options(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.split(|c| !is_part(c))
        .filter(|word| {
            word.strip_prefix("--")
                .is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
        })
        .map(|word| word.trim_end_matches('-').to_owned())
        .collect()
}
