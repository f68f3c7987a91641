//! The servers that the HTTP suite can measure, as data: how each is built and started. To add a
//! server, add an entry here (and its program in `bench/peers`).

use anyhow::{Result, bail, ensure};
use std::path::{Path, PathBuf};

/// The role of a server in the ratios.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Marmota: the numerator of the ratios.
    Ours,
    /// A server that others use; the best one is the denominator of a ratio.
    Peer,
    /// A bare event loop: an upper bound that no server is expected to reach.
    Floor,
    /// Given on the command line; shown in the tables, but never the best peer.
    Guest,
}

/// The origin of a server's program.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A binary of the main workspace.
    Package(&'static str),
    /// An example of a package of the main workspace.
    Example { package: &'static str, example: &'static str },
    /// A package of a set of peers, `bench/peers/SET`.
    Peer { set: &'static str, package: &'static str },
    /// An existing program.
    Program(PathBuf),
}

/// One server.
#[derive(Clone, Debug)]
pub(crate) struct ServerSpec {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) role: Role,
    pub(crate) source: Source,
    /// Its arguments; `{port}` is replaced by the port to listen on.
    pub(crate) arguments: Vec<String>,
}

impl ServerSpec {
    pub(crate) fn new(
        name: &str,
        role: Role,
        source: Source,
        arguments: &[&str],
        about: &str,
    ) -> Self {
        ServerSpec {
            name: name.to_owned(),
            about: about.to_owned(),
            role,
            source,
            arguments: arguments.iter().map(|&a| a.to_owned()).collect(),
        }
    }

    fn peer(name: &str, package: &'static str, words: &[&str], about: &str) -> Self {
        let arguments = [&["--port", "{port}"], words].concat();
        let source = Source::Peer { set: "http", package };
        Self::new(name, Role::Peer, source, &arguments, about)
    }
}

/// The folder of the main workspace.
pub(crate) fn workspace() -> &'static Path {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    bench.parent().unwrap_or(bench)
}

/// All servers.
pub(crate) fn all() -> Vec<ServerSpec> {
    vec![
        ServerSpec::new(
            "marmota",
            Role::Ours,
            Source::Package("techempower"),
            &["--port", "{port}", "--db", "sqlite"],
            "Marmota's TechEmpower server",
        ),
        ServerSpec::new(
            "hello",
            Role::Ours,
            Source::Example { package: "marmota-http", example: "hello" },
            &["127.0.0.1:{port}"],
            "marmota-http's example of two routes; only when named",
        ),
        ServerSpec::peer("axum", "peer-axum", &[], "axum on hyper, a runtime per core"),
        ServerSpec::peer("actix-web", "peer-actix", &["web"], "actix-web with its router"),
        ServerSpec::peer("actix", "peer-actix", &["server"], "actix-http's codec by hand"),
        ServerSpec::peer("ntex", "peer-ntex", &[], "ntex's codec by hand, on io_uring"),
        ServerSpec::peer("xitca-web", "peer-xitca", &[], "xitca-http with its router, on io_uring"),
        ServerSpec::peer("may-minihttp", "peer-may", &[], "stackful coroutines"),
        ServerSpec::new(
            "epoll floor",
            Role::Floor,
            Source::Peer { set: "http", package: "floor-epoll" },
            &["--port", "{port}"],
            "a bare epoll loop, no parsing, a fixed answer",
        ),
    ]
}

/// A server that is measured only if it is named.
const ONLY_WHEN_NAMED: &str = "hello";

/// Returns the servers named in `only` (all but `hello` if it is empty) and those of `also`.
pub(crate) fn chosen(only: &[String], also: &[String]) -> Result<Vec<ServerSpec>> {
    let specs = all();
    for name in only {
        ensure!(
            specs.iter().any(|spec| matches(spec, name)),
            "unknown server {name}; known: {}",
            specs.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", ")
        );
    }
    let mut chosen: Vec<_> = specs
        .into_iter()
        .filter(|spec| {
            let named = only.iter().any(|name| matches(spec, name));
            named || (only.is_empty() && spec.name != ONLY_WHEN_NAMED)
        })
        .collect();
    for text in also {
        chosen.push(guest(text)?);
    }
    Ok(chosen)
}

/// Whether `name` is the server's name or the last or first word of it: `floor`, `may`.
fn matches(spec: &ServerSpec, name: &str) -> bool {
    let floor = spec.role == Role::Floor && name == "floor";
    spec.name == name || floor || (spec.name == "may-minihttp" && name == "may")
}

/// Parses an argument of `--also`.
pub(crate) fn guest(text: &str) -> Result<ServerSpec> {
    let Some((name, command)) = text.split_once('=') else {
        bail!("--also {text}: NAME=COMMAND is needed, as mine=./server --port {{port}}");
    };
    let mut words = command.split_whitespace();
    let Some(program) = words.next() else {
        bail!("--also {text}: the command is empty");
    };
    ensure!(command.contains("{port}"), "--also {text}: the command must contain {{port}}");
    let program = std::path::absolute(program)?;
    let arguments: Vec<&str> = words.collect();
    Ok(ServerSpec::new(name, Role::Guest, Source::Program(program), &arguments, command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keeps_the_order_of_the_roster_and_knows_short_names() {
        let only = ["floor".to_owned(), "may".to_owned(), "ntex".to_owned()];
        let names: Vec<_> = chosen(&only, &[]).unwrap().into_iter().map(|s| s.name).collect();
        assert_eq!(names, ["ntex", "may-minihttp", "epoll floor"]);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = chosen(&["nginx".to_owned()], &[]).unwrap_err().to_string();
        assert!(error.contains("nginx") && error.contains("xitca-web"), "{error}");
    }

    #[test]
    fn a_guest_needs_a_name_and_a_place_for_the_port() {
        let also = |text: &str| chosen(&["ntex".to_owned()], &[text.to_owned()]);
        let specs = also("mine=/bin/server -p {port}").unwrap();
        assert_eq!(specs[1].arguments, ["-p", "{port}"]);
        assert!(also("mine=/bin/server").is_err());
        assert!(also("/bin/server {port}").is_err());
    }
}
