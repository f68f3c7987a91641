//! `cargo xtask cluster patroni`: the cluster test on servers that Patroni manages
//! (`apps/marmota/tests/cluster/patroni.rs`), for as many rounds as requested.

use crate::step::{Failure, cargo, install_missing, run};

/// Runs the test with these options: `--rounds N`, `--seed S`, `--pgbouncer`.
pub(crate) fn start(options: &[&str]) -> Result<(), Failure> {
    let (mut rounds, mut seed, mut pooler) = ("10", "1", "0");
    let mut rest = options;
    while !rest.is_empty() {
        rest = match rest {
            ["--rounds", number, rest @ ..] if number.parse::<u32>().is_ok() => {
                rounds = number;
                rest
            }
            ["--seed", number, rest @ ..] if number.parse::<u64>().is_ok() => {
                seed = number;
                rest
            }
            ["--pgbouncer", rest @ ..] => {
                pooler = "1";
                rest
            }
            words => {
                let message = format!(
                    "cluster patroni: `{}`; write --rounds N, --seed S, --pgbouncer",
                    words.join(" ")
                );
                return Err(Failure(message));
            }
        };
    }
    install_missing(&[
        ("pgbouncer", "pgbouncer"),
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
    program.env("MARMOTA_ROUNDS", rounds).env("MARMOTA_SEED", seed);
    run(program.env("MARMOTA_PGBOUNCER", pooler))
}
