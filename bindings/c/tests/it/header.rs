//! The header is that of the sources, and the library exports the functions in it and no others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::{library, run};

/// Adds the files of a folder and of the folders in it, without those that declare modules: cbindgen
/// would read these modules again.
fn add_sources(folder: &Path, sources: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the sources") {
        let path = entry.expect("a source").path();
        if path.is_dir() {
            add_sources(&path, sources);
        } else if !path.ends_with("lib.rs") && !path.with_extension("").is_dir() {
            sources.push(path);
        }
    }
}

/// Generates the header from the sources.
fn generated() -> String {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(package.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut sources = Vec::new();
    add_sources(&package.join("src"), &mut sources);
    // The order of the header: what others refer to is first.
    let first = ["status.rs", "value.rs", "foreign.rs", "handles.rs", "store.rs", "rows.rs"];
    let place = |path: &Path| first.iter().position(|name| path.ends_with(name)).unwrap_or(9);
    sources.sort_by_key(|path| (place(path), path.clone()));
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(source);
    }
    let mut header = Vec::new();
    builder.generate().expect("a header").write(&mut header);
    String::from_utf8(header).expect("UTF-8")
}

#[test]
fn the_header_is_that_of_the_sources() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/marmota.h");
    let (committed, generated) = (fs::read_to_string(&path).unwrap_or_default(), generated());
    if committed != generated && std::env::var_os("MARMOTA_WRITE_HEADER").is_some() {
        fs::write(&path, generated).expect("write the header");
        return;
    }
    // Without a comparison of texts, which would print both.
    assert!(
        committed == generated,
        "include/marmota.h is not that of the sources: run this test with MARMOTA_WRITE_HEADER=1"
    );
}

/// The names of functions in the header.
fn functions(header: &str) -> Vec<&str> {
    let mut names: Vec<_> = header
        .split("marmota_")
        .skip(1)
        .filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
            rest[end..].starts_with('(').then(|| &rest[..end])
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn the_library_exports_the_functions_of_the_header_only() {
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only"]).arg(library().join("libmarmota.so"));
    let symbols = run(&mut nm, Duration::from_secs(60));
    let mut exported: Vec<_> =
        symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    exported.sort_unstable();
    let header =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include/marmota.h"));
    let header = header.expect("the header");
    let header: String = header.lines().filter(|line| !line.starts_with("//")).collect();
    let expected: Vec<_> =
        functions(&header).iter().map(|name| format!("marmota_{name}")).collect();
    assert_eq!(exported, expected);
}
