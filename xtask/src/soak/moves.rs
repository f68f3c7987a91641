//! `cargo xtask cluster move`: a server moves from engine to engine while `marmota stress` loads it
//! (`apps/marmota/tests/cluster/moves.rs`), with as many clients as requested.

use crate::step::{Failure, cargo, install_missing, run};

/// The options, with the variables that the test reads.
const OPTIONS: [(&str, &str); 3] = [
    ("--clients", "MARMOTA_CLIENTS"),
    ("--rate", "MARMOTA_RATE"),
    ("--seconds", "MARMOTA_SECONDS"),
];

/// Runs the test with these options: `--clients N`, `--rate N`, `--seconds N`, `--release`.
pub(crate) fn start(options: &[&str]) -> Result<(), Failure> {
    let mut program = cargo();
    program.args(["test", "-p", "marmota-cli", "--test", "cluster", "--locked"]);
    let mut rest = options;
    while !rest.is_empty() {
        rest = match rest {
            ["--release", rest @ ..] => {
                program.arg("--release");
                rest
            }
            [name, number, rest @ ..] if number.parse::<u32>().is_ok_and(|number| number > 0) => {
                let Some((_, variable)) = OPTIONS.iter().find(|(option, _)| option == name) else {
                    return Err(unknown(&[name, number]));
                };
                program.env(variable, number);
                rest
            }
            words => return Err(unknown(words)),
        };
    }
    install_missing(&[("pg_ctlcluster", "postgresql"), ("mariadbd", "mariadb-server")])?;
    program.args(["moves::a_server_moves_to_each_engine", "--", "--ignored", "--nocapture"]);
    run(&mut program)
}

fn unknown(words: &[&str]) -> Failure {
    let message = format!(
        "cluster move: `{}`; write --clients N, --rate N, --seconds N, --release",
        words.join(" ")
    );
    Failure(message)
}
