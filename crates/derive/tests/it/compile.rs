//! What is refused, and with which words: tests/fail/*.stderr are the derive's
//! own words, tests/fail_in_rustc/*.stderr are the compiler's, about code that
//! the derive leads it to. What passes that could be thought not to: tests/pass.

use std::process::Command;

/// The compiler whose words are in tests/fail_in_rustc: each version of rustc
/// puts its notes a little differently.
const RUSTC_OF_SNAPSHOTS: &str = "rustc 1.95.";

#[test]
fn refused_models_say_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/pass/*.rs");
    cases.compile_fail("tests/fail/*.rs");
    let version = Command::new("rustc").arg("--version").output().unwrap().stdout;
    if String::from_utf8_lossy(&version).starts_with(RUSTC_OF_SNAPSHOTS) {
        cases.compile_fail("tests/fail_in_rustc/*.rs");
    } else {
        eprintln!(
            "tests/fail_in_rustc holds the words of {RUSTC_OF_SNAPSHOTS}x only: not compared"
        );
    }
}
