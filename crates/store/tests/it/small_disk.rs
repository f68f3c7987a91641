//! A small file system in memory, where the tests may make one. Shared with those of the SQLite
//! engine.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct SmallDisk(pub(crate) PathBuf);

impl SmallDisk {
    pub(crate) fn mount(folder: &Path) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
            .arg(folder)
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then(|| Self(folder.to_owned()))
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
