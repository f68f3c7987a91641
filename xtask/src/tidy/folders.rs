//! Sizes of folders: a reader finds a file by the names of folders, and a listing fits on a screen.

use std::collections::BTreeMap;

/// A folder with more source files directly in it is a fault.
const FOLDER_FILES_MAX: usize = 15;

/// Adds a fault for each source folder with too many `.rs` files directly in it.
pub(super) fn check(files: &[String], faults: &mut Vec<String>) {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files {
        if let Some((folder, _)) = file.rsplit_once('/')
            && is_source(folder)
            && file.ends_with(".rs")
        {
            *folders.entry(folder).or_default() += 1;
        }
    }
    for (folder, count) in folders {
        if count > FOLDER_FILES_MAX {
            faults.push(format!(
                "{folder} has {count} .rs files, more than {FOLDER_FILES_MAX}: group them in folders"
            ));
        }
    }
}

/// Returns true for `src` of a crate, a program or xtask, and the folders below it.
fn is_source(folder: &str) -> bool {
    let mut parts = folder.split('/');
    match parts.next() {
        Some("crates" | "apps" | "bindings") => parts.nth(1) == Some("src"),
        Some("xtask") => parts.next() == Some("src"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{FOLDER_FILES_MAX, check};

    fn faults_of(folder: &str, count: usize) -> Vec<String> {
        let mut files: Vec<String> = (0..count).map(|n| format!("{folder}/file_{n}.rs")).collect();
        // Neither other files nor those of subfolders count.
        files.extend((0..count).map(|n| format!("{folder}/text_{n}.md")));
        files.extend((0..count).map(|n| format!("{folder}/inner_{n}/file.rs")));
        let mut faults = Vec::new();
        check(&files, &mut faults);
        faults
    }

    #[test]
    fn only_large_source_folders_are_faults() {
        for folder in ["crates/a/src", "crates/a/src/b", "apps/a/src", "xtask/src", "xtask/src/b"] {
            assert!(faults_of(folder, FOLDER_FILES_MAX).is_empty(), "{folder}");
            let faults = faults_of(folder, FOLDER_FILES_MAX + 1);
            assert_eq!(faults.len(), 1, "{folder}");
            assert!(faults[0].starts_with(&format!("{folder} has 16 ")), "{faults:?}");
        }
        for folder in ["crates/a/tests/it", "bench/src", "examples/a/src"] {
            assert!(faults_of(folder, FOLDER_FILES_MAX + 1).is_empty(), "{folder}");
        }
    }
}
