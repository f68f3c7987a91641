//! Building the library, and running programs with a time limit.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds the shared library of this profile, and returns its folder.
///
/// The tests of a package do not link a library that only C can link, so that Cargo need not have
/// built it.
pub(crate) fn library() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let program = std::env::current_exe().expect("the path of the test");
        let folder = program.ancestors().nth(2).expect("the folder of the profile").to_owned();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--package", "marmota-c"]).current_dir(root());
        // Variables of this test would be a reason for build scripts to run again.
        let of_test =
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_", "CARGO_PRIMARY"];
        for (name, _) in std::env::vars_os() {
            if of_test.iter().any(|start| name.to_string_lossy().starts_with(start)) {
                build.env_remove(name);
            }
        }
        if folder.ends_with("release") {
            build.arg("--release");
        }
        if let Some(target) = folder.parent() {
            build.arg("--target-dir").arg(target);
        }
        run(&mut build, Duration::from_secs(580));
        assert!(folder.join("libmarmota.so").exists(), "no library in {}", folder.display());
        folder
    })
}

/// A program that reads and writes in a temporary folder, with the library in its path.
pub(crate) fn program(path: &Path, folder: &Path) -> Command {
    let mut program = Command::new(path);
    program.current_dir(folder).env("LD_LIBRARY_PATH", library());
    program
}

/// Runs a program, and returns its output. It must end with success, within a time.
#[track_caller]
pub(crate) fn run(program: &mut Command, time: Duration) -> String {
    let started = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.unwrap_or_else(|error| panic!("{program:?}: {error}"));
    let (out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let reader = |mut from: Box<dyn std::io::Read + Send>| {
        thread::spawn(move || {
            let mut text = Vec::new();
            let _ = from.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let (out, err) = (reader(Box::new(out)), reader(Box::new(err)));
    let end = Instant::now() + time;
    let status = loop {
        match child.try_wait().expect("the state of a child") {
            Some(status) => break Some(status),
            None if Instant::now() > end => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    assert!(
        status.is_some_and(|status| status.success()),
        "{program:?} ended with {status:?} (none: after {time:?})\n{out}\n{err}"
    );
    out
}

/// Compiles a C program of `tests/c` with options of gcc.
pub(crate) fn compile_c(source: &str, folder: &Path, options: &[&str]) -> PathBuf {
    let (package, program) = (Path::new(env!("CARGO_MANIFEST_DIR")), folder.join("program"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-pthread"]).args(options);
    gcc.arg("-I").arg(package.join("include")).arg(package.join(source));
    gcc.arg("-L").arg(library()).args(["-lmarmota", "-o"]).arg(&program);
    run(&mut gcc, Duration::from_secs(120));
    program
}
