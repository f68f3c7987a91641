//! PgBouncer in transaction mode: each transaction may go to another
//! connection of the server, which other programs have used before.

use std::io;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use marmota_model::{ErrorKind, Result};
use marmota_postgres::Postgres;
use marmota_store::Store;

use crate::{Tally, label, server};

/// PgBouncer before the tests' server; ends when it is dropped.
struct Pooler {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Pooler {
    /// Starts it with so many server connections a database, and lines of its
    /// configuration.
    fn start(pool_size: u32, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let configuration = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr=127.0.0.1\n\
             listen_port={port}\nunix_socket_dir=\nauth_type=plain\nauth_file={}\n\
             pool_mode=transaction\ndefault_pool_size={pool_size}\nmax_client_conn=500\n{more}\n",
            server().port(),
            folder.path().join("users").display()
        );
        std::fs::write(folder.path().join("pgbouncer.ini"), configuration).unwrap();
        std::fs::write(folder.path().join("users"), "\"marmota\" \"p:ss w@rd\"\n").unwrap();
        // It does not run as root, and reads its files as another user.
        let is_root = is_root();
        let mut command = if is_root { Command::new("setpriv") } else { pgbouncer() };
        if is_root {
            use std::os::unix::fs::PermissionsExt as _;
            let open = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(folder.path(), open).unwrap();
            command.args(["--reuid", "postgres", "--clear-groups", "--pdeathsig", "KILL", "--"]);
            command.arg(pgbouncer().get_program());
        }
        let process = command
            .args(["-q", "-q"])
            .arg(folder.path().join("pgbouncer.ini"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("install pgbouncer");
        let pooler = Self { process, port, _folder: folder };
        let until = Instant::now() + Duration::from_secs(30);
        while let Err(error) = std::net::TcpStream::connect(("127.0.0.1", port)) {
            assert!(Instant::now() < until, "pgbouncer does not listen: {error}");
            assert!(error.kind() == io::ErrorKind::ConnectionRefused, "{error}");
            thread::sleep(Duration::from_millis(10));
        }
        pooler
    }

    fn through(&self, url: &str) -> String {
        url.replace(&format!(":{}/", server().port()), &format!(":{}/", self.port))
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn pgbouncer() -> Command {
    let places = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"];
    let found = places.into_iter().find(|path| std::path::Path::new(path).exists());
    Command::new(found.unwrap_or("pgbouncer"))
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt as _;
        own.uid() == 0
    })
}

fn open(url: &str) -> Store {
    Store::builder(Postgres::from_url(url).unwrap()).model::<Tally>().open().unwrap()
}

/// Every kind of operation, with what each has to come to.
fn use_it(store: &Store, name: &str) -> Result<()> {
    let key = store.insert(&label(format!("{name} one"))).run()?;
    assert_eq!(store.get::<Tally>(key).run()?.label, label(format!("{name} one")).label);
    assert_eq!(store.increment(Tally::COUNT, key, 2).run()?, 2);
    let rows: Vec<Tally> = (0..20).map(|at| label(format!("{name} {at}"))).collect();
    let keys = store.insert_many(&rows).run()?;
    let changed: Vec<Tally> =
        keys.iter().zip(&rows).map(|(&id, row)| Tally { id, count: id, ..row.clone() }).collect();
    store.update_many(&changed).run()?;
    // A value that is taken already is named, and the connection goes on.
    let error = store.insert(&label(format!("{name} one"))).run().unwrap_err();
    assert_eq!((error.kind(), &*error.violations()[0].field), (ErrorKind::Conflict, "label"));
    store.transaction(|own| {
        let before = own.get::<Tally>(key).run()?.count;
        own.increment(Tally::COUNT, key, 5).run()?;
        own.insert(&label(format!("{name} one"))).run().unwrap_err();
        assert_eq!(own.get::<Tally>(key).run()?.count, before + 5);
        Ok(())
    })?;
    let mut batch = store.batch();
    batch.increment(Tally::COUNT, key, 1);
    batch.insert(&label(format!("{name} one")));
    batch.increment(Tally::COUNT, key, 1);
    let results = batch.continue_on_error().run()?;
    assert!(results[0].is_ok() && results[1].is_err() && results[2].is_ok(), "{results:?}");
    assert_eq!(store.get::<Tally>(key).run()?.count, 9);
    let sum = "SELECT sum(count)::bigint FROM tally WHERE label LIKE ? AND id<>?";
    let sum: Option<i64> =
        store.sql(sum).bind(format!("label {name} %")).bind(key).value().run()?;
    assert_eq!(sum, Some(keys.iter().sum()));
    let error = store.sql("SELECT setval('tally_id_seq', 1)").rows().run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    for &key in &keys {
        store.delete::<Tally>(key).run()?;
    }
    store.delete::<Tally>(key).run()
}

#[test]
fn transactions_on_any_server_connection_come_to_the_same() {
    for more in [
        "",
        "ignore_startup_parameters=statement_timeout,synchronous_commit,\
                      default_transaction_read_only,marmota.connection",
    ] {
        let pooler = Pooler::start(3, more);
        let url = server().make_database().unwrap();
        let stores = [open(&pooler.through(&url)), open(&pooler.through(&url)), open(&url)];
        thread::scope(|scope| {
            for (at, store) in stores.iter().enumerate() {
                for thread in 0..3 {
                    scope.spawn(move || {
                        for round in 0..5 {
                            use_it(store, &format!("{at}.{thread}.{round}")).unwrap();
                        }
                    });
                }
            }
        });
        assert_eq!(stores[0].count::<Tally>().run().unwrap(), 0);
    }
}

#[test]
fn settings_hold_in_each_transaction() {
    let pooler = Pooler::start(2, "");
    let url = pooler.through(&server().make_database().unwrap());
    let store = open(&format!("{url}?statement_timeout_ms=700&durability=relaxed"));
    let key = store.insert(&label("a")).run().unwrap();
    let transaction = store.begin_run().unwrap();
    transaction.increment(Tally::COUNT, key, 1).run().unwrap();
    let error = store.increment(Tally::COUNT, key, 1).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    transaction.commit().run().unwrap();
    let setting = |name: &str| {
        let sql = format!("UPDATE tally SET label=current_setting('{name}')");
        store.execute(sql).run().unwrap();
        store.get::<Tally>(key).run().unwrap().label.unwrap()
    };
    assert_eq!(setting("synchronous_commit"), "off");
    assert_eq!(setting("statement_timeout"), "700ms");
    // A statement that is to read changes nothing there either.
    let error = store.sql("WITH gone AS (DELETE FROM tally RETURNING 1) SELECT 1 FROM gone");
    assert_eq!(error.rows().run().unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(store.count::<Tally>().run().unwrap(), 1);
}

#[test]
fn a_cache_needs_the_server_itself() {
    let pooler = Pooler::start(2, "");
    let direct = server().make_database().unwrap();
    let url = pooler.through(&direct);
    let cached = |url: &str| {
        let engine = Postgres::from_url(url).unwrap();
        Store::builder(engine).model::<Tally>().cache(1 << 20).open()
    };
    let error = cached(&url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert!(error.to_string().contains("direct_url"), "{error}");
    let named = |direct: &str| format!("{url}?direct_url={}", direct.replace('%', "%25"));
    let error = cached(&named(&server().make_database().unwrap())).unwrap_err();
    assert!(error.to_string().contains("another server or database"), "{error}");
    let store = cached(&named(&direct)).unwrap();
    let key = store.insert(&label("a")).run().unwrap();
    assert_eq!(store.get::<Tally>(key).run().unwrap().count, 0);
    let other = open(&direct);
    other.increment(Tally::COUNT, key, 3).run().unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while store.get::<Tally>(key).run().unwrap().count != 3 {
        assert!(Instant::now() < until, "the cache stays stale");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn statements_of_the_same_name_are_the_same() {
    // A pooler that is not noticed: settings of a connection reach the server, and later
    // clients find what was prepared for the first.
    let url = server().make_database().unwrap();
    let store = open(&url);
    let key = store.insert(&label("a")).run().unwrap();
    let names = "SELECT string_agg(name||'='||statement,'/' ORDER BY statement) \
                 FROM pg_prepared_statements WHERE statement LIKE 'INSERT%'";
    let of = |store: &Store| {
        let sql = format!("UPDATE tally SET label=({names}) WHERE id={key}");
        store.execute(sql).run().unwrap();
        store.get::<Tally>(key).run().unwrap().label.unwrap()
    };
    let first = of(&store);
    let other = open(&url);
    // Another order of first uses, which numbered them otherwise.
    other.count::<Tally>().run().unwrap();
    other.delete::<Tally>(-1).run().unwrap_err();
    other.insert(&label("b")).run().unwrap();
    assert_eq!(first, of(&other));
}
