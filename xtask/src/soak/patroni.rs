//! `cargo xtask cluster patroni`: the cluster test on servers that Patroni manages
//! (`apps/marmota/tests/cluster/patroni.rs`), for as many rounds as requested.

use crate::step::{Failure, cargo, install_missing, run};

/// Runs the test with these options: `--rounds N`, `--seed S`.
pub(crate) fn start(options: &[&str]) -> Result<(), Failure> {
    let (mut rounds, mut seed) = ("10", "1");
    for pair in options.chunks(2) {
        match pair {
            ["--rounds", number] if number.parse::<u32>().is_ok() => rounds = number,
            ["--seed", number] if number.parse::<u64>().is_ok() => seed = number,
            _ => {
                let words = pair.join(" ");
                let message = format!("cluster patroni: `{words}`; write --rounds N, --seed S");
                return Err(Failure(message));
            }
        }
    }
    install_missing(&[
        ("patroni", "patroni"),
        ("etcd", "etcd-server"),
        ("haproxy", "haproxy"),
        ("ip", "iproute2"),
        ("nginx", "nginx-light"),
        ("pg_ctlcluster", "postgresql"),
    ])?;
    let test = ["test", "-p", "marmota-cli", "--test", "cluster", "--locked", "patroni"];
    let mut program = cargo();
    program.args(test).args(["--", "--ignored", "--nocapture"]);
    run(program.env("MARMOTA_ROUNDS", rounds).env("MARMOTA_SEED", seed))
}
