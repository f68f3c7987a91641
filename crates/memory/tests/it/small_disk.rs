//! A small file system in memory. Shared with the tests of the SQLite and PostgreSQL engines.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct SmallDisk(pub(crate) PathBuf);

/// Where no file system can be mounted (it takes root), this variable allows
/// the tests that need one to be left out.
const LEFT_OUT: &str = "MARMOTA_TEST_WITHOUT_MOUNT";

impl SmallDisk {
    /// Mounts one; `None` only if [`LEFT_OUT`] is set.
    pub(crate) fn mount(folder: &Path) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
            .arg(folder)
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted && std::env::var_os(LEFT_OUT).is_some() {
            eprintln!("left out by {LEFT_OUT}: no file system can be mounted here");
            return None;
        }
        assert!(mounted, "no file system can be mounted: run as root, or set {LEFT_OUT}=1");
        Some(Self(folder.to_owned()))
    }

    #[allow(dead_code, reason = "not every engine's tests need it")]
    pub(crate) fn make_readonly(&self) {
        let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(&self.0).status();
        assert!(remounted.unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
