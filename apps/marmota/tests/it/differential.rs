//! Random REST operations compared with a model in Python: a short version of a run of `cargo xtask
//! soak`.

#[path = "../soak/service.rs"]
mod service;

use std::path::Path;
use std::process::Command;

use marmota::http::Server;
use marmota::store::StoreBuilder;

/// Serves the store and runs the comparison; panics with the differences.
fn compare(builder: StoreBuilder, seed: u32, options: &[&str]) {
    let store = builder.open().unwrap();
    let server = Server::bind("127.0.0.1:0").unwrap().threads_per_listener(2);
    let url = server.url();
    let running = server.start(marmota::rest::api(&store)).unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/soak/differential.py");
    let output = Command::new("python3")
        .arg("-B") // No compiled files next to the sources.
        .arg(program)
        .args(["--address", url.trim_start_matches("http://")])
        .args(options)
        .args(["--operations", "600", "--clients", "3", "--seed", &seed.to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}{failed}");
    assert!(said.contains("600 operations, 3 clients"), "{said}");
    running.shutdown_handle().shutdown();
    running.join().unwrap();
    store.close().unwrap();
}

#[test]
fn sqlite_answers_as_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}?durability=none", folder.path().join("a.db").display());
    compare(service::open(&url).unwrap(), 1, &[]);
}

#[test]
fn sqlite_with_a_cache_answers_as_the_model() {
    compare(service::open("sqlite::memory:").unwrap().cache(16 * 1024), 2, &[]);
}

#[test]
fn memory_answers_as_the_model() {
    compare(service::open("memory:").unwrap(), 3, &[]);
}

#[test]
fn postgresql_answers_as_the_model() {
    let server = marmota_postgres::TemporaryPostgres::start(&["fsync=off"]).unwrap();
    compare(service::open(&server.make_database().unwrap()).unwrap(), 4, &[]);
}

#[test]
fn mongodb_answers_as_the_model() {
    let server = marmota_mongo::TemporaryMongo::start().unwrap();
    compare(service::open_plain(&server.url()).unwrap(), 5, &["--plain"]);
}
