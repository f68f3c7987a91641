//! The database: etcd, three servers that Patroni manages, and HAProxy in front of them; if wanted,
//! PgBouncer in front of HAProxy.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use ureq::Agent;

use super::network::{Network, is_root};
use super::server::Server;
use crate::process::{Process, free_port};

const SERVERS: usize = 3;
/// The longest time until the cluster is complete again.
const COMPLETE_MAX: Duration = Duration::from_secs(180);

/// The database and its parts. The fields are dropped in this order.
pub(super) struct Database {
    pub(super) servers: Vec<Server>,
    pub(super) etcd: Process,
    _haproxy: Process,
    haproxy_port: u16,
    /// PgBouncer and its port, if it is used.
    pooler: Option<(Process, u16)>,
    pub(super) network: Network,
    _folder: TempDir,
    agent: Agent,
}

impl Database {
    /// Starts all parts, with PgBouncer if it is wanted.
    pub(super) fn start(with_pooler: bool) -> Self {
        let (network, folder) = (Network::create(SERVERS), tempfile::tempdir().unwrap());
        // Another user starts the servers.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.path(), mode).unwrap();
        let etcd = format!("{}:{}", network.host(), free_port());
        let peers = format!("http://127.0.0.1:{}", free_port());
        let url = format!("http://{etcd}");
        let mut program = Command::new("etcd");
        program.arg("--data-dir").arg(folder.path().join("etcd")).args(["--log-level", "error"]);
        program.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        program.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        program.args(["--initial-cluster", &format!("default={peers}")]);
        let etcd_process = Process::start(&mut program);
        let server = |number| Server::prepare(&network, number, folder.path(), &etcd);
        let servers: Vec<Server> = (0..SERVERS).map(server).collect();
        let haproxy_port = free_port();
        let checked =
            servers.iter().enumerate().map(|(number, Server { address, port, rest_port, .. })| {
                format!("  server server{number} {address}:{port} check port {rest_port}\n")
            });
        let configuration = format!(
            "global\n  maxconn 1000\ndefaults\n  mode tcp\n  timeout connect 2s\n  timeout client 1h\n  \
             timeout server 1h\n  timeout check 2s\nlisten primary\n  bind 127.0.0.1:{haproxy_port}\n  \
             option httpchk OPTIONS /primary\n  http-check expect status 200\n  \
             default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions\n{}",
            checked.collect::<String>()
        );
        let file = folder.path().join("haproxy.cfg");
        fs::write(&file, configuration).unwrap();
        let haproxy =
            Process::start(Command::new("haproxy").arg("-q").arg("-db").arg("-f").arg(file));
        let config = Agent::config_builder().timeout_global(Some(Duration::from_secs(5)));
        let mut database = Self {
            servers,
            etcd: etcd_process,
            _haproxy: haproxy,
            haproxy_port,
            pooler: with_pooler.then(|| start_pooler(folder.path(), haproxy_port)),
            network,
            _folder: folder,
            agent: config.build().into(),
        };
        for server in &mut database.servers {
            server.start(&database.network);
        }
        database.wait_until_complete();
        database
    }

    /// Returns the URL that names all servers.
    pub(super) fn url(&self) -> String {
        let servers =
            self.servers.iter().map(|server| format!("{}:{}", server.address, server.port));
        let servers: Vec<String> = servers.collect();
        format!("postgres://marmota:secret@{}/postgres", servers.join(","))
    }

    /// Returns the URL of HAProxy, or of PgBouncer in front of it.
    pub(super) fn url_of_proxy(&self) -> String {
        let url = |port| format!("postgres://marmota:secret@127.0.0.1:{port}/postgres");
        let direct = url(self.haproxy_port);
        match &self.pooler {
            // Notifications do not pass a pooler.
            Some((_, port)) => {
                let direct = direct.replace(':', "%3A").replace('/', "%2F").replace('@', "%40");
                format!("{}?direct_url={direct}", url(*port))
            }
            None => direct,
        }
    }

    /// Returns the members as a Patroni reports them.
    fn members(&self) -> Option<Vec<Value>> {
        let ask = |server: &Server| {
            let url = format!("http://{}:{}/cluster", server.address, server.rest_port);
            let text = self.agent.get(url).call().ok()?.into_body().read_to_string().ok()?;
            let cluster: Value = serde_json::from_str(&text).ok()?;
            cluster["members"].as_array().cloned()
        };
        self.servers.iter().find_map(ask)
    }

    /// Returns the number of the primary.
    pub(super) fn primary(&self) -> Option<usize> {
        let members = self.members()?;
        let primary = members.iter().find(|member| member["role"] == "leader")?;
        primary["name"].as_str()?.strip_prefix("server")?.parse().ok()
    }

    /// Waits until there are a primary, a synchronous standby and another standby, all running.
    pub(super) fn wait_until_complete(&self) {
        let begun = Instant::now();
        loop {
            let members = self.members().unwrap_or_default();
            let has = |role: &str| members.iter().any(|member| member["role"] == role);
            let runs = |member: &Value| {
                ["running", "streaming"].iter().any(|state| member["state"] == *state)
            };
            let is_complete = members.len() == SERVERS
                && members.iter().all(runs)
                && has("leader")
                && has("sync_standby");
            if is_complete {
                return;
            }
            assert!(begun.elapsed() < COMPLETE_MAX, "the cluster is not complete: {members:?}");
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Makes the synchronous standby the primary.
    pub(super) fn switch_over(&self, primary: usize) {
        let server = &self.servers[primary];
        let url = format!("http://{}:{}/switchover", server.address, server.rest_port);
        let body = json!({ "leader": format!("server{primary}") }).to_string();
        let config = self.agent.post(url).config().timeout_global(Some(Duration::from_secs(60)));
        let request = config.build().content_type("application/json");
        // Patroni may refuse it while it changes the synchronous standby.
        if let Err(error) = request.send(body) {
            eprintln!("the switchover failed: {error}");
        }
    }
}

/// Starts PgBouncer in transaction mode in front of a server on this machine. Returns its port too.
fn start_pooler(folder: &Path, server_port: u16) -> (Process, u16) {
    let port = free_port();
    let (file, users) = (folder.join("pgbouncer.ini"), folder.join("users"));
    let configuration = format!(
        "[databases]\n* = host=127.0.0.1 port={server_port}\n[pgbouncer]\n\
         listen_addr=127.0.0.1\nlisten_port={port}\nunix_socket_dir=\nauth_type=plain\n\
         auth_file={}\npool_mode=transaction\ndefault_pool_size=30\nmax_client_conn=500\n\
         server_connect_timeout=2\nserver_login_retry=1\n",
        users.display()
    );
    fs::write(&file, configuration).unwrap();
    fs::write(users, "\"marmota\" \"secret\"\n").unwrap();
    // It refuses to run as root.
    let mut program = match is_root() {
        true => {
            let mut program = Command::new("setpriv");
            program.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]);
            program.arg("pgbouncer");
            program
        }
        false => Command::new("pgbouncer"),
    };
    (Process::start(program.arg("-q").arg(file)), port)
}
