//! A server whose disk is full.

use std::os::unix::fs::{MetadataExt as _, chown};

use marmota_model::ErrorKind;
use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_store::Store;

use crate::small_disk::SmallDisk;
use crate::{Tally, label, open};

/// The server's processes that serve this store.
fn processes(store: &Store) -> Vec<i64> {
    let sql = "SELECT pid FROM pg_stat_activity WHERE datname=current_database() \
               AND backend_type='client backend' AND application_name<>'hand' ORDER BY pid";
    store.sql(sql).map(|row| row.read::<i64>("pid")).run().unwrap()
}

#[test]
fn a_full_disk_is_said_and_the_connections_live_on() {
    let own = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let data = std::fs::metadata(own.data()).unwrap();
    let folder = own.data().with_file_name("small");
    std::fs::create_dir(&folder).unwrap();
    // Declared behind the server, so that it goes before the server's folder does.
    let Some(disk) = SmallDisk::mount(&folder) else { return };
    chown(&disk.0, Some(data.uid()), Some(data.gid())).unwrap();
    let url = own.make_database().unwrap();
    let store = open(&url);
    let hand = Postgres::from_url(&format!("{url}?application_name=hand")).unwrap();
    hand.execute(&format!("CREATE TABLESPACE small LOCATION '{}'", disk.0.display())).unwrap();
    hand.execute("ALTER TABLE tally SET TABLESPACE small").unwrap();
    let text = "x".repeat(1_000);
    let rows = |batch: usize| -> Vec<Tally> {
        (0..100).map(|number| label(format!("{batch} {number} {text}"))).collect()
    };
    let mut kept = 0;
    store.insert_many(&rows(kept)).run().unwrap();
    let before = processes(&store);
    let error = loop {
        kept += 1;
        assert!(kept < 100, "the disk never is full");
        if let Err(error) = store.insert_many(&rows(kept)).run() {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
    assert!(error.to_string().contains("is full"), "{error}");
    // All or nothing, and in a transaction as well.
    assert_eq!(store.count::<Tally>().run().unwrap(), 100 * kept as u64);
    let error = store.transaction(|own| own.insert_many(&rows(kept)).run().map(drop)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
    assert_eq!(store.count::<Tally>().run().unwrap(), 100 * kept as u64);
    // No connection was given up for it.
    let after = processes(&store);
    assert!(before.iter().all(|one| after.contains(one)), "{before:?} {after:?}");
    hand.execute("ALTER TABLE tally SET TABLESPACE pg_default").unwrap();
    store.insert_many(&rows(kept)).run().unwrap();
    assert_eq!(store.count::<Tally>().run().unwrap(), 100 * (kept as u64 + 1));
    drop(hand);
    drop(store);
    own.pause();
}
