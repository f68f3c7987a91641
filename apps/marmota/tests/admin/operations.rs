//! The pages of operations: the access of users, jobs, the log, backups, and statements in the security
//! events.

use serde_json::json;

use crate::browser::{Browser, Driver, Look, run};
use crate::program::Program;

const PASSWORD: &str = "correct horse battery";
/// All that has a page.
const OPTIONS: [&str; 10] = [
    "--auth",
    "--diagnostics",
    "--live-log",
    "500",
    "--slow-query-ms",
    "0",
    "--backups",
    "backups",
    "--backup-schedule",
    "30 3 * * *",
];

/// Sends a request as the page does, and returns the status.
async fn send(page: &Browser, method: &str, path: &str, body: &serde_json::Value) -> u64 {
    let body = match method {
        "GET" => "undefined".to_owned(),
        _ => format!("JSON.stringify({body})"),
    };
    let script = format!(
        "return fetch('/api{path}', {{ method: '{method}', body: {body}, \
         headers: {{ 'Content-Type': 'application/json' }} }}).then(answer => answer.status)"
    );
    page.run(&script).await.as_u64().unwrap()
}

/// Signs in as an administrator; sets the password in the first browser.
async fn sign_in(page: &Browser, program: &Program, is_first: bool) {
    if is_first {
        page.open(&program.address_with("#/set-password")).await;
        page.fill("New password", PASSWORD).await;
        page.press("Set password").await;
    } else {
        page.open(&format!("{}/admin", program.url)).await;
        page.fill("Name", "admin").await;
        page.fill("Password", PASSWORD).await;
        page.press("Sign in").await;
    }
    page.shows("Try as a user").await;
}

#[test]
fn an_administrator_sees_what_the_program_does() {
    let program = Program::start(&OPTIONS);
    let driver = Driver::start();
    run(async {
        for look in [Look::Light, Look::Dark, Look::Phone] {
            let page = driver.browser(look).await;
            let is_first = matches!(look, Look::Light);
            if matches!(look, Look::Phone) {
                page.open(&format!("{}/admin", program.url)).await;
                page.fill("Name", "admin").await;
                page.fill("Password", PASSWORD).await;
                page.press("Sign in").await;
                page.shows("person").await;
            } else {
                sign_in(&page, &program, is_first).await;
            }
            let name = |page: &str| match look {
                Look::Light => page.to_owned(),
                Look::Dark => format!("{page}-dark"),
                Look::Phone => format!("{page}-phone"),
            };
            if is_first {
                prepare(&page).await;
            }
            access(&page, &program, &name("access")).await;
            jobs(&page, &program, &name("jobs")).await;
            log(&page, &program, &name("log")).await;
            backups(&page, &program, &name("backups"), is_first).await;
            metrics(&page, &program, &name("metrics")).await;
            if is_first {
                statements(&page, &program).await;
            }
            page.loads_nothing_foreign().await;
            page.close().await;
        }
    });
}

/// Makes a row and a user with some rights.
async fn prepare(page: &Browser) {
    let ada = json!({ "first_name": "Ada", "last_name": "Lovelace", "year_of_birth": 1815 });
    assert_eq!(send(page, "POST", "/person", &ada).await, 201);
    let rule = "year_of_birth > 1900";
    let grants = json!({ "grants": [
        { "table": "person", "rights": ["read"], "except": ["year_of_birth"] },
        { "table": "person", "rights": ["update"], "rule": rule },
    ] });
    assert_eq!(send(page, "PUT", "/auth/groups/staff", &grants).await, 204);
    let ann = json!({ "name": "ann", "groups": ["staff"] });
    assert_eq!(send(page, "POST", "/auth/users", &ann).await, 201);
}

async fn access(page: &Browser, program: &Program, name: &str) {
    page.open(&format!("{}/admin#/access", program.url)).await;
    page.shows("Rights of an anonymous caller").await;
    page.choose("User", "ann").await;
    page.press("Show").await;
    page.shows("Rights of ann").await;
    page.choose("Table", "person").await;
    page.press("Show").await;
    page.shows("Rows that this user sees").await;
    page.shows("Lovelace").await;
    page.hides("1815").await;
    page.press("1").await;
    page.shows("Rights of ann on the row 1 of person").await;
    page.shows("no rule is true for this row: `year_of_birth > 1900`").await;
    page.shows("no grant has the right `delete` on `person`").await;
    page.shows("all but year_of_birth").await;
    page.is_accessible(name).await;
}

async fn jobs(page: &Browser, program: &Program, name: &str) {
    page.open(&format!("{}/admin#/jobs", program.url)).await;
    page.shows("30 3 * * *").await;
    page.shows("Workers").await;
    page.is_accessible(name).await;
}

async fn log(page: &Browser, program: &Program, name: &str) {
    page.open(&format!("{}/admin#/log", program.url)).await;
    page.wait("document.querySelector('.live')?.textContent === 'live'").await;
    page.fill("Only lines with", "limit=7").await;
    assert_eq!(send(page, "GET", "/person?limit=7", &json!(null)).await, 200);
    page.wait("document.querySelector('.log').textContent.includes('GET /api/person?limit=7')")
        .await;
    page.press("Refresh slow calls").await;
    page.shows("list of person").await;
    page.is_accessible(name).await;
}

async fn backups(page: &Browser, program: &Program, name: &str, is_first: bool) {
    page.open(&format!("{}/admin#/backups", program.url)).await;
    if is_first {
        page.shows("No backups yet.").await;
        page.press("Make a backup").await;
    }
    page.shows("restore --db").await;
    page.is_accessible(name).await;
    if !is_first {
        return;
    }
    let first = "document.querySelector('tbody td').textContent";
    let made = page.run(&format!("return {first}")).await;
    let made = made.as_str().unwrap();
    page.press(&format!("Verify {made}")).await;
    page.shows("is intact").await;
    let path = program.folder.path().join("backups").join(made);
    let bytes = std::fs::metadata(&path).unwrap().len();
    let size = format!(
        "return fetch('/api/-/backups/{made}/file').then(answer => answer.arrayBuffer())\
         .then(file => file.byteLength)"
    );
    assert_eq!(page.run(&size).await, json!(bytes));
    // A damaged file is noticed.
    std::fs::write(&path, "damaged").unwrap();
    page.press(&format!("Verify {made}")).await;
    page.shows("is damaged").await;
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(format!("{}.manifest.json", path.display())).unwrap();
    page.open(&format!("{}/admin#/backups", program.url)).await;
    page.press("Make a backup").await;
    page.shows("restore --db").await;
}

async fn metrics(page: &Browser, program: &Program, name: &str) {
    page.open(&format!("{}/admin#/metrics", program.url)).await;
    page.wait("document.querySelectorAll('.plot polyline[points]:not([points=\"\"])').length > 4")
        .await;
    page.shows("MiB").await;
    page.is_accessible(name).await;
}

/// Each statement is a security event.
async fn statements(page: &Browser, program: &Program) {
    let sql = json!({ "sql": "SELECT 7 AS seven" });
    assert_eq!(send(page, "POST", "/-/sql", &sql).await, 200);
    let sql = json!({ "sql": "DELETE FROM person" });
    assert!(send(page, "POST", "/-/sql", &sql).await >= 400);
    page.open(&format!("{}/admin#/events", program.url)).await;
    page.shows("SELECT 7 AS seven").await;
    page.shows("DELETE FROM person").await;
    page.shows("rows: 1").await;
}
