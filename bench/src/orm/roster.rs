//! The contenders of the ORM suite, as data: how each is built and which settings it supports. To
//! add one, add an entry here and a folder in `bench/peers/orm`.

use anyhow::{Result, bail};
use bench_orm_workload::Setting;
use std::path::{Path, PathBuf};

/// The role of a contender in the ratios.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Marmota, which the targets are for.
    Ours,
    /// A crate that others use.
    Peer,
    /// Direct calls of the database's library, or a plain `Vec`: the denominator of the ratios.
    Floor,
}

/// One contender.
#[derive(Clone, Debug)]
pub(crate) struct ContenderSpec {
    /// The name in its output.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) role: Role,
    /// Its folder in `bench/peers/orm`, a workspace with its own lock file.
    pub(crate) folder: &'static str,
    /// The name of its binary.
    pub(crate) binary: &'static str,
    /// The value of `BENCH_ORM_VARIANT`, for programs that are several contenders.
    pub(crate) variant: Option<&'static str>,
    pub(crate) settings: &'static [Setting],
}

const SQLITE: &[Setting] = &[Setting::FileFull, Setting::FileOff, Setting::Memory];

/// In the order of the tables.
const ALL: [ContenderSpec; 14] = [
    ContenderSpec {
        name: "floor",
        about: "direct calls of SQLite's C API, tuned build",
        role: Role::Floor,
        folder: "floor",
        binary: "bench-orm-floor",
        variant: None,
        settings: SQLITE,
    },
    ContenderSpec {
        name: "plain Vec",
        about: "a Vec, a hash index and a lock: the memory engine's floor",
        role: Role::Floor,
        folder: "floor",
        binary: "bench-orm-vec",
        variant: None,
        settings: &[Setting::Engine],
    },
    ContenderSpec {
        name: "marmota",
        about: "Marmota's store on SQLite, its memory engine, PostgreSQL and MariaDB",
        role: Role::Ours,
        folder: "marmota",
        binary: "bench-orm-marmota",
        variant: None,
        settings: &Setting::ALL,
    },
    ContenderSpec {
        name: "rusqlite",
        about: "rusqlite by hand, cached statements, many rows per statement",
        role: Role::Peer,
        folder: "rusqlite",
        binary: "bench-orm-rusqlite",
        variant: None,
        settings: SQLITE,
    },
    ContenderSpec {
        name: "diesel",
        about: "diesel's query builder; by id through get_result(), its fastest",
        role: Role::Peer,
        folder: "diesel",
        binary: "bench-orm-diesel",
        variant: None,
        settings: SQLITE,
    },
    ContenderSpec {
        name: "diesel first()",
        about: "diesel's read by id as its guide writes it, through first()",
        role: Role::Peer,
        folder: "diesel",
        binary: "bench-orm-diesel",
        variant: Some("first"),
        settings: SQLITE,
    },
    ContenderSpec {
        name: "sqlx",
        about: "sqlx on one connection, columns by index",
        role: Role::Peer,
        folder: "sqlx",
        binary: "bench-orm-sqlx",
        variant: None,
        settings: SQLITE,
    },
    ContenderSpec {
        name: "tokio-postgres",
        about: "tokio-postgres by hand, batches by UNNEST or pipelined: PostgreSQL's floor",
        role: Role::Floor,
        folder: "postgres",
        binary: "bench-orm-postgres",
        variant: None,
        settings: &[Setting::Postgres],
    },
    ContenderSpec {
        name: "tokio-postgres COPY",
        about: "batches by tokio-postgres' binary COPY",
        role: Role::Peer,
        folder: "postgres",
        binary: "bench-orm-postgres",
        variant: Some("copy"),
        settings: &[Setting::Postgres],
    },
    ContenderSpec {
        name: "sqlx PostgreSQL",
        about: "sqlx on one connection, batches by UNNEST",
        role: Role::Peer,
        folder: "sqlx",
        binary: "bench-orm-sqlx",
        variant: Some("postgres"),
        settings: &[Setting::Postgres],
    },
    ContenderSpec {
        name: "diesel-async",
        about: "diesel's query builder on one asynchronous connection",
        role: Role::Peer,
        folder: "diesel-async",
        binary: "bench-orm-diesel-async",
        variant: None,
        settings: &[Setting::Postgres],
    },
    ContenderSpec {
        name: "mysql_async",
        about: "mysql_async by hand, inserts of many rows: MariaDB's floor",
        role: Role::Floor,
        folder: "mariadb",
        binary: "bench-orm-mariadb",
        variant: None,
        settings: &[Setting::Mariadb],
    },
    ContenderSpec {
        name: "LOAD DATA LOCAL",
        about: "batches by LOAD DATA LOCAL with mysql_async",
        role: Role::Peer,
        folder: "mariadb",
        binary: "bench-orm-mariadb",
        variant: Some("load"),
        settings: &[Setting::Mariadb],
    },
    ContenderSpec {
        name: "sea-orm",
        about: "sea-orm's entities and active models on sqlx",
        role: Role::Peer,
        folder: "seaorm",
        binary: "bench-orm-seaorm",
        variant: None,
        settings: &[Setting::FileFull, Setting::FileOff, Setting::Memory, Setting::Postgres],
    },
];

/// The folder of the main workspace.
pub(crate) fn workspace() -> &'static Path {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    bench.parent().unwrap_or(bench)
}

impl ContenderSpec {
    /// The path of its manifest, relative to the main workspace.
    pub(crate) fn manifest(&self) -> PathBuf {
        Path::new("bench/peers/orm").join(self.folder).join("Cargo.toml")
    }
}

/// Returns the contenders with these names; all if `only` is empty.
pub(crate) fn chosen(only: &[String]) -> Result<Vec<ContenderSpec>> {
    if let Some(name) = only.iter().find(|name| !ALL.iter().any(|spec| spec.name == **name)) {
        let names = ALL.each_ref().map(|spec| spec.name).join(", ");
        bail!("unknown contender {name:?}; known: {names}");
    }
    let wanted = |spec: &ContenderSpec| only.is_empty() || only.iter().any(|n| n == spec.name);
    Ok(ALL.iter().filter(|spec| wanted(spec)).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_exactly_one_floor_and_marmota() {
        for setting in Setting::ALL {
            for role in [Role::Floor, Role::Ours] {
                let of_role =
                    |spec: &&ContenderSpec| spec.role == role && spec.settings.contains(&setting);
                assert_eq!(ALL.iter().filter(of_role).count(), 1, "{role:?} of {setting:?}");
            }
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = chosen(&["dielsel".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("dielsel") && error.contains("sea-orm"), "{error}");
        assert_eq!(chosen(&["diesel".to_owned()]).unwrap().len(), 1);
    }
}
