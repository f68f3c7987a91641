//! C programs under the sanitizers of gcc.

use std::path::Path;
use std::time::Duration;

use crate::support::{compile_c, program, run};

const TIME: Duration = Duration::from_secs(120);

/// Compiles and runs a program; it prints "ok" at its end.
fn passes(source: &str, options: &[&str], arguments: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let compiled = compile_c(source, folder.path(), options);
    let mut program = program(&compiled, folder.path());
    // The library is not compiled for the thread sanitizer: what it does to memory is not checked, and
    // synchronisation inside of it is not known.
    program.args(arguments).env("TSAN_OPTIONS", "ignore_noninstrumented_modules=1");
    let output = run(&mut program, TIME);
    assert!(output.ends_with("ok\n"), "{output}");
}

const ADDRESS: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

#[test]
fn a_program_uses_all_parts_under_the_address_sanitizer() {
    passes("tests/c/all_parts.c", &ADDRESS, &[]);
}

#[test]
fn services_sockets_and_templates_work_under_the_address_sanitizer() {
    passes("tests/c/services.c", &ADDRESS, &[]);
}

#[test]
fn bad_arguments_are_errors_under_the_address_sanitizer() {
    passes("tests/c/bad_arguments.c", &ADDRESS, &["1", "20000"]);
}

#[test]
fn threads_share_a_store_and_a_server_under_the_thread_sanitizer() {
    passes("tests/c/threads.c", &["-fsanitize=thread"], &[]);
}

#[test]
fn the_example_of_the_readme_runs() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/people.c");
    assert!(source.exists());
    passes("examples/people.c", &["-Wno-unused-result"], &["--check"]);
}
