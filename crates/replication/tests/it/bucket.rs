//! Buckets: replication to an S3 server, its outages, and wrong settings.
//!
//! The settings of a bucket come from the environment of a process, so each test runs in a process
//! of its own.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use marmota_model::ErrorKind;
use marmota_replication::{
    Follower, ReplicationMode, ReplicationOptions, Replicator, RestorePoint, fetch,
};
use marmota_sqlite::SqliteOptions;
use marmota_store::log_copy::LogKind;

use crate::database::{PATIENCE, Primary, bodies, builder, note, replica, restore_to, wait_for};
use crate::s3_server::{Bucket, folder};

fn quick() -> ReplicationOptions {
    ReplicationOptions::default().window(Duration::from_millis(100))
}

fn plain() -> SqliteOptions {
    SqliteOptions::default()
}

#[test]
fn a_bucket_is_a_target() {
    let bucket = Bucket::start();
    let done = bucket.run("bucket::replicates_to_the_bucket", &[]).wait().unwrap();
    assert!(done.success());
}

#[test]
#[ignore = "a process that another test starts"]
fn replicates_to_the_bucket() {
    let (folder, url) = (folder(), "s3://backups/app");
    let path = folder.join("a.db");
    let merging = quick().merge_after(Duration::ZERO);
    let primary = Primary::open(&path, url, merging, &plain()).unwrap();
    let copy = folder.join("copy.db");
    // What was written before the end of the first snapshot cannot be restored by itself.
    wait_for("a snapshot", || restore_to(&copy, url, RestorePoint::Latest, &plain()).is_ok());
    for number in 0..50 {
        primary.insert(format!("note {number}"));
    }
    wait_for("merged segments", || {
        primary.insert("more");
        primary.replicator.status().merged > 0
    });
    let position = primary.store.position().unwrap();
    let there = bodies(&primary.store);
    primary.insert("last");
    assert!(primary.replicator.flush(PATIENCE), "{:?}", primary.replicator.status());
    restore_to(&copy, url, RestorePoint::Position(position), &plain()).unwrap();
    let restored = builder(&copy, &plain()).unwrap().open().unwrap();
    assert_eq!(bodies(&restored), there);
    restored.close().unwrap();

    let (store, _follower) = replica(&folder.join("replica.db"), url, &plain()).unwrap();
    primary.insert("followed");
    wait_for("the replica", || bodies(&store) == bodies(&primary.store));
    store.close().unwrap();
    // Another database is refused, and so is another primary that does not know of this one.
    let error = Primary::open(&folder.join("b.db"), url, quick(), &plain()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let twin = folder.join("twin.db");
    primary.store.close().unwrap();
    for suffix in ["", "-replication.json"] {
        let of = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        std::fs::copy(of(&path), of(&twin)).unwrap();
    }
    let primary = Primary::open(&path, url, quick(), &plain()).unwrap();
    let twin = Primary::open(&twin, url, quick(), &plain()).unwrap();
    wait_for("the fence of one", || {
        let first = primary.store.insert(&note("first")).run().is_err();
        first || twin.store.insert(&note("second")).run().is_err()
    });
}

#[test]
fn an_outage_of_the_bucket_is_caught_up() {
    let mut bucket = Bucket::start();
    let flag = |name: &str| bucket.folder.path().join(name);
    let (ready, down, noticed, up) = (flag("ready"), flag("down"), flag("noticed"), flag("up"));
    let mut process = bucket.run("bucket::survives_an_outage", &[]);
    wait_for("the primary", || ready.exists());
    bucket.stop();
    std::fs::write(down, "").unwrap();
    wait_for("the outage", || noticed.exists());
    bucket.resume();
    std::fs::write(up, "").unwrap();
    assert!(process.wait().unwrap().success());
}

#[test]
#[ignore = "a process that another test starts"]
fn survives_an_outage() {
    let (folder, url) = (folder(), "s3://backups/outage");
    let flag = |name: &str| folder.join(name);
    let primary = Primary::open(&folder.join("a.db"), url, quick(), &plain()).unwrap();
    let sync = quick().mode(ReplicationMode::Sync).sync_deadline(Duration::from_secs(1));
    let other = Primary::open(&folder.join("b.db"), "s3://backups/sync", sync, &plain()).unwrap();
    primary.insert("before");
    other.insert("before");
    assert!(primary.replicator.flush(PATIENCE));
    std::fs::write(flag("ready"), "").unwrap();
    wait_for("the outage", || flag("down").exists());
    for number in 0..100 {
        primary.insert(format!("during {number}"));
    }
    let error = other.store.insert(&note("during")).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    wait_for("the error", || primary.replicator.status().error.is_some());
    std::fs::write(flag("noticed"), "").unwrap();
    wait_for("the bucket", || flag("up").exists());
    wait_for("writes", || other.store.insert(&note("after")).run().is_ok());
    assert!(primary.replicator.flush(PATIENCE), "{:?}", primary.replicator.status());
    let copy = folder.join("copy.db");
    wait_for("a snapshot", || restore_to(&copy, url, RestorePoint::Latest, &plain()).is_ok());
    let restored = builder(&copy, &plain()).unwrap().open().unwrap();
    assert_eq!(bodies(&restored), bodies(&primary.store));
}

#[test]
fn wrong_settings_are_explained() {
    let bucket = Bucket::start();
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let nowhere = format!("http://{closed}");
    let all = [
        ("AWS_SECRET_ACCESS_KEY", "wrong-secret"),
        ("AWS_ENDPOINT_URL", &*nowhere),
        ("MARMOTA_URL", "s3://missing/app"),
    ];
    let folders = all.map(|_| tempfile::tempdir().unwrap());
    let processes = all.iter().zip(&folders).map(|(&setting, folder)| {
        let folder = folder.path().to_str().unwrap();
        bucket.run("bucket::refuses_a_target", &[setting, ("MARMOTA_FOLDER", folder)])
    });
    let processes: Vec<_> = processes.collect();
    for (mut process, setting) in processes.into_iter().zip(all) {
        assert!(process.wait().unwrap().success(), "{setting:?}");
    }
}

#[test]
#[ignore = "a process that another test starts"]
fn refuses_a_target() {
    let url = std::env::var("MARMOTA_URL").unwrap_or_else(|_| "s3://backups/app".to_owned());
    let new = folder().join("new.db");
    let error = fetch(&url, LogKind::Pages, RestorePoint::Latest, &new).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.message().contains(&url), "{error}");
    assert!(!error.message().contains("wrong-secret") && !new.exists(), "{error}");
    // A synchronous primary does not start; an asynchronous one starts and waits.
    let path = folder().join("c.db");
    let started = Instant::now();
    let sync = quick().mode(ReplicationMode::Sync);
    let error = Primary::open(&path, &url, sync, &plain()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    let primary = Primary::open(&path, &url, quick(), &plain()).unwrap();
    primary.insert("without a target");
    assert!(primary.replicator.status().error.is_some(), "after {:?}", started.elapsed());
    let follower = Follower::new(&url, Duration::from_millis(50)).unwrap();
    assert!(
        follower
            .prepare(LogKind::Pages, &folder().join("r.db"), |make| make(&folder().join("r")))
            .is_err()
    );
    drop(Replicator::new(&url, quick()).unwrap());
}
