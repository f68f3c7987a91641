//! The networks of the database servers. As root, each server runs in a network namespace of its own,
//! connected by a bridge, so that it can be cut off. Otherwise all servers use 127.0.0.1.

use std::process::Command;

use crate::process::{free_port, run};

/// A network with an address for each server.
pub(super) struct Network {
    /// The part of the names that no other process uses; `None` without root.
    name: Option<String>,
    /// The first three numbers of the addresses.
    prefix: String,
    servers: usize,
}

impl Network {
    /// Creates the network for this many servers.
    pub(super) fn create(servers: usize) -> Self {
        let process = std::process::id();
        if !is_root() {
            eprintln!("without root: no network is cut, and no disk is full");
            return Self { name: None, prefix: String::new(), servers };
        }
        let name = format!("mm{process}");
        let prefix = format!("10.213.{}", process % 254 + 1);
        let network = Self { name: Some(name.clone()), prefix: prefix.clone(), servers };
        ip(&format!("link add {name} type bridge"));
        ip(&format!("addr add {prefix}.1/24 dev {name}"));
        ip(&format!("link set {name} up"));
        for server in 0..servers {
            let (space, outside) = (format!("{name}n{server}"), format!("{name}v{server}"));
            ip(&format!("netns add {space}"));
            ip(&format!("link add {outside} type veth peer name eth0 netns {space}"));
            ip(&format!("link set {outside} master {name} up"));
            ip(&format!("-n {space} addr add {prefix}.{}/24 dev eth0", server + 2));
            ip(&format!("-n {space} link set eth0 up"));
            ip(&format!("-n {space} link set lo up"));
        }
        network
    }

    /// Returns true if servers can be cut off.
    pub(super) const fn can_be_cut(&self) -> bool {
        self.name.is_some()
    }

    /// Returns the address of the machine itself.
    pub(super) fn host(&self) -> String {
        self.name.as_ref().map_or_else(|| "127.0.0.1".into(), |_| format!("{}.1", self.prefix))
    }

    /// Returns the address of a server.
    pub(super) fn address(&self, server: usize) -> String {
        let of_server = |_| format!("{}.{}", self.prefix, server + 2);
        self.name.as_ref().map_or_else(|| "127.0.0.1".into(), of_server)
    }

    /// Returns a port for a server, which is the usual one where it is free for sure.
    pub(super) fn port(&self, usual: u16) -> u16 {
        if self.name.is_some() { usual } else { free_port() }
    }

    /// Returns a command that runs a program in the network of a server, as the user of PostgreSQL.
    pub(super) fn command(&self, server: usize, program: &str) -> Command {
        let Some(name) = &self.name else { return Command::new(program) };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{name}n{server}"), "setpriv"]);
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--", program]);
        command
    }

    /// Cuts a server off, or connects it again.
    pub(super) fn cut(&self, server: usize, is_cut: bool) {
        let Some(name) = &self.name else { return };
        ip(&format!("link set {name}v{server} {}", if is_cut { "down" } else { "up" }));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let Some(name) = &self.name else { return };
        for server in 0..self.servers {
            // Programs that Patroni has started, such as pg_rewind.
            let space = format!("{name}n{server}");
            let left = Command::new("ip").args(["netns", "pids", &space]).output();
            let left = left.map(|left| String::from_utf8_lossy(&left.stdout).into_owned());
            let left = left.unwrap_or_default();
            if !left.trim().is_empty() {
                let _ = Command::new("kill").arg("-KILL").args(left.split_whitespace()).status();
            }
            let _ = Command::new("ip").args(["netns", "del", &space]).status();
        }
        let _ = Command::new("ip").args(["link", "del", name]).status();
    }
}

/// Returns true if the tests run as root.
pub(super) fn is_root() -> bool {
    Command::new("id").arg("-u").output().unwrap().stdout == b"0\n"
}

fn ip(arguments: &str) {
    run(Command::new("ip").args(arguments.split(' ')));
}
