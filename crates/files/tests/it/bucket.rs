//! A bucket of a private S3 server.
//!
//! The settings of a bucket come from the environment of a process, so the test runs in a process of
//! its own.

#[path = "../../../replication/tests/it/s3_server.rs"]
mod s3_server;

use std::time::Duration;

use s3_server::Bucket;

use crate::issue::{Issue, open, until};

#[test]
fn a_bucket_is_a_storage() {
    let bucket = Bucket::start();
    let done = bucket.run("bucket::saves_to_the_bucket", &[]).wait().unwrap();
    assert!(done.success());
}

/// The process with the settings of the bucket.
#[test]
#[ignore = "a process that another test starts"]
fn saves_to_the_bucket() {
    let folder = s3_server::folder();
    let (store, storage) = open("sqlite", &folder, "s3://backups/app/files");
    // Several parts, and one that is smaller.
    let large: Vec<u8> = (0..20_000_000_u32).map(|number| (number / 7) as u8).collect();
    let file = storage.save(Issue::ATTACHMENT, "large.bin", &mut &large[..]).unwrap();
    let id = store.insert(&Issue::new("large", Some(file.clone()))).run().unwrap();
    assert_eq!(storage.read_all(&file).unwrap(), large);
    let part = marmota_store::action::block_on(async {
        let mut reader = storage.reader(&file, 9_000_000..9_000_010).await.unwrap();
        reader.next().await.unwrap().unwrap()
    });
    assert_eq!(part, large[9_000_000..9_000_010]);

    let small = storage.save(Issue::ATTACHMENT, "small.txt", &mut &b"abc"[..]).unwrap();
    store.update(&Issue { id, ..Issue::new("small", Some(small.clone())) }).run().unwrap();
    until("the replaced bytes are removed", || storage.read_all(&file).is_err());
    let orphan = storage.save(Issue::ATTACHMENT, "orphan.txt", &mut &b"abc"[..]).unwrap();
    storage.settle(&orphan);
    let report = storage.sweep(&store, Duration::ZERO).unwrap();
    assert_eq!((report.stored, report.files), (2, 1));
    assert_eq!(storage.read_all(&small).unwrap(), b"abc");
    storage.stop();
    store.close().unwrap();
}
