//! The replica set for another program: `cargo xtask soak` compares a service
//! over it with a model.

use std::io::{Read as _, Write as _};

use crate::replica::Replica;
use crate::server;

#[test]
#[ignore = "a process that `cargo xtask soak` starts"]
fn serves_a_replica_set() {
    let replica = Replica::of("8.0", &server().url());
    let mut out = std::io::stdout();
    writeln!(out, "\nserves {}", replica.url()).unwrap();
    out.flush().unwrap();
    // The other program's end closes the pipe.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(replica.breaches(), Vec::<String>::new());
}
