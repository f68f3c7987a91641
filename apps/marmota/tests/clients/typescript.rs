//! The client in TypeScript.

use std::process::{Command, Output};

use crate::server::Server;
use crate::workshop::{APP, BREAKING_CHANGES, Workshop, changed, tool};

const ROUND_TRIP: &str = include_str!("round_trip.ts");
/// The version; `xtask` installs it.
const TSC: &str = "typescript-7.0.2/node_modules/.bin/tsc";
/// The maximum size of a client with ten tables, compressed.
const BYTES_MAX: usize = 12 * 1024;

/// Compiles a file with all checks, those of the client's types too.
pub(crate) fn compile(workshop: &Workshop, file: &str) -> Output {
    let mut tsc = Command::new(tool(TSC));
    tsc.args(["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"]);
    tsc.args(["--module", "nodenext", "--target", "es2023", "--outDir", "out"]);
    tsc.args(["--lib", "es2024,dom,dom.iterable,dom.asynciterable,esnext.disposable"]);
    workshop.execute(tsc.arg(file))
}

/// Returns a folder with the compiled program `out/round_trip.js` and the client that it uses.
pub(crate) fn compiled_round_trip() -> Workshop {
    let workshop = Workshop::new(APP);
    workshop.write("package.json", r#"{"type":"module"}"#);
    workshop.write("round_trip.ts", ROUND_TRIP);
    workshop.generate("ts", "client");
    let compiled = compile(&workshop, "round_trip.ts");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stdout));
    workshop.generate("ts", "out/client");
    workshop
}

#[test]
fn node_round_trips_all_kinds_filters_batches_files_live_queries_and_errors() {
    let workshop = compiled_round_trip();
    let server = Server::start(workshop.path());
    let mut node = Command::new("node");
    node.arg("out/round_trip.js").env("SHOP_URL", &server.url).env("SHOP_TOKEN", &server.token);
    assert_eq!(workshop.succeed(&mut node), "done\n");
}

#[test]
fn a_change_of_the_tables_that_breaks_a_call_fails_to_compile() {
    for (before, after, word) in BREAKING_CHANGES {
        let workshop = Workshop::new(&changed(before, after));
        workshop.write("package.json", r#"{"type":"module"}"#);
        workshop.write("round_trip.ts", ROUND_TRIP);
        workshop.generate("ts", "client");
        let compiled = compile(&workshop, "round_trip.ts");
        let errors = String::from_utf8_lossy(&compiled.stdout);
        assert!(!compiled.status.success(), "{after}");
        let all_in_calls = errors.lines().all(|line| !line.starts_with("client/"));
        assert!(all_in_calls && errors.contains(word), "{after}\n{errors}");
    }
}

/// Calls that are wrong, one on each line.
#[test]
fn wrong_names_and_values_do_not_compile() {
    let workshop = Workshop::new(APP);
    workshop.write("package.json", r#"{"type":"module"}"#);
    workshop.generate("ts", "client");
    let calls = [
        "shop.product.list({ ordr: 'id' })",
        "shop.product.list({ order: 'nam' })",
        "shop.product.list({ order: 'options' })",
        "shop.product.list({ fields: ['nam'] })",
        "shop.product.list({ expand: { categry: true } })",
        "shop.product.list({ expand: { category: true, notes: true } })",
        "shop.product.list({ expand: { note: { order: 'txt' } } })",
        "shop.product.list({ where: p => p.stock.eq('1') })",
        "shop.product.list({ where: p => p.stock.eq(null) })",
        "shop.product.list({ where: p => p.state.eq('sold') })",
        "shop.product.list({ where: p => p.stock.contains('1') })",
        "shop.product.list({ where: p => p.category.nam.eq('x') })",
        "shop.product.list({ where: p => p.note.any(n => n.txt.eq('x')) })",
        "shop.product.get('1')",
        "shop.note.get(1)",
        "shop.product.insert({ name: 'x', available: true })",
        "shop.product.insert({ name: 'x', available: true, price: 1, version: 3 })",
        "shop.product.insert({ name: 'x', available: true, price: 1, stock: undefined })",
        "shop.product.patch(1, { sku: 'AB1' })",
        "shop.product.patch(1, { id: 2 })",
        "shop.product.increment(1, 'name')",
        "shop.product.upload(1, 'name', 'x')",
        "shop.product.removeFile(1, 'data')",
        "(await shop.product.get(1, { fields: ['name'] })).stock",
        "(await shop.product.get(1)).data",
        "(await shop.product.get(1)).expand",
        "(await shop.product.get(1, { expand: { category: true } })).expand.category.name",
        "shop.product.groupBy(['nam'])",
        "shop.product.groupBy(['weight'])",
        "shop.product.groupBy(['category.nam'])",
        "shop.product.groupBy(['note.text'])",
        "(await shop.product.groupBy(['category.name']))[0]!.category_name.length",
        "shop.product.groupBy(['category.name'], { select: { n: 'count' }, order: 'category.name' })",
        "shop.product.list({ where: p => near(p.name, p.lon, 1, 2, 3) })",
        "shop.product.groupBy(['state'], { select: { total: 'sum(name)' } })",
        "shop.product.groupBy(['state'], { select: { total: 'sum(stock)' }, order: 'sum' })",
        "shop.product.groupBy(['state'], { select: { n: 'count' }, having: g => g.count.gt(1) })",
        "(await shop.product.groupBy(['state'], { select: { n: 'count' } }))[0]!.category",
        "(await shop.product.aggregate({ first: 'min(name)' })).first?.toFixed()",
        "shop.product.history('1')",
        "shop.product.insertNested({ name: 'x', available: true })",
        "shop.product.insertNested({ name: 'x', available: true, price: 1, note: [{ txt: 'a' }] })",
        "shop.product.insertNested({ name: 'x', available: true, price: 1, category: { nam: 'a' } })",
        "shop.product.patchNested(1, { note: { delete: [1] } })",
        "shop.product.patchNested(1, { note: { make: [] } })",
        "shop.product.uploadInParts(1, 'data', 'x')",
        "shop.batch().note.insert({ text: 'x', product: shop.batch().category.insert({ name: 'x' }) })",
    ];
    let mut text = "import { Shop, near } from './client/index.js'\nconst shop = new Shop({ url: 'http://127.0.0.1' })\n".to_owned();
    for call in calls {
        text.push_str(&format!("{call};\n"));
    }
    workshop.write("calls.ts", &text);
    let errors = String::from_utf8(compile(&workshop, "calls.ts").stdout).unwrap();
    for (at, call) in calls.iter().enumerate() {
        let place = format!("calls.ts({},", at + 3);
        assert!(errors.contains(&place), "{call} compiles\n{errors}");
    }
}

#[test]
fn a_client_with_ten_tables_is_small() {
    let (head, groups) = APP.split_once("[[groups").unwrap();
    let mut app = head.to_owned();
    for number in 1..=5 {
        app.push_str(&head.replace("[tables.", &format!("[tables.more{number}_")));
        app.truncate(app.len());
    }
    // Five tables are in the file, and five more are needed.
    let app: String = app
        .split_inclusive("\n\n")
        .filter(|part| !part.contains("[tables.more") || part.contains("_category.fields]"))
        .collect();
    let workshop = Workshop::new(&format!("{app}[[groups{groups}"));
    workshop.generate("ts", "client");
    let types = String::from_utf8(workshop.read("client/index.d.ts")).unwrap();
    assert_eq!(types.matches("m.Table<").count(), 10);
    let code = [workshop.read("client/index.js"), workshop.read("client/runtime.js")].concat();
    std::fs::write(workshop.path().join("all.js"), code).unwrap();
    workshop.succeed(Command::new("gzip").args(["-9", "all.js"]));
    let size = workshop.read("all.js.gz").len();
    println!("a TypeScript client with ten tables: {size} bytes, compressed");
    assert!(size <= BYTES_MAX, "{size} bytes");
}

/// Tables that have the names of methods, of types, and of each other's types.
#[test]
fn names_that_the_client_uses_itself_are_changed() {
    let workshop = Workshop::new(NAMES);
    workshop.write("package.json", r#"{"type":"module"}"#);
    workshop.generate("ts", "client");
    workshop.write(
        "calls.ts",
        "import { ShopClient, type Shop, type Problem } from './client/index.js'\n\
         const shop = new ShopClient({ url: 'http://127.0.0.1' })\n\
         const read = async (): Promise<Shop> => shop.shop.get(1)\n\
         const row = async (): Promise<Problem> => shop.problem.get(1)\n\
         shop.request_.list({ where: r => r.from.eq('x').and(r.class.eq(null)) })\n\
         shop.shop_insert.insert({ name: 'x' })\n\
         export { read, row }\n",
    );
    let compiled = compile(&workshop, "calls.ts");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stdout));
}

pub(crate) const NAMES: &str = r#"
[tables.shop.fields]
id = { kind = "integer", role = "key" }

[tables.shop_insert.fields]
id = { kind = "integer", role = "key" }
name = "text"

[tables.problem.fields]
id = { kind = "integer", role = "key" }
shop = { kind = "reference", table = "shop" }

[tables.request.fields]
id = { kind = "integer", role = "key" }
from = "text"
class = { kind = "text", nullable = true }
"#;
