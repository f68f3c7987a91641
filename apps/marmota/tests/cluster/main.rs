//! Three programs behind nginx, on a PostgreSQL primary with a standby: parts of the cluster are
//! killed, paused, restarted and replaced while clients write and read.
//!
//! Nothing acknowledged is lost or done twice, a read with `Marmota-After` is never stale, and each
//! failure has one of the documented statuses.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod clients;
mod moves;
mod nginx;
mod patroni;
mod process;
mod programs;

use std::thread;
use std::time::{Duration, Instant};

use marmota_postgres::TemporaryPostgres;

use clients::Clients;
use nginx::Nginx;
use programs::Programs;

/// The parts of the cluster. The primary and the standby change their roles.
struct Cluster {
    primary: TemporaryPostgres,
    standby: TemporaryPostgres,
    programs: Programs,
    nginx: Nginx,
}

/// What happens to a part of the cluster.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A program is killed and started again.
    Kill,
    /// A program does not run for a second.
    Pause,
    /// The primary ends like in a crash, the standby takes over, and the old primary returns as its
    /// standby.
    Failover,
    /// All programs are stopped and started again, one after another, as in an upgrade.
    Restart,
    /// The primary closes all connections.
    Disconnect,
}

impl Fault {
    const ALL: [Self; 5] =
        [Self::Kill, Self::Failover, Self::Pause, Self::Disconnect, Self::Restart];
}

impl Cluster {
    fn start() -> Self {
        let primary = TemporaryPostgres::start(&[]).unwrap();
        let url = primary.make_database().unwrap();
        let database = url.rsplit('/').next().unwrap();
        let standby = primary.start_standby().unwrap();
        let url = primary.url_with(&standby, database);
        let programs = Programs::start([&url; 3]);
        let nginx = Nginx::start(programs.ports());
        Self { primary, standby, programs, nginx }
    }

    fn strike(&mut self, fault: Fault, number: usize) {
        match fault {
            Fault::Kill => self.programs.kill(number),
            Fault::Pause => self.programs.pause(number, Duration::from_secs(1)),
            Fault::Restart => self.programs.restart_each(),
            Fault::Disconnect => self.primary.disconnect_all().unwrap(),
            Fault::Failover => {
                self.primary.crash();
                self.standby.promote().unwrap();
                std::mem::swap(&mut self.primary, &mut self.standby);
                self.standby.follow(&self.primary).unwrap();
            }
        }
    }
}

/// Strikes as often, each time after the clients have succeeded again.
fn endure(faults: usize) {
    let mut cluster = Cluster::start();
    let clients = Clients::start(cluster.nginx.url());
    for number in 0..faults {
        let fault = Fault::ALL[number % Fault::ALL.len()];
        clients.wait_for_success();
        let begun = Instant::now();
        cluster.strike(fault, number);
        let struck = begun.elapsed();
        clients.wait_for_success();
        let back = begun.elapsed();
        eprintln!("{number}: {fault:?} took {struck:.1?}; all clients succeeded after {back:.1?}");
        thread::sleep(Duration::from_millis(300));
    }
    let results = clients.end();
    eprintln!("{results}");
    results.check(&cluster.programs.urls());
}

#[test]
fn a_cluster_endures_the_failure_of_each_part() {
    endure(Fault::ALL.len());
}

#[test]
#[ignore = "takes 3 to 20 minutes; `cargo xtask soak cluster` runs it"]
fn a_cluster_endures_100_failures() {
    endure(100);
}
