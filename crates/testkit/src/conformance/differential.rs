//! Compares random operations on the memory engine and on the subject: results and errors must be
//! equal after each step.
//!
//! A case is a list of steps, made by `step` and executed by `world`. If the two sides differ,
//! proptest shrinks the list. Cases are made from a constant seed, as many as `BUDGET_S` permits.
//! `MARMOTA_SEED` and `MARMOTA_SECONDS` set another seed and time.

mod step;
mod tables;
mod world;

use std::cell::Cell;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::conformance::harness::subject::Subject;
use marmota_memory::Memory;
use step::{Step, steps};
use world::World;

/// Time for which cases are made, in seconds.
const BUDGET_S: u64 = 20;
const STEPS_MAX: usize = 40;

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Random operations have the same results and errors on the memory engine and on the subject.
pub fn random_operations_agree(fresh: fn() -> Subject) {
    let budget = Duration::from_secs(setting("MARMOTA_SECONDS", BUDGET_S));
    let first_seed = setting("MARMOTA_SEED", 1);
    let (began, mut seed) = (Instant::now(), first_seed);
    let mut executed = 0;
    while began.elapsed() < budget {
        executed += round(fresh, seed, budget);
        seed += 1;
    }
    println!("seeds {first_seed} to {}: {executed} operations without a difference", seed - 1);
    assert!(seed > first_seed, "there was no time for a single round");
}

/// Runs the cases of one seed. Returns the number of their steps.
fn round(fresh: fn() -> Subject, seed: u64, budget: Duration) -> usize {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: 4,
        failure_persistence: None,
        max_shrink_time: budget.as_millis() as u32 * 2,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, random);
    let executed = Cell::new(0);
    let outcome = runner.run(&vec(steps(), 1..STEPS_MAX), |steps| {
        executed.set(executed.get() + steps.len());
        compare(fresh, &steps).map_err(TestCaseError::fail)
    });
    match outcome {
        Ok(()) => executed.get(),
        Err(TestError::Fail(reason, steps)) => panic!(
            "with seed {seed}, the subject differs from the memory engine\n{reason}\n\
             after the steps\n{steps:#?}"
        ),
        Err(TestError::Abort(reason)) => panic!("the cases of seed {seed} ended: {reason}"),
    }
}

/// Executes the steps on both sides. Returns the first difference.
fn compare(fresh: fn() -> Subject, steps: &[Step]) -> Result<(), String> {
    let oracle = Subject::new("oracle", || marmota_store::Store::builder(Memory::new()));
    let subject = fresh();
    let (gives_keys, has_transactions) = {
        let capability = subject.capability();
        (capability.key_gaps, capability.transactions)
    };
    let (mut oracle, mut subject) =
        (World::open(&oracle, gives_keys), World::open(&subject, gives_keys));
    let is_possible = |step: &&Step| has_transactions || !step.needs_transactions();
    for (number, step) in steps.iter().filter(is_possible).enumerate() {
        let (wanted, found) = (oracle.execute(step), subject.execute(step));
        if wanted != found {
            return Err(format!(
                "step {number}, {step:?}\nmemory engine: {wanted}\nsubject:       {found}"
            ));
        }
        if step.is_write() {
            let (wanted, found) = (oracle.contents(), subject.contents());
            if wanted != found {
                return Err(format!(
                    "the rows after step {number}, {step:?}\nmemory engine: {wanted}\n\
                     subject:       {found}"
                ));
            }
        }
    }
    Ok(())
}
