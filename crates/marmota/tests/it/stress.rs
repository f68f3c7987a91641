//! `marmota stress`: what it prints, how it ends, and that it leaves nothing.

use crate::program::Folder;

fn run(folder: &Folder, words: &str, code: i32) -> String {
    let mut program = folder.program(&words.split(' ').collect::<Vec<_>>());
    let output = program.env("TMPDIR", folder.0.path()).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    let out = out.unwrap() + &err.unwrap();
    assert_eq!(output.status.code(), Some(code), "{out}");
    out
}

#[track_caller]
fn is_empty(folder: &Folder) {
    let left: Vec<_> = std::fs::read_dir(folder.0.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn every_transport_is_tried_and_every_field_compared() {
    let folder = Folder::new();
    let out = run(&folder, "stress --rows 200 --threads 1,4", 0);
    for part in ["in process", "Unix socket", "HTTP", " 0 failed"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    // Rows, each inserted, read back and looked at once more with all others.
    let passed: u64 = out
        .split(" assertions passed")
        .next()
        .unwrap()
        .rsplit('\n')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(passed > 3 * 2 * 200 * 10, "{out}");
    is_empty(&folder);
}

#[test]
fn a_server_that_is_killed_loses_nothing_it_acknowledged() {
    let folder = Folder::new();
    let out = run(&folder, "stress --chaos 3 --threads 4 --seed 7", 0);
    assert!(out.contains("3 rounds, 4 threads: "), "{out}");
    assert!(!out.contains(": 0 rows acknowledged") && out.contains(" 0 failed"), "{out}");
    is_empty(&folder);
}

#[test]
fn what_cannot_be_tried_is_said() {
    let folder = Folder::new();
    for (words, part) in [
        ("stress --server http://127.0.0.1:1/api --rows 1 --threads 1", "127.0.0.1:1"),
        ("stress --server unix:nobody --rows 1 --threads 1", "nobody"),
        ("stress --server http://127.0.0.1:1/api --chaos", "leave --server out"),
        ("stress --db nothing: --rows 1", "nothing"),
    ] {
        let out = run(&folder, words, 1);
        assert!(out.contains(part), "{words}: {out}");
    }
    is_empty(&folder);
}
