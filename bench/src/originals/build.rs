//! Builds the programs in copies of their folders: checkouts are not changed.

use crate::http::roster::workspace;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders of mORMot's units.
const UNITS: [&str; 11] =
    ["", "app", "core", "crypt", "db", "lib", "misc", "net", "orm", "rest", "soa"];

/// Object files of mORMot's releases, which a checkout does not have.
const OBJECTS: [&str; 2] = ["crc32c64.o", "sha512-x64sse4.o"];

/// A program in a checkout of mORMot.
pub(super) struct MormotProgram {
    /// The source, in the folder `ex`.
    source: &'static str,
    /// Pairs of a text in it and the text that replaces it.
    changes: &'static [(&'static str, &'static str)],
    /// Additional options of the compiler.
    options: &'static [&'static str],
}

/// The port comes from the variable `PORT`.
const PORT: &str = "RawUtf8(GetEnvironmentVariable('PORT')), nil";

/// mORMot's TechEmpower server, on SQLite.
pub(super) const TECHEMPOWER: MormotProgram = MormotProgram {
    source: "techempower-bench/raw.pas",
    changes: &[("'8080', nil", PORT)],
    options: &["-dUSE_SQLITE3"],
};

/// mORMot's benchmark of engines. It has no option for the system's SQLite, and loads it first.
pub(super) const ENGINES: MormotProgram = MormotProgram {
    source: "extdb-bench/PerfTestConsole.dpr",
    changes: &[
        ("mormot.core.log,", "mormot.core.log, mormot.db.raw.sqlite3,"),
        (
            "TTestDatabaseBenchmark.RunAsConsole(",
            "if sqlite3 = nil then \
               sqlite3 := TSqlite3LibraryDynamic.Create(SQLITE_LIBRARY_DEFAULT_NAME); \
             TTestDatabaseBenchmark.RunAsConsole(",
        ),
    ],
    options: &[],
};

/// mORMot's transit server, which reads `../MBTA_GTFS`. It lacks a unit that it needs since a function
/// has moved.
pub(super) const TRANSIT: MormotProgram = MormotProgram {
    source: "lang-cmp/LangCmp.dpr",
    changes: &[
        ("'4000', nil", PORT),
        ("mormot.core.search,", "mormot.core.search, mormot.core.datetime,"),
    ],
    options: &[],
};

/// Builds a program of mORMot in a copy. Without the object files of mORMot's releases it uses the
/// system's SQLite, and has no SHA-512, which the programs do not need.
pub(super) fn mormot(checkout: &Path, program: &MormotProgram) -> Result<PathBuf> {
    let example = checkout.join("ex").join(program.source);
    ensure!(
        example.is_file(),
        "{}: no such file; MORMOT2_DIR or --mormot2 names the folder of a checkout of \
         https://github.com/synopse/mORMot2",
        example.display()
    );
    let folder = workspace().join("target/peers/mormot2");
    let source = folder.join("ex").join(program.source);
    let (own, out) = (source.parent().unwrap_or(&folder), folder.join("out"));
    let objects = folder.join("static/x86_64-linux");
    for folder in [own, &out, &objects] {
        fs::create_dir_all(folder)?;
    }
    let sources = checkout.join("src");
    run(Command::new("cp").arg("-r").arg(&sources).arg(&folder))?;
    if let Some(original) = example.parent() {
        run(Command::new("cp").arg("-r").arg(original).arg(folder.join("ex")))?;
    }
    change(&source, program.changes)?;
    let given = checkout.join("static/x86_64-linux");
    let is_complete = OBJECTS.iter().all(|name| given.join(name).is_file());
    if is_complete {
        run(Command::new("cp").arg("-r").arg(&given).arg(folder.join("static")))?;
    } else {
        make_objects(&objects)?;
    }
    let mut fpc = Command::new("fpc");
    fpc.args(["-O3", "-MObjFPC", "-Sci", "-v0", "-dFPC_LIBCMM"]).args(program.options);
    if !is_complete {
        fpc.args(["-dNOSQLITE3STATIC", "-dNOLIBDEFLATESTATIC", "-dNOLIBCSTATIC"]);
    }
    for unit in UNITS {
        let place = folder.join("src").join(unit);
        fpc.arg(format!("-Fu{}", place.display())).arg(format!("-Fi{}", place.display()));
    }
    fpc.arg(format!("-FU{}", out.display())).arg(format!("-FE{}", out.display()));
    let name = source.file_stem().unwrap_or_default();
    run(fpc.arg(&source).current_dir(own))?;
    Ok(out.join(name))
}

/// Replaces texts in a file. Each has to be there.
fn change(file: &Path, changes: &[(&str, &str)]) -> Result<()> {
    let mut text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    for (old, new) in changes {
        ensure!(text.contains(old), "{}: {old:?} was not found in it", file.display());
        text = text.replace(old, new);
    }
    Ok(fs::write(file, text)?)
}

/// Copies a folder of a checkout to `target/peers/NAME`.
fn copy(checkout: &Path, name: &str) -> Result<PathBuf> {
    let folder = workspace().join("target/peers").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    ensure!(checkout.is_dir(), "{}: no such folder", checkout.display());
    run(Command::new("cp").arg("-r").arg(checkout.join(".")).arg(&folder))?;
    Ok(folder)
}

/// Builds the challenge's entry in Go. Its loops take the positions in the lists of an index in place of
/// the entries; the copy takes the entries.
pub(super) fn transit_in_go(checkout: &Path) -> Result<PathBuf> {
    let folder = copy(&checkout.join("trogsit"), "transit-go")?;
    let changes = [
        ("\":4000\"", "\"127.0.0.1:\" + os.Getenv(\"PORT\")"),
        ("for tripIx := range tripIxs", "for _, tripIx := range tripIxs"),
        ("for stopTimeIx := range stopTimeIxs", "for _, stopTimeIx := range stopTimeIxs"),
    ];
    change(&folder.join("app.go"), &changes)?;
    run(Command::new("go").args(["build", "-o", "transit", "."]).current_dir(&folder))?;
    Ok(folder.join("transit"))
}

/// Builds the challenge's entry in Rust, with the versions of its lock file.
pub(super) fn transit_in_rust(checkout: &Path) -> Result<PathBuf> {
    let folder = copy(&checkout.join("trustit"), "transit-rust")?;
    let port = "\"0.0.0.0:4000\".parse()";
    let from_variable = "format!(\"127.0.0.1:{}\", std::env::var(\"PORT\").unwrap()).parse()";
    change(&folder.join("src/main.rs"), &[(port, from_variable)])?;
    // The copy is in the folder of this workspace, and not one of its packages.
    let manifest = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    fs::write(&manifest, format!("{text}\n[workspace]\n"))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(Command::new(cargo).args(["build", "--release", "--locked"]).current_dir(&folder))?;
    Ok(folder.join("target/release/trustit"))
}

/// Builds the lean server in Pascal. Its unit with the URL of the database is not in its repository.
pub(super) fn lean(checkout: &Path, lnet: &Path, database: &str) -> Result<PathBuf> {
    let folder = copy(checkout, "pascal-web-server")?;
    let port = "server.Listen(StrToInt(GetEnvironmentVariable('PORT')))";
    change(&folder.join("server_ltcp.pas"), &[("server.Listen(3000)", port)])?;
    let url = format!(
        "unit MongoUrl;\ninterface\nconst MONGO_URL = '{database}';\nimplementation\nend.\n"
    );
    fs::write(folder.join("MongoUrl.pas"), url)?;
    let out = folder.join("out");
    fs::create_dir_all(&out)?;
    let lib = lnet.join("lib");
    ensure!(lib.join("lnet.pp").is_file(), "{}: no such file", lib.join("lnet.pp").display());
    let mut fpc = Command::new("fpc");
    fpc.args(["-O3", "-v0"]);
    for place in [&lib, &lib.join("sys")] {
        fpc.arg(format!("-Fu{}", place.display())).arg(format!("-Fi{}", place.display()));
    }
    fpc.arg(format!("-FU{}", out.display())).arg(format!("-FE{}", out.display()));
    run(fpc.arg("server_ltcp.pas").current_dir(&folder))
        .context("the lean server needs libmongoc-dev")?;
    Ok(out.join("server_ltcp"))
}

fn make_objects(folder: &Path) -> Result<()> {
    let [crc, sha] = OBJECTS.map(|name| folder.join(name));
    let compile = |source: &Path, object: &Path| {
        let mut cc = Command::new("cc");
        run(cc.args(["-O2", "-msse4.2", "-c"]).arg(source).arg("-o").arg(object))
    };
    compile(&workspace().join("bench/peers/originals/objects.c"), &crc)?;
    // The linker wants the file.
    let empty = folder.join("empty.c");
    fs::write(&empty, "typedef int nothing;\n")?;
    compile(&empty, &sha)
}

/// Builds the program `marmota` in the profile `dist`.
pub(super) fn marmota() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--profile", "dist", "--package", "marmota-cli"]);
    run(build.current_dir(workspace()))?;
    Ok(workspace().join("target/dist/marmota"))
}

/// Builds one of the examples in Pascal on Marmota, with the library in the profile `dist`.
pub(super) fn pascal(example: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    eprintln!("building libmarmota (the first time takes some minutes)");
    let mut build = Command::new(cargo);
    build.args(["build", "--profile", "dist", "--package", "marmota-c"]);
    run(build.current_dir(workspace()))?;
    let (library, out) = (workspace().join("target/dist"), workspace().join("target/peers/pascal"));
    fs::create_dir_all(&out)?;
    let mut fpc = Command::new("fpc");
    fpc.args(["-O2", "-v0", "-Fubindings/pascal"]);
    fpc.arg(format!("-Fl{}", library.display()));
    fpc.arg(format!("-k-rpath={}", library.display()));
    fpc.arg(format!("-FU{}", out.display())).arg(format!("-FE{}", out.display()));
    run(fpc.arg(format!("examples/pascal/{example}.pas")).current_dir(workspace()))?;
    Ok(out.join(example))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}
