//! `marmota prove` finds no fault, repeats a run with the same seed, and finds each planted fault.

use crate::program::Folder;

#[test]
fn a_seed_repeats_a_run_in_which_nothing_is_lost() {
    let folder = Folder::new();
    let run = |words: &[&str]| {
        folder.run(&[&["prove", "--scenario", "writes", "--clients", "12"], words].concat()).with(0)
    };
    let words = ["--seed", "7", "--seeds", "3", "--cuts", "20"];
    let said = run(&words);
    assert!(said.lines().last().unwrap().ends_with(" assertions passed, 0 failed"), "{said}");
    // Acknowledged requests, requests with unknown results, and power cuts.
    for seed in ["7", "8", "9"] {
        let of_seed = |line: &&str| line.trim_start().starts_with(&format!("{seed} "));
        let line = said.lines().find(of_seed).unwrap();
        let numbers: Vec<u64> =
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert!(numbers[1] > 250 && numbers[2] > 50 && numbers[5] > 5, "{said}");
    }
    assert_eq!(run(&words), said);
    let other = run(&["--seed", "8", "--seeds", "1"]);
    let digest = |said: &str| said.lines().nth(1).unwrap().rsplit(' ').next().unwrap().to_owned();
    assert_ne!(digest(&said), digest(&other));
}

/// Runs seeds of a scenario with a fault, and returns the reported faults.
fn found_with(scenario: &str, fault: &str) -> String {
    let folder = Folder::new();
    let words = ["prove", "--scenario", scenario, "--seed", "1", "--plant", fault];
    // The other scenarios end with the first fault of a seed.
    let seeds = if scenario == "writes" { "6" } else { "1" };
    folder.run(&[&words[..], &["--seeds", seeds, "--cuts", "40"]].concat()).with(1)
}

/// Runs seeds of a scenario without a fault, and returns the numbers of each seed's line.
fn proved(scenario: &str) -> Vec<Vec<u64>> {
    let folder = Folder::new();
    let words = ["prove", "--scenario", scenario, "--seeds", "2", "--cuts", "6"];
    let said = folder.run(&words).with(0);
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some(scenario));
    assert!(said.lines().last().unwrap().ends_with(" assertions passed, 0 failed"), "{said}");
    let lines = lines.skip(1).take(2);
    let numbers = |line: &str| line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    lines.map(numbers).collect()
}

#[test]
fn the_feed_has_each_change_once_after_each_restart() {
    for seed in proved("feed") {
        assert!(seed[1] > 20 && seed[3] == 6 && seed[4] > 50, "{seed:?}");
    }
    let found = found_with("feed", "lost-change");
    assert!(found.contains("the feed"), "{found}");
    let found = found_with("feed", "repeated-change");
    assert!(found.contains("the feed"), "{found}");
}

#[test]
fn no_job_is_lost_and_each_effect_is_there_once() {
    for seed in proved("jobs") {
        assert!(seed[1] > 20 && seed[3] == 6 && seed[4] > 50, "{seed:?}");
    }
    let found = found_with("jobs", "early-job");
    assert!(found.contains("is there 0 times"), "{found}");
    let found = found_with("jobs", "repeated-effect");
    assert!(found.contains("is there 2 times"), "{found}");
}

fn a_target_has_what_was_acknowledged(scenario: &str) {
    for seed in proved(scenario) {
        assert!(seed[1] > 20 && seed[3] == 6 && seed[4] > 50, "{seed:?}");
    }
    let found = found_with(scenario, "early-answer");
    assert!(found.contains("acknowledged rows"), "{found}");
    let found = found_with(scenario, "damaged-segment");
    assert!(found.contains("the replica is damaged"), "{found}");
}

#[test]
fn a_target_has_what_was_acknowledged_and_replicas_equal_their_primary() {
    a_target_has_what_was_acknowledged("replication");
    let found = found_with("replication", "skipped-segment");
    assert!(found.contains("the replica has"), "{found}");
}

#[test]
fn the_same_is_true_for_the_memory_engine() {
    a_target_has_what_was_acknowledged("memory-replication");
    // A segment that was left out is noticed, because the log does not continue there.
    let words = ["prove", "--scenario", "memory-replication", "--plant", "skipped-segment"];
    Folder::new().run(&[&words[..], &["--seeds", "1", "--cuts", "6"]].concat()).with(0);
}

#[test]
fn a_retried_sync_is_found() {
    // Writes acknowledged later are after a gap in the log.
    let found = found_with("writes", "retried-sync");
    assert!(found.contains("Done(") && found.contains(": 0 are present"), "{found}");
}

#[test]
fn a_denied_write_that_was_committed_is_found() {
    let found = found_with("writes", "denied-write");
    assert!(found.contains("Refused: 1 are present"), "{found}");
}

#[test]
fn invalid_arguments_are_refused() {
    let folder = Folder::new();
    let said = folder.run(&["prove", "--clients", "0"]).with(2);
    assert!(said.contains("--clients") && said.contains("1..=1000"), "{said}");
}
