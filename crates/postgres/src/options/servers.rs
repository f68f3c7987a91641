//! The servers of a cluster: which of them is used, and in which order they are tried.

use std::borrow::Cow;

use marmota_model::Result;
use marmota_sql::TargetServer;

use super::{Host, PostgresOptions, invalid};

/// The port of a server, unless the URL has another.
const PORT: u16 = 5432;

/// Parses lists of hosts and ports, separated by commas as in libpq: one port for all hosts, or one
/// for each, where an empty one is the default.
pub(super) fn parse(hosts: Option<&str>, ports: Option<&str>) -> Result<Vec<(Host, u16)>> {
    let hosts: Vec<&str> = hosts.unwrap_or("localhost").split(',').collect();
    let ports: Vec<&str> = ports.unwrap_or_default().split(',').collect();
    if ports.len() != 1 && ports.len() != hosts.len() {
        let why = format!("write one port, or one for each of the {} hosts", hosts.len());
        return Err(invalid("port", &ports.join(","), &why));
    }
    let servers = hosts.iter().enumerate().map(|(at, &host)| {
        let host = match host {
            "" => return Err(invalid("host", &hosts.join(","), "remove the empty host")),
            folder if folder.starts_with('/') => Host::Unix(folder.into()),
            name => Host::Tcp(name.to_owned()),
        };
        let port = match ports.get(at).or(ports.first()) {
            None | Some(&"") => PORT,
            Some(port) => super::number("port", Some((*port).to_owned()), PORT)?,
        };
        Ok((host, port))
    });
    servers.collect()
}

impl PostgresOptions {
    /// Returns the numbers of the servers in the order in which they are tried: first the one that
    /// was connected last.
    pub(crate) fn servers(&self) -> impl Iterator<Item = usize> {
        self.current_server.order(self.other_servers.len() + 1)
    }

    /// Returns the options for one of the servers.
    pub(crate) fn at(&self, server: usize) -> Cow<'_, Self> {
        if self.other_servers.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut options = self.clone();
        let others = std::mem::take(&mut options.other_servers);
        let other = server.checked_sub(1).and_then(|at| others.into_iter().nth(at));
        if let Some((host, port)) = other {
            (options.host, options.port) = (host, port);
        }
        Cow::Owned(options)
    }

    /// Returns true if one of several servers is the primary.
    pub(crate) fn has_one_primary(&self) -> bool {
        self.target == TargetServer::Primary && !self.other_servers.is_empty()
    }

    /// Makes a server the first one that is tried. If it is the primary, the connections to another
    /// one before it are closed.
    pub(crate) fn has_connected(&self, server: usize) {
        self.current_server.set(server, self.target == TargetServer::Primary);
    }

    /// Returns the servers and the database for error messages.
    pub(crate) fn place(&self) -> String {
        let first = (&self.host, self.port);
        let others = self.other_servers.iter().map(|(host, port)| (host, *port));
        let servers: Vec<String> = std::iter::once(first).chain(others).map(named).collect();
        match self.host {
            Host::Unix(_) => format!("{}, {}", servers.join(","), self.database),
            Host::Tcp(_) => format!("{}/{}", servers.join(","), self.database),
        }
    }
}

fn named((host, port): (&Host, u16)) -> String {
    match host {
        Host::Tcp(name) => format!("{name}:{port}"),
        Host::Unix(folder) => format!("{}/.s.PGSQL.{port}", folder.display()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read as _};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use marmota_store::engine::Source;

    use super::*;

    fn parsed(url: &str) -> Result<PostgresOptions> {
        PostgresOptions::parse_in(url, &|name| (name == "PGUSER").then(|| "env".to_owned()))
    }

    fn tcp(name: &str, port: u16) -> (Host, u16) {
        (Host::Tcp(name.to_owned()), port)
    }

    #[test]
    fn a_url_has_several_servers() {
        let options = parsed("postgres://a,b:7000,[::1]:7001/app").unwrap();
        assert_eq!((options.host.clone(), options.port), tcp("a", PORT));
        assert_eq!(options.other_servers, [tcp("b", 7000), tcp("::1", 7001)]);
        assert_eq!(options.target, TargetServer::Primary);
        assert_eq!(options.place(), "a:5432,b:7000,::1:7001/app");
        let options = parsed("postgres:///app?host=a,b&port=7&target_session_attrs=any").unwrap();
        assert_eq!((options.port, options.other_servers), (7, vec![tcp("b", 7)]));
        assert_eq!(options.target, TargetServer::Any);
        assert_eq!(parsed("postgres://a/app").unwrap().target, TargetServer::Any);
    }

    #[test]
    fn the_last_server_is_tried_first() {
        let options = parsed("postgres://a,b,c/app").unwrap();
        assert_eq!(options.servers().collect::<Vec<_>>(), [0, 1, 2]);
        let connect = |server| {
            let (here, there) = UnixStream::pair().unwrap();
            let here: Source = Arc::new(here);
            options.current_server.watch(server, &here);
            options.has_connected(server);
            there.set_nonblocking(true).unwrap();
            (here, there)
        };
        let (_first, mut at_first) = connect(0);
        let (_second, mut at_second) = connect(1);
        assert_eq!(options.servers().collect::<Vec<_>>(), [1, 2, 0]);
        // The connection to the server before is closed.
        assert_eq!(at_first.read(&mut [0]).unwrap(), 0);
        assert_eq!(at_second.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(options.at(0).place(), "a:5432/app");
        assert_eq!(options.at(2).place(), "c:5432/app");
    }

    #[test]
    fn a_wrong_list_is_named() {
        for (url, part) in [
            ("postgres://a,,b/app", "`host`"),
            ("postgres:///app?host=a,b&port=1,2,3", "`port`"),
            ("postgres://a,b:99999/app", "`port`"),
            ("postgres://a,b/app?target_session_attrs=standby", "`target_session_attrs`"),
        ] {
            let error = parsed(url).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
        }
    }
}
