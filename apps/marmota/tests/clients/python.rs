//! The client in Python.

use std::fs::{self, File};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::server::Server;
use crate::typescript::NAMES;
use crate::workshop::{APP, BREAKING_CHANGES, Workshop, changed, tool};

const ROUND_TRIP: &str = include_str!("round_trip.py");

/// Checks a file and the client. The types of the standard library are read once for all tests, and
/// kept in a folder that only one mypy may use at a time.
pub(crate) fn check(workshop: &Workshop, file: &str) -> Output {
    static CHECKS: Mutex<u64> = Mutex::new(0);
    let mut checks = CHECKS.lock().unwrap_or_else(PoisonError::into_inner);
    *checks += 1;
    // mypy takes a file of the same size and second for the one that it has read before.
    let modified = SystemTime::now() - Duration::from_secs(10 * *checks);
    for entry in fs::read_dir(workshop.path().join("shop")).unwrap() {
        let file = File::open(entry.unwrap().path()).unwrap();
        file.set_modified(modified).unwrap();
    }
    let cache = tool("mypy").join("cache");
    workshop.execute(
        Command::new(tool("mypy/bin/mypy"))
            .args(["--strict", "--cache-dir"])
            .arg(cache)
            .args(["shop", file]),
    )
}

#[test]
fn python_round_trips_all_kinds_filters_batches_files_live_queries_and_errors() {
    let workshop = Workshop::new(APP);
    workshop.write("round_trip.py", ROUND_TRIP);
    workshop.generate("python", ".");
    let checked = check(&workshop, "round_trip.py");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let server = Server::start(workshop.path());
    let mut python = Command::new("python3");
    python.arg("round_trip.py").env("SHOP_URL", &server.url).env("SHOP_TOKEN", &server.token);
    assert_eq!(workshop.succeed(&mut python), "done\n");
}

#[test]
fn a_change_of_the_tables_that_breaks_a_call_is_found_by_mypy() {
    for (before, after, word) in BREAKING_CHANGES {
        let workshop = Workshop::new(&changed(before, after));
        workshop.write("round_trip.py", ROUND_TRIP);
        workshop.generate("python", ".");
        let checked = check(&workshop, "round_trip.py");
        let errors = String::from_utf8_lossy(&checked.stdout);
        assert!(!checked.status.success(), "{after}");
        let all_in_calls = errors.lines().all(|line| !line.starts_with("shop/"));
        assert!(all_in_calls && errors.contains(word), "{after}\n{errors}");
    }
}

/// Calls that are wrong, one on each line.
#[test]
fn wrong_names_and_values_are_found_by_mypy() {
    let workshop = Workshop::new(APP);
    workshop.generate("python", ".");
    let calls = [
        "shop.product.list(ordr='id')",
        "shop.product.list(order='nam')",
        "shop.product.list(order='options')",
        "shop.product.select(['nam'])",
        "shop.product.list(expand={'categry': True})",
        "shop.product.list(expand={'note': {'order': 'txt'}})",
        "shop.product.list(where=lambda p: p.stock == '1')",
        "shop.product.list(where=lambda p: p.stock == None)",
        "shop.product.list(where=lambda p: p.state == 'sold')",
        "shop.product.list(where=lambda p: p.stock.contains('1'))",
        "shop.product.list(where=lambda p: p.category.to.nam == 'x')",
        "shop.product.list(where=lambda p: p.note.any(lambda n: n.txt == 'x'))",
        "shop.product.get('1')",
        "shop.note.get(1)",
        "shop.product.insert({'name': 'x', 'available': True})",
        "shop.product.insert({'name': 'x', 'available': True, 'price': 1.5})",
        "shop.product.patch(1, {'sku': 'AB1'})",
        "shop.product.patch(1, {'id': 2})",
        "shop.product.increment(1, 'name')",
        "shop.product.upload(1, 'name', b'x')",
        "shop.product.remove_file(1, 'data')",
        "shop.product.get(1)['data']",
        "shop.product.group_by(lambda p: (p.nam,))",
        "shop.product.group_by(lambda p: (p.category.field(lambda c: c.nam),))",
        "shop.product.list(where=lambda p: near(p.name, p.lon, 1, 2, 3))",
        "shop.product.aggregate(lambda p: p.name.sum())",
        "shop.product.aggregate(lambda p: p.state.max())",
        "shop.product.aggregate(lambda p: p.stock.max()).upper()",
        "shop.product.history('1')",
        "shop.product.insert_nested({'name': 'x', 'available': True})",
        "shop.product.patch_nested(1, {'note': [{'txt': 'a'}]})",
        "shop.product.patch_nested(1, {'category': {'nam': 'a'}})",
        "shop.product.patch_nested(1, {'note': {'make': []}})",
        "shop.product.upload_in_parts(1, 'data', open('x', 'rb'))",
        "shop.batch().note.insert({'text': 'x', 'product': shop.batch().category.insert({'name': 'x'})})",
    ];
    workshop.write(
        "calls.py",
        &format!(
            "from shop import Shop, near\nshop = Shop('http://127.0.0.1')\n{}\n",
            calls.join("\n")
        ),
    );
    let errors = String::from_utf8(check(&workshop, "calls.py").stdout).unwrap();
    for (at, call) in calls.iter().enumerate() {
        let place = format!("calls.py:{}:", at + 3);
        assert!(errors.contains(&place), "{call} is accepted\n{errors}");
    }
}

/// Tables that have the names of methods, of types, and fields that have the names of keywords.
#[test]
fn names_that_the_language_uses_itself_are_changed() {
    let workshop = Workshop::new(NAMES);
    workshop.generate("python", ".");
    workshop.write(
        "calls.py",
        "from shop import Shop, ShopClient\n\
         shop = ShopClient('http://127.0.0.1')\n\
         def read() -> Shop:\n    return shop.shop.get(1)\n\
         shop.request_.list(where=lambda r: (r.from_ == 'x') & (r.class_ == None))\n\
         shop.request_.insert({'from': 'x', 'class': None})\n",
    );
    let checked = check(&workshop, "calls.py");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
