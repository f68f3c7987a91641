//! Resolution of a request's path to an open file, never one outside of the folder.
//!
//! The kernel itself keeps a path inside (`openat2` with `RESOLVE_BENEATH`), even if there are
//! links, or folders are moved at the same time. If it cannot (other systems than Linux), segments
//! are opened one by one and no link is followed.
//!
//! Checking a path as text is not enough for that, but [`relative`] does it first: it refuses names
//! that no file should be served by.

use std::path::Path;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat};

use super::Symlinks;
use crate::proto::percent;

/// The flags for a folder that is opened to open what is in it.
#[cfg(target_os = "linux")]
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// The file or folder at a path, opened.
pub(super) enum OpenedPath {
    File(OwnedFd, Stat),
    Folder(OwnedFd),
}

/// Returns the decoded path below the folder; `None` if no file is served from it: a segment is
/// empty, goes up, is hidden (`.git`) or contains characters that are not allowed.
pub(super) fn relative(path: &str) -> Option<String> {
    let mut relative = String::new();
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Some(relative);
    }
    for part in path.split('/') {
        let part = percent::decode(part.as_bytes());
        let hides = part.starts_with('.') && part != ".well-known";
        if part.is_empty() || hides || part.contains(['/', '\\', '\0', '\u{fffd}']) {
            return None;
        }
        if !relative.is_empty() {
            relative.push('/');
        }
        relative.push_str(&part);
    }
    Some(relative)
}

/// Opens the file or folder at a relative path; `None` if it is missing, cannot be read, or is
/// neither a regular file nor a folder.
pub(super) fn open(folder: &Path, relative: &str, symlinks: Symlinks) -> Option<OpenedPath> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let root = openat(CWD, folder, FOLDER, Mode::empty()).ok()?;
    let path = if relative.is_empty() { "." } else { relative };
    let file = resolve(root, path, flags, symlinks)?;
    let stat = fstat(&file).ok()?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Some(OpenedPath::File(file, stat)),
        FileType::Directory => Some(OpenedPath::Folder(file)),
        // Pipes and devices may block or have side effects.
        _ => None,
    }
}

/// Opens a path by the kernel's resolution.
#[cfg(target_os = "linux")]
fn resolve(root: OwnedFd, path: &str, flags: OFlags, symlinks: Symlinks) -> Option<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    use rustix::io::Errno;
    let resolve = match symlinks {
        Symlinks::Within => ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        Symlinks::Refused => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        Symlinks::Followed => ResolveFlags::NO_MAGICLINKS,
    };
    let opened = match openat2(&root, path, flags, Mode::empty(), resolve) {
        // A rename at the same time makes the result uncertain: a second call usually succeeds.
        Err(Errno::AGAIN) => openat2(&root, path, flags, Mode::empty(), resolve),
        opened => opened,
    };
    match opened {
        Ok(file) => Some(file),
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => by_parts(root, path, flags),
        Err(_) => None,
    }
}

/// Opens a path whose links cannot be checked by the kernel: they are followed only if all are.
#[cfg(not(target_os = "linux"))]
fn resolve(root: OwnedFd, path: &str, flags: OFlags, symlinks: Symlinks) -> Option<OwnedFd> {
    match symlinks {
        Symlinks::Within | Symlinks::Refused => by_parts(root, path, flags),
        Symlinks::Followed => openat(root, path, flags, Mode::empty()).ok(),
    }
}

/// Opens a path segment by segment without following links.
fn by_parts(root: OwnedFd, path: &str, flags: OFlags) -> Option<OwnedFd> {
    let mut at = root;
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        let flags = match parts.peek() {
            Some(_) => FOLDER,
            None => flags,
        };
        at = openat(at.as_fd(), part, flags | OFlags::NOFOLLOW, Mode::empty()).ok()?;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_into_the_folder_are_any() {
        for (path, expected) in [
            ("", Some("")),
            ("a", Some("a")),
            ("a/b.txt", Some("a/b.txt")),
            ("a/", Some("a")),
            ("a%20b/%c3%bc", Some("a b/ü")),
            (".well-known/acme", Some(".well-known/acme")),
            ("..", None),
            ("a/../b", None),
            ("a/%2e%2e/b", None),
            ("%2e%2e%2fb", None),
            ("a%2fb", None),
            ("a\\b", None),
            ("a%5c..%5cb", None),
            ("a//b", None),
            ("//b", None),
            ("./a", None),
            (".git/config", None),
            ("a/.env", None),
            ("a%00.txt", None),
            ("%ff", None),
        ] {
            assert_eq!(relative(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn part_by_part_is_the_same_without_links() {
        let folder = std::env::temp_dir().join(format!("marmota-place-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("a")).unwrap();
        std::fs::write(folder.join("a/b"), "b").unwrap();
        std::os::unix::fs::symlink("a", folder.join("link")).unwrap();
        let root = || openat(CWD, &folder, FOLDER, Mode::empty()).unwrap();
        assert!(by_parts(root(), "a/b", OFlags::RDONLY).is_some());
        assert!(by_parts(root(), "link/b", OFlags::RDONLY).is_none());
        assert!(by_parts(root(), "a/c", OFlags::RDONLY).is_none());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
