//! A folder in which clients are generated, compiled and executed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The tables of the tests.
pub(crate) const APP: &str = include_str!("app.toml");

pub(crate) struct Workshop(TempDir);

impl Workshop {
    /// Creates a folder with these tables.
    pub(crate) fn new(app: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("app.toml"), app).unwrap();
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path().join(name)).unwrap()
    }

    /// Generates a client of the application `shop`.
    pub(crate) fn generate(&self, language: &str, out: &str) {
        let mut program = Command::new(env!("CARGO_BIN_EXE_marmota"));
        self.succeed(program.args(["client", language, "--name", "shop", "--out", out]));
    }

    /// Executes a program in the folder.
    pub(crate) fn execute(&self, command: &mut Command) -> Output {
        command.current_dir(self.path()).output().unwrap()
    }

    /// Executes a program that has to succeed, and returns its standard output.
    #[track_caller]
    pub(crate) fn succeed(&self, command: &mut Command) -> String {
        let output = self.execute(command);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (printed, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{command:?}\n{printed}\n{errors}");
        printed
    }
}

/// Returns the path of a program that `cargo xtask packages` installs.
#[track_caller]
pub(crate) fn tool(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools").join(path);
    assert!(path.exists(), "{} is missing: run `cargo xtask packages`", path.display());
    path
}

/// Changes of [`APP`] that break calls of the round trips, each with a word of the compiler's error.
pub(crate) const BREAKING_CHANGES: [(&str, &str, &str); 6] = [
    // A field gets another name.
    ("stock = {", "quantity = {", "stock"),
    // A value of an enumeration is removed.
    ("\"draft\", \"on_sale\", \"gone\"", "\"draft\", \"offered\", \"gone\"", "on_sale"),
    // A field is required.
    ("weight = { kind = \"float\", nullable = true }", "weight = { kind = \"float\" }", "weight"),
    // A field has another kind.
    ("price = \"currency\"", "price = { kind = \"date\" }", "price"),
    // A relation is removed.
    (
        "category = { kind = \"reference\", table = \"category\", nullable = true }\nposition",
        "position",
        "category",
    ),
    // A field cannot be changed any more.
    (
        "stock = { kind = \"integer\", default = 0 }",
        "stock = { kind = \"integer\", default = 0, immutable = true }",
        "stock",
    ),
];

/// Returns the tables after a change.
#[track_caller]
pub(crate) fn changed(before: &str, after: &str) -> String {
    assert!(APP.contains(before), "{before}");
    APP.replacen(before, after, 1)
}
