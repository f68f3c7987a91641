//! The Debian package: the program, its unit, settings, manual pages and completions. The static program
//! depends on no other package.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::packages::{Package, size};
use crate::step::{Failure, run};

/// Starts the unit as systemd's presets decide, as `dh_installsystemd` writes it.
const POSTINST: &str = "\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload
    if [ -n \"$2\" ]; then
        systemctl try-restart marmota.service
    fi
fi
";

/// Stops the unit before its program is removed.
const PRERM: &str = "\
#!/bin/sh
set -e
if [ \"$1\" = remove ] && [ -d /run/systemd/system ]; then
    systemctl stop marmota.service
fi
";

const MAINTAINER: &str = "The authors of Marmota <marmota-rs@users.noreply.github.com>";

/// Makes the package, checks it with lintian, and starts the program that it contains.
pub(super) fn make(folder: &Path, program: &Path) -> Result<Package, Failure> {
    let files = folder.join("debian");
    let marmota = |words: &[&str]| -> Result<Vec<u8>, Failure> {
        let output = Command::new(program).args(words).output()?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(Failure(format!("marmota {} failed", words.join(" ")))),
        }
    };
    put(&files, "usr/bin/marmota", &fs::read(program)?, 0o755)?;
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/marmota"),
        ("zsh", "usr/share/zsh/vendor-completions/_marmota"),
        ("fish", "usr/share/fish/vendor_completions.d/marmota.fish"),
    ] {
        put(&files, path, &marmota(&["completions", shell])?, 0o644)?;
    }
    let pages = files.join("usr/share/man/man1");
    marmota(&["man", "--out", &pages.to_string_lossy()])?;
    run(Command::new("gzip").args(["--best", "--no-name", "--recursive"]).arg(&pages))?;
    let deploy = folder.join("deploy");
    marmota(&["deploy-files", "--out", &deploy.to_string_lossy()])?;
    for (from, to) in [
        ("marmota.service", "usr/lib/systemd/system/marmota.service"),
        ("marmota-backup.service", "usr/lib/systemd/system/marmota-backup.service"),
        ("marmota-backup.timer", "usr/lib/systemd/system/marmota-backup.timer"),
        ("marmota.toml", "etc/marmota/marmota.toml"),
        ("nginx.conf", "usr/share/doc/marmota/examples/nginx.conf"),
        ("Caddyfile", "usr/share/doc/marmota/examples/Caddyfile"),
    ] {
        put(&files, to, &fs::read(deploy.join(from))?, 0o644)?;
    }
    let copyright = "Copyright 2026 The authors of Marmota\n\
                     License: MIT or Apache-2.0, at your option; the latter is in \
                     /usr/share/common-licenses/Apache-2.0\n";
    put(&files, "usr/share/doc/marmota/copyright", copyright.as_bytes(), 0o644)?;
    let version = env!("CARGO_PKG_VERSION");
    let date = Command::new("date").arg("--rfc-email").output()?.stdout;
    let changelog = format!(
        "marmota ({version}) unstable; urgency=medium\n\n  * See {}/blob/main/CHANGELOG.md\n\n \
         -- {MAINTAINER}  {}",
        env!("CARGO_PKG_REPOSITORY"),
        String::from_utf8_lossy(&date),
    );
    let path = "usr/share/doc/marmota/changelog";
    put(&files, path, changelog.as_bytes(), 0o644)?;
    run(Command::new("gzip").args(["--best", "--no-name"]).arg(files.join(path)))?;
    let control = format!(
        "Package: marmota\nVersion: {version}\nArchitecture: amd64\nSection: database\n\
         Priority: optional\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {}\nHomepage: {}\n\
         Description: data services with REST, rights and an administration\n \
         Marmota serves the tables of a file as a REST API, on SQLite or PostgreSQL.\n",
        size(program)? / 1024,
        env!("CARGO_PKG_REPOSITORY"),
    );
    put(&files, "DEBIAN/control", control.as_bytes(), 0o644)?;
    put(&files, "DEBIAN/conffiles", b"/etc/marmota/marmota.toml\n", 0o644)?;
    put(&files, "DEBIAN/postinst", POSTINST.as_bytes(), 0o755)?;
    put(&files, "DEBIAN/prerm", PRERM.as_bytes(), 0o755)?;
    let package = folder.join(format!("marmota_{version}_amd64.deb"));
    run(Command::new("dpkg-deb")
        .args(["--root-owner-group", "--build"])
        .arg(&files)
        .arg(&package))?;
    run(Command::new("lintian").args(["--fail-on", "error"]).arg(&package))?;
    let installed = folder.join("installed");
    run(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&installed))?;
    run(Command::new(installed.join("usr/bin/marmota"))
        .args(["config", "check", "--config"])
        .arg(installed.join("etc/marmota/marmota.toml")))?;
    Ok(Package { bytes: size(&package)?, path: package, bytes_max: 20_000_000 })
}

/// Writes a file with these permissions, and its folders.
fn put(files: &Path, path: &str, content: &[u8], mode: u32) -> Result<(), Failure> {
    let path = files.join(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, content)?;
    fs::set_permissions(&path, Permissions::from_mode(mode))?;
    Ok(())
}
