//! A store over several servers: it finds the one that accepts writes, also after another has taken
//! its place.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use marmota_mariadb::{Mariadb, TemporaryMariadb};
use marmota_model::ErrorKind;

use crate::{Tally, insert_until, open_tally, wait_until};

/// Two servers with the same database, of which the second one is read-only.
fn pair() -> (TemporaryMariadb, TemporaryMariadb, String) {
    let (primary, standby) =
        (TemporaryMariadb::start().unwrap(), TemporaryMariadb::start().unwrap());
    let url = primary.make_database().unwrap();
    let name = url.rsplit('/').next().unwrap().to_owned();
    open_tally(&standby.make_database().unwrap());
    open_tally(&url);
    standby.execute("SET GLOBAL read_only=1").unwrap();
    (primary, standby, name)
}

#[test]
fn the_server_that_accepts_writes_is_found_and_its_successor_after_its_end() {
    let (primary, standby, name) = pair();
    // Wherever it is in the list.
    for url in [primary.url_with(&[&standby], &name), standby.url_with(&[&primary], &name)] {
        open_tally(&url).insert(&Tally::default()).run().unwrap();
    }
    assert_eq!(open_tally(&primary.url(&name)).count::<Tally>().run().unwrap(), 2);

    // Failover while writing.
    let store = open_tally(&primary.url_with(&[&standby], &name));
    let on_standby = open_tally(&standby.url(&name));
    let ends = AtomicBool::new(false);
    let (before, keys) = thread::scope(|scope| {
        let writer = scope.spawn(|| insert_until(&store, &ends));
        wait_until("rows before", || store.count::<Tally>().run().is_ok_and(|rows| rows > 20));
        primary.crash();
        let error = Mariadb::from_url(&primary.url_with(&[&standby], &name)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
        for part in [primary.port().to_string(), standby.port().to_string(), "read-only".into()] {
            assert!(error.message().contains(&part), "{part}: {error}");
        }
        // Reads of the standby alone are possible if the URL says so.
        let any = primary.url_with(&[&standby], &name) + "?target_session_attrs=any";
        let before = open_tally(&any).count::<Tally>().run().unwrap();
        standby.execute("SET GLOBAL read_only=0").unwrap();
        wait_until("rows after", || on_standby.count::<Tally>().run().unwrap() > 20);
        ends.store(true, Ordering::Relaxed);
        (before, writer.join().unwrap())
    });
    assert_eq!(before, 0);
    // The servers do not replicate here: each has the rows of its time.
    assert!(keys.len() > 40, "{}", keys.len());
}

#[test]
fn a_server_that_becomes_read_only_is_left() {
    let (primary, standby, name) = pair();
    for server in [&primary, &standby] {
        server.execute("CREATE USER writer IDENTIFIED BY 'w'").unwrap();
        server.execute(&format!("GRANT ALL PRIVILEGES ON {name}.* TO writer")).unwrap();
    }
    let url = primary.url_with(&[&standby], &name);
    let servers = url.rsplit('@').next().unwrap();
    let store = open_tally(&format!("mariadb://writer:w@{servers}"));
    store.insert(&Tally::default()).run().unwrap();
    primary.execute("SET GLOBAL read_only=1").unwrap();
    standby.execute("SET GLOBAL read_only=0").unwrap();
    let error = store.insert(&Tally::default()).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
    store.insert(&Tally::default()).run().unwrap();
    let rows = |server: &TemporaryMariadb| open_tally(&server.url(&name)).count::<Tally>().run();
    assert_eq!((rows(&primary).unwrap(), rows(&standby).unwrap()), (1, 1));
}
