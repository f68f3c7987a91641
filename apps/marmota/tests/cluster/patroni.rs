//! The cluster on three servers that Patroni manages, with etcd and HAProxy: rounds of failures from
//! a seed, each followed by the checks of the clients.

mod database;
mod network;
mod outage;
mod server;

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::thread;
use std::time::{Duration, Instant};

use self::database::Database;
use self::outage::Outage;
use crate::clients::Clients;
use crate::nginx::Nginx;
use crate::programs::Programs;

/// How much later than at the database itself writes may succeed through nginx.
const LATER_MAX: Duration = Duration::from_secs(5);
/// Longer than the lease of the primary, so that another one is elected.
const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_secs(5);

/// What happens in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Switchover,
    /// PostgreSQL of the primary is killed; its Patroni runs.
    KillPrimary,
    /// The server of the primary is killed, and started again after another one took over.
    KillServer,
    /// The server of the primary does not run for longer than its lease; then a watchdog resets it.
    StopPrimary,
    StopStandby,
    StopEtcd,
    /// The network of the primary is cut for longer than its lease.
    CutPrimary,
    CutStandby,
    /// The disk of the primary is full.
    FillDisk,
    KillProgram,
    StopProgram,
}

impl Failure {
    const ALL: [Self; 11] = [
        Self::Switchover,
        Self::KillPrimary,
        Self::KillServer,
        Self::StopPrimary,
        Self::CutPrimary,
        Self::FillDisk,
        Self::StopStandby,
        Self::StopEtcd,
        Self::CutStandby,
        Self::KillProgram,
        Self::StopProgram,
    ];

    /// Returns true if it needs root.
    fn needs_root(self) -> bool {
        matches!(self, Self::CutPrimary | Self::CutStandby | Self::FillDisk)
    }
}

/// Returns the order of the failures for a seed: all of them before the first one comes again.
fn failures(seed: u64, rounds: usize, is_root: bool) -> Vec<Failure> {
    let hash = |round: usize, failure: usize| {
        BuildHasherDefault::<DefaultHasher>::new().hash_one((seed, round, failure))
    };
    let mut all = Vec::new();
    for turn in 0.. {
        let mut order: Vec<usize> = (0..Failure::ALL.len()).collect();
        order.sort_by_key(|&failure| hash(turn, failure));
        let order = order.into_iter().map(|at| Failure::ALL[at]);
        all.extend(order.filter(|failure| is_root || !failure.needs_root()));
        if all.len() >= rounds {
            break;
        }
    }
    all.truncate(rounds);
    all
}

/// Strikes, and heals what was struck.
fn strike(failure: Failure, database: &mut Database, programs: &mut Programs, round: usize) {
    let primary = database.primary().unwrap();
    let standby = (primary + 1 + round % 2) % 3;
    match failure {
        Failure::Switchover => database.switch_over(primary),
        Failure::KillPrimary => database.servers[primary].signal("-KILL", false),
        Failure::KillServer => {
            database.servers[primary].kill();
            wait_for_another(database, primary);
            let Database { servers, network, .. } = database;
            servers[primary].start(network);
        }
        Failure::StopPrimary => {
            let Database { servers, network, .. } = database;
            servers[primary].signal("-STOP", true);
            thread::sleep(LONG);
            // A watchdog resets the machine. PostgreSQL alone would answer as a primary when it runs
            // again. Patroni 3.0.2 alone writes the leader key without comparing it
            // (`_update_leader` for etcd): it takes the lead from the server that was elected, and
            // promotes PostgreSQL without the writes since then.
            servers[primary].kill();
            servers[primary].start(network);
        }
        Failure::StopStandby => pause(SHORT, |is_stopped| {
            database.servers[standby].signal(signal_of(is_stopped), true);
        }),
        Failure::StopEtcd => pause(SHORT, |is_stopped| database.etcd.signal(signal_of(is_stopped))),
        Failure::CutPrimary => pause(LONG, |is_cut| database.network.cut(primary, is_cut)),
        Failure::CutStandby => pause(LONG, |is_cut| database.network.cut(standby, is_cut)),
        Failure::FillDisk => pause(LONG, |is_full| database.servers[primary].fill_disk(is_full)),
        Failure::KillProgram => programs.kill(round),
        Failure::StopProgram => programs.pause(round, Duration::from_secs(1)),
    }
}

const fn signal_of(is_stopped: bool) -> &'static str {
    if is_stopped { "-STOP" } else { "-CONT" }
}

fn pause(time: Duration, set: impl Fn(bool)) {
    set(true);
    thread::sleep(time);
    set(false);
}

/// Waits until another server is the primary. Patroni elects none if the primary failed while the
/// synchronous standby was being replaced; then an operator has to start the primary again.
fn wait_for_another(database: &Database, primary: usize) {
    let begun = Instant::now();
    while database.primary().is_none_or(|now| now == primary) {
        if begun.elapsed() > LONG {
            return eprintln!("no other server took over");
        }
        thread::sleep(Duration::from_millis(200));
    }
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |number| number.parse().unwrap())
}

#[test]
#[ignore = "takes a minute for each round; `cargo xtask cluster patroni` runs it"]
fn patroni() {
    let rounds = usize::try_from(number("MARMOTA_ROUNDS", 10)).unwrap();
    let seed = number("MARMOTA_SEED", 1);
    let mut database = Database::start(number("MARMOTA_PGBOUNCER", 0) == 1);
    let urls = [database.url(), database.url(), database.url_of_proxy()];
    let mut programs = Programs::start(urls.each_ref().map(String::as_str));
    let nginx = Nginx::start(programs.ports());
    let clients = Clients::start(nginx.url());
    let direct = Outage::of_database(&database.url());
    let requests = Outage::of_requests(nginx.url());
    let mut later = Vec::new();
    for (round, failure) in
        failures(seed, rounds, database.network.can_be_cut()).into_iter().enumerate()
    {
        clients.wait_for_success();
        direct.begin();
        requests.begin();
        let begun = Instant::now();
        strike(failure, &mut database, &mut programs, round);
        database.wait_until_complete();
        clients.wait_for_success();
        let (at_database, here) = (direct.since(begun), requests.since(begun));
        eprintln!(
            "round {round} of seed {seed}: {failure:?}: writes at the database after {at_database:.1?}, \
             through nginx after {here:.1?}; complete after {:.1?}",
            begun.elapsed()
        );
        // A program that is killed or stopped takes its own time.
        if !matches!(failure, Failure::KillProgram | Failure::StopProgram)
            && here > at_database + LATER_MAX
        {
            later.push((round, failure, here - at_database));
        }
    }
    drop((direct, requests));
    let results = clients.end();
    eprintln!("{results}");
    results.check(&programs.urls());
    assert!(later.is_empty(), "writes succeeded too late: {later:?}");
}
