//! Errors of the derives (`tests/fail/*.stderr`), and errors of the compiler in code that uses them
//! wrongly (`tests/fail_in_rustc/*.stderr`).

use std::process::Command;

/// The compiler whose messages are in `tests/fail_in_rustc`. They differ between versions.
const RUSTC_OF_SNAPSHOTS: &str = "rustc 1.95.";

#[test]
fn refused_models_say_what_to_write() {
    // Only cases that fail: then the crates are checked, and not compiled again.
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/fail/*.rs");
    let version = Command::new("rustc").arg("--version").output().unwrap().stdout;
    if String::from_utf8_lossy(&version).starts_with(RUSTC_OF_SNAPSHOTS) {
        cases.compile_fail("tests/fail_in_rustc/*.rs");
    } else {
        eprintln!("tests/fail_in_rustc has the messages of {RUSTC_OF_SNAPSHOTS}x: not compared");
    }
}
