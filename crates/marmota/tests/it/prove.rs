//! `marmota prove`: that it finds nothing wrong, and that a seed repeats a run.

use crate::program::Folder;

#[test]
fn a_seed_repeats_a_run_in_which_nothing_is_lost() {
    let folder = Folder::new();
    let words = ["prove", "--seed", "7", "--seeds", "3", "--clients", "12", "--cuts", "20"];
    let said = folder.run(&words).with(0);
    assert!(said.lines().last().unwrap().ends_with(" assertions passed, 0 failed"), "{said}");
    // Requests that were acknowledged and such of which a client knows nothing; power cuts.
    for seed in ["7", "8", "9"] {
        let of_seed = |line: &&str| line.trim_start().starts_with(&format!("{seed} "));
        let line = said.lines().find(of_seed).unwrap();
        let numbers: Vec<u64> =
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert!(numbers[1] > 400 && numbers[2] > 100 && numbers[5] > 5, "{said}");
    }
    assert_eq!(folder.run(&words).with(0), said);
    let other = folder.run(&["prove", "--seed", "8", "--seeds", "1", "--clients", "12"]).with(0);
    let digest = |said: &str| said.lines().nth(1).unwrap().rsplit(' ').next().unwrap().to_owned();
    assert_ne!(digest(&said), digest(&other));
}

#[test]
fn what_cannot_be_run_is_said() {
    let folder = Folder::new();
    let said = folder.run(&["prove", "--clients", "0"]).with(2);
    assert!(said.contains("--clients") && said.contains("1..=1000"), "{said}");
}
