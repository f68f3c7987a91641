//! `marmota prove` finds no fault, and repeats a run with the same seed.

use crate::program::Folder;

#[test]
fn a_seed_repeats_a_run_in_which_nothing_is_lost() {
    let folder = Folder::new();
    let words = ["prove", "--seed", "7", "--seeds", "3", "--clients", "12", "--cuts", "20"];
    let said = folder.run(&words).with(0);
    assert!(said.lines().last().unwrap().ends_with(" assertions passed, 0 failed"), "{said}");
    // Acknowledged requests, requests with unknown results, and power cuts.
    for seed in ["7", "8", "9"] {
        let of_seed = |line: &&str| line.trim_start().starts_with(&format!("{seed} "));
        let line = said.lines().find(of_seed).unwrap();
        let numbers: Vec<u64> =
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert!(numbers[1] > 250 && numbers[2] > 50 && numbers[5] > 5, "{said}");
    }
    assert_eq!(folder.run(&words).with(0), said);
    let other = folder.run(&["prove", "--seed", "8", "--seeds", "1", "--clients", "12"]).with(0);
    let digest = |said: &str| said.lines().nth(1).unwrap().rsplit(' ').next().unwrap().to_owned();
    assert_ne!(digest(&said), digest(&other));
}

/// Runs seeds with a fault in the engine, and returns the reported faults.
fn found_with(fault: &str) -> String {
    let folder = Folder::new();
    folder.run(&["prove", "--seed", "1", "--seeds", "6", "--cuts", "40", "--plant", fault]).with(1)
}

#[test]
fn a_retried_sync_is_found() {
    // Writes acknowledged later are after a gap in the log.
    let found = found_with("retried-sync");
    assert!(found.contains("Done(") && found.contains(": 0 are present"), "{found}");
}

#[test]
fn a_denied_write_that_was_committed_is_found() {
    let found = found_with("denied-write");
    assert!(found.contains("Refused: 1 are present"), "{found}");
}

#[test]
fn invalid_arguments_are_refused() {
    let folder = Folder::new();
    let said = folder.run(&["prove", "--clients", "0"]).with(2);
    assert!(said.contains("--clients") && said.contains("1..=1000"), "{said}");
}
