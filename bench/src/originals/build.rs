//! Builds servers in Pascal with Free Pascal, in folders of their own: checkouts of others are not
//! changed.

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

/// Builds mORMot's TechEmpower server on SQLite; it listens on the port in `PORT`. Without the
/// object files of its releases it uses the system's SQLite, and has no SHA-512, which the
/// server does not need.
pub(super) fn mormot(checkout: &Path) -> Result<PathBuf> {
    let example = checkout.join("ex/techempower-bench/raw.pas");
    ensure!(
        example.is_file(),
        "{}: no such file; MORMOT2_DIR or --mormot2 names the folder of a checkout of \
         https://github.com/synopse/mORMot2",
        example.display()
    );
    let folder = workspace().join("target/peers/mormot2");
    let (source, out) = (folder.join("ex/techempower-bench"), folder.join("out"));
    let objects = folder.join("static/x86_64-linux");
    for folder in [&source, &out, &objects] {
        fs::create_dir_all(folder)?;
    }
    let sources = checkout.join("src");
    run(Command::new("cp").arg("-r").arg(&sources).arg(&folder))?;
    let text = fs::read_to_string(&example)?;
    let with_port = text.replace("'8080', nil", "RawUtf8(GetEnvironmentVariable('PORT')), nil");
    ensure!(with_port != text, "{}: the port 8080 was not found in it", example.display());
    fs::write(source.join("raw.pas"), with_port)?;
    let given = checkout.join("static/x86_64-linux");
    let is_complete = OBJECTS.iter().all(|name| given.join(name).is_file());
    if is_complete {
        run(Command::new("cp").arg("-r").arg(&given).arg(folder.join("static")))?;
    } else {
        make_objects(&objects)?;
    }
    let mut fpc = Command::new("fpc");
    fpc.args(["-O3", "-MObjFPC", "-Sci", "-v0", "-dUSE_SQLITE3", "-dFPC_LIBCMM"]);
    if !is_complete {
        fpc.args(["-dNOSQLITE3STATIC", "-dNOLIBDEFLATESTATIC", "-dNOLIBCSTATIC"]);
    }
    for unit in UNITS {
        let place = folder.join("src").join(unit);
        fpc.arg(format!("-Fu{}", place.display())).arg(format!("-Fi{}", place.display()));
    }
    fpc.arg(format!("-FU{}", out.display())).arg(format!("-FE{}", out.display()));
    run(fpc.arg("raw.pas").current_dir(&source))?;
    Ok(out.join("raw"))
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

/// Builds the TechEmpower server in Pascal on Marmota, with the library in the profile `dist`.
pub(super) fn pascal() -> Result<PathBuf> {
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
    run(fpc.arg("examples/pascal/techempower.pas").current_dir(workspace()))?;
    Ok(out.join("techempower"))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}
