//! Servers that are started for the table of engines: temporary ones of PostgreSQL and MariaDB, and
//! one of Marmota for a remote store. Each starts when the first engine needs it.

use std::cell::{OnceCell, RefCell};
use std::fmt::Display;
use std::io;
use std::path::Path;

use marmota::http::RunningServer;
use marmota::prelude::*;
use marmota::remote::Service;
use marmota_mariadb::TemporaryMariadb;
use marmota_postgres::{Postgres, TemporaryPostgres};

use super::record::Person;

/// A server, or the reason why it cannot be started.
type Started<S> = OnceCell<std::result::Result<S, String>>;

/// How an engine reaches the server that is started for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServedBy {
    /// A store in the memory engine, over HTTP.
    Marmota,
    Postgres,
    Mariadb,
    /// PostgreSQL, with this ODBC driver.
    PostgresOdbc(&'static str),
    /// MariaDB, with this ODBC driver.
    MariadbOdbc(&'static str),
}

/// The servers, which stop when this is dropped.
#[derive(Default)]
pub(super) struct Servers {
    postgres: Started<TemporaryPostgres>,
    mariadb: Started<TemporaryMariadb>,
    /// The server of the last remote store.
    marmota: RefCell<Option<RunningServer>>,
    /// The names of the last databases in PostgreSQL and MariaDB.
    last: RefCell<[Option<String>; 2]>,
}

impl Servers {
    /// Returns the URL of a new database, and removes the previous one on the same server.
    ///
    /// # Errors
    /// The server cannot be started, or refuses.
    pub(super) fn make_database(&self, by: ServedBy) -> Result<String> {
        match by {
            ServedBy::Marmota => self.serve(),
            ServedBy::Postgres => self.postgres(|server, name| Ok(server.socket_url(name))),
            ServedBy::Mariadb => self.mariadb(|server, name| Ok(server.socket_url(name))),
            ServedBy::PostgresOdbc(driver) => {
                self.postgres(|server, name| odbc_url(driver, &server.url(name)))
            }
            ServedBy::MariadbOdbc(driver) => {
                self.mariadb(|server, name| odbc_url(driver, &server.url(name)))
            }
        }
    }

    fn serve(&self) -> Result<String> {
        let served = marmota::open("memory:")?.model::<Person>().open()?;
        let routes = Router::new().nest("", Service::new(&served).router());
        let server =
            Server::bind("127.0.0.1:0").and_then(|it| it.start(routes)).map_err(refused)?;
        let url = format!("http://{}/api", server.local_addr());
        // The previous server stops when its handle is dropped.
        *self.marmota.borrow_mut() = Some(server);
        Ok(url)
    }

    fn postgres(&self, url: impl Fn(&TemporaryPostgres, &str) -> Result<String>) -> Result<String> {
        let server = started(&self.postgres, || TemporaryPostgres::start(&["fsync=off"]))?;
        let last = &mut self.last.borrow_mut()[0];
        if let Some(last) = last.take() {
            let admin = Postgres::from_url(&server.socket_url("postgres"))?;
            admin.execute(&format!("DROP DATABASE {last} WITH (FORCE)"))?;
        }
        let made = server.make_database().map_err(refused)?;
        url(server, last.insert(name_in(&made)))
    }

    fn mariadb(&self, url: impl Fn(&TemporaryMariadb, &str) -> Result<String>) -> Result<String> {
        let server = started(&self.mariadb, TemporaryMariadb::start)?;
        let last = &mut self.last.borrow_mut()[1];
        if let Some(last) = last.take() {
            server.execute(&format!("DROP DATABASE {last}")).map_err(refused)?;
        }
        let made = server.make_database().map_err(refused)?;
        url(server, last.insert(name_in(&made)))
    }
}

fn started<S>(server: &Started<S>, start: impl FnOnce() -> io::Result<S>) -> Result<&S> {
    server.get_or_init(|| start().map_err(|error| error.to_string())).as_ref().map_err(refused)
}

fn refused(error: impl Display) -> Error {
    Error::new(ErrorKind::Refused, error.to_string())
}

/// Returns the name of the database in a URL.
fn name_in(url: &str) -> String {
    url.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Returns the URL of the same database with an ODBC driver, a file in the folder of Debian's
/// packages.
fn odbc_url(driver: &str, url: &str) -> Result<String> {
    let path = format!("/usr/lib/{}-linux-gnu/odbc/{driver}", std::env::consts::ARCH);
    if !Path::new(&path).exists() {
        let package = if driver.starts_with("psql") { "odbc-postgresql" } else { "odbc-mariadb" };
        return Err(refused(format!("{path} is missing: apt-get install {package}")));
    }
    let parts = || {
        let (credential, place) = url.split_once("//")?.1.split_once('@')?;
        let (user, password) = credential.split_once(':')?;
        let (server, database) = place.split_once('/')?;
        let (host, port) = server.split_once(':')?;
        let password = password.replace("%3A", ":").replace("%20", " ").replace("%40", "@");
        Some(format!(
            "odbc:Driver={path};Server={host};Port={port};Database={database};UID={user};\
             PWD={{{password}}}"
        ))
    };
    parts().ok_or_else(|| refused("the URL of the server has another form"))
}
