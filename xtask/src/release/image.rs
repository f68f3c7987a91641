//! The root file system of a container image: the program, the certificates of authorities, a folder for
//! data. It is started without the files of this machine, by unshare(1), as a container would.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::packages::{Package, size};
use crate::step::{Failure, free_port, run, wait_for};

/// The certificates of authorities, for clients of buckets and databases.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

const DOCKERFILE: &str = "\
FROM scratch
ADD marmota-root.tar /
USER 10001:10001
WORKDIR /data
VOLUME /data
ENV MARMOTA_DB=sqlite:/data/marmota.db MARMOTA_LISTEN=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD [\"/usr/bin/marmota\", \"healthcheck\"]
ENTRYPOINT [\"/usr/bin/marmota\"]
CMD [\"serve\", \"--auth\"]
";

/// A server that is killed at the end of the check.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes the file system as `marmota-root.tar`, with a Dockerfile next to it, and starts it.
pub(super) fn make(folder: &Path, program: &Path) -> Result<Package, Failure> {
    let files = folder.join("root");
    for path in ["usr/bin", "etc/ssl/certs", "data", "tmp"] {
        fs::create_dir_all(files.join(path))?;
    }
    // SQLite's temporary files are there.
    fs::set_permissions(files.join("tmp"), Permissions::from_mode(0o1777))?;
    fs::copy(program, files.join("usr/bin/marmota"))?;
    let certificates = Path::new("/").join(CERTIFICATES);
    if !certificates.exists() {
        let certificates = certificates.display();
        return Err(Failure(format!("{certificates} is missing: apt install ca-certificates")));
    }
    fs::copy(&certificates, files.join(CERTIFICATES))?;
    fs::write(files.join("etc/passwd"), "marmota:x:10001:10001::/data:/usr/bin/marmota\n")?;
    fs::write(folder.join("Dockerfile"), DOCKERFILE)?;
    check(&files)?;
    let archive = folder.join("marmota-root.tar");
    // The data belongs to the image's user, everything else to root.
    run(Command::new("tar")
        .args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--create", "--file"])
        .arg(&archive)
        .args(["--exclude=./data", "--directory"])
        .arg(&files)
        .arg("."))?;
    run(Command::new("tar")
        .args(["--mtime=@0", "--owner=10001", "--group=10001", "--append", "--file"])
        .arg(&archive)
        .arg("--directory")
        .arg(&files)
        .arg("./data"))?;
    Ok(Package { bytes: size(&archive)?, path: archive, bytes_max: 35_300_000 })
}

/// Serves from the file system, and runs its health check there.
fn check(files: &Path) -> Result<(), Failure> {
    let inside = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--wd=/data", "--root"]).arg(files);
        command.arg("/usr/bin/marmota").args(words);
        command.env("MARMOTA_DB", "sqlite:/data/marmota.db");
        command
    };
    let address = format!("127.0.0.1:{}", free_port()?);
    let mut serve = inside(&["serve", "--auth", "--listen", &address]);
    let serving = Serving(serve.stdout(Stdio::null()).spawn()?);
    wait_for(&address)?;
    run(inside(&["healthcheck"]).env("MARMOTA_LISTEN", &address))?;
    drop(serving);
    let unhealthy = inside(&["healthcheck"]).env("MARMOTA_LISTEN", &address).output()?;
    if unhealthy.status.success() {
        return Err(Failure("the health check succeeds without a server".to_owned()));
    }
    run(&mut inside(&["version", "--verbose"]))?;
    fs::remove_dir_all(files.join("data"))?;
    fs::create_dir(files.join("data"))?;
    Ok(())
}
