//! Every route of a program, called by every kind of caller, against a table of what may be
//! answered. The routes are read from the router: one that is not in the table fails the test.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use marmota::auth::{Auth, Settings};
use marmota::http::{Metrics, Response, Server};
use marmota::operations::{Backups, Operations, RecentLog};
use marmota::prelude::*;
use marmota::remote::Service;
use marmota::rest::{Api, Diagnostics, LogLevels};
use marmota::service::Services;
use marmota::store::rights::{Grant, Right};
use marmota::{method, service};

#[derive(Clone, Debug, Model)]
struct Note {
    id: i64,
    #[model(max = 40)]
    text: String,
    visits: i32,
    photo: Option<Blob>,
}

#[service]
trait Bank {
    async fn transfer(&self, amount: i32) -> Result<i32>;
}

struct Vault;

impl Bank for Vault {
    async fn transfer(&self, amount: i32) -> Result<i32> {
        Ok(amount)
    }
}

#[method]
fn doubled(number: i32) -> Result<i32> {
    Ok(number * 2)
}

struct Fixed;

impl LogLevels for Fixed {
    fn filter(&self) -> String {
        "info".to_owned()
    }

    fn set_filter(&self, _: &str) -> Result<()> {
        Ok(())
    }
}

const PASSWORD: &str = "correct horse";
const TOKEN: &str = "a-token-of-the-operators";

/// A program with all that Marmota routes.
struct Program {
    router: Router,
    /// Tokens of a user without grants, one with grants, and an administrator.
    tokens: [String; 3],
    /// The folder of its backups.
    _folder: tempfile::TempDir,
}

fn notes(store: &Store) {
    let note = |_| Note { id: 0, text: "…".into(), visits: 0, photo: Some(Blob::from(vec![7])) };
    store.insert_many(&(0..9).map(note).collect::<Vec<_>>()).run().unwrap();
}

/// The routes for administrators of a store, with all that they can have.
fn operations(store: &Store) -> (Operations, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let backups = Backups::new(store, folder.path());
    let operations = Operations::new(store).log(&RecentLog::new(10, None)).backups(&backups);
    (operations.replication(|| serde_json::json!({ "role": "primary" })), folder)
}

fn services() -> Services {
    let services = Services::new().service(BankService::shared(Vault)).unwrap();
    services.method::<doubled>().unwrap()
}

fn with_accounts() -> Program {
    let builder = marmota::jobs::models(marmota::open("memory:").unwrap().model::<Note>());
    let store = marmota::auth::models(builder).open().unwrap();
    notes(&store);
    let auth = Auth::new(&store, Settings::default().password_cost(8, 1)).unwrap();
    let grants = [Grant::new("note", &Right::ALL), Grant::call("*")];
    auth.set_group("staff", &grants).unwrap();
    let staff = ["staff".to_owned()];
    let login = |name: &str, groups: &[String], is_admin| {
        let (_, once) = auth.add_user(name, groups, is_admin).unwrap();
        auth.set_password(name, &once, PASSWORD, None).unwrap();
        auth.login(name, PASSWORD, None).unwrap().token
    };
    let tokens = [login("bob", &[], false), login("ann", &staff, false), login("amy", &[], true)];
    let admitting = auth.clone();
    let remote =
        Service::new(&store).authenticate(move |_, credential| admitting.store_of(credential));
    let services = services().auth(&auth).store(&store);
    let metrics = Metrics::new();
    let state = Diagnostics::new(&store).auth(&auth).metrics(&metrics).log_levels(Arc::new(Fixed));
    let router = Api::new(&store).auth(&auth).openapi(services.open_api()).router();
    let router = router.nest("", services.router()).nest("", remote.router());
    let (operations, folder) = operations(&store);
    let router = router.nest("", operations.auth(&auth).router());
    Program { router: router.nest("", state.router()), tokens, _folder: folder }
}

fn without_accounts() -> Program {
    let builder = marmota::open("memory:").unwrap().model::<Note>();
    let store = marmota::jobs::models(builder).open().unwrap();
    notes(&store);
    let services = services().store(&store);
    let metrics = Metrics::new();
    let state = Diagnostics::new(&store).token(TOKEN).metrics(&metrics).log_levels(Arc::new(Fixed));
    let router = Api::new(&store).openapi(services.open_api()).router();
    let router = router.nest("", services.router()).nest("", Service::new(&store).router());
    let (operations, folder) = operations(&store);
    let router = router.nest("", operations.router()).nest("", state.router());
    Program { router, tokens: [const { String::new() }; 3], _folder: folder }
}

/// Who calls, and from where.
#[derive(Clone, Copy)]
struct Caller {
    /// The number of a token; none for an anonymous caller.
    token: Option<usize>,
    headers: &'static str,
}

const fn caller(token: Option<usize>, headers: &'static str) -> Caller {
    Caller { token, headers }
}

const FOREIGN_PAGE: &str = "Host: HERE\r\nOrigin: https://evil.example\r\n";
const FOREIGN_SITE: &str = "Host: HERE\r\nSec-Fetch-Site: cross-site\r\n";
const FOREIGN_HOST: &str = "Host: evil.example\r\nOrigin: http://evil.example\r\n";
const OWN_PAGE: &str = "Host: HERE\r\nOrigin: http://HERE\r\nContent-Type: application/json\r\n";
const PROGRAM: &str = "Host: HERE\r\n";

/// What is asked of a route: its path filled in, and a body. `number` tells calls of a route apart,
/// so that each has a row and names of its own.
fn asked(method: Method, pattern: &str, number: usize) -> (String, Option<String>) {
    let field = if pattern.ends_with("increment") { "visits" } else { "photo" };
    let mut path = pattern
        .replace("{table}", "note")
        .replace("{id}", &(number + 1).to_string())
        .replace("{field}", field)
        .replace("{rest:path}", "a/b/c/d/e/f")
        .replace("{job}", "0190f8a4-6e3c-7d10-8c52-3f0a9b1e2d47")
        .replace("{backup}", "backup-1")
        .replace("{named}", if pattern.contains("groups") { "staff" } else { "1" });
    let body = match (method, pattern) {
        (Method::Get | Method::Head | Method::Options, "/api/doubled") => {
            path += "?number=2";
            None
        }
        (Method::Get | Method::Head | Method::Options, "/api/-/access/rows") => {
            path += "?table=note";
            None
        }
        (Method::Get | Method::Head | Method::Options, _) => None,
        (Method::Delete, "/api/{table}") => {
            write!(path, "?filter=id%3D{}", number + 1).unwrap();
            None
        }
        (Method::Delete, _) => None,
        (_, "/api/doubled") => Some(r#"{"number":2}"#.to_owned()),
        (_, "/api/bank/transfer") => Some(r#"{"amount":2}"#.to_owned()),
        (_, "/api/-/rpc") => {
            let call = r#"{"jsonrpc":"2.0","method":"bank.transfer","params":[1],"id":1}"#;
            Some(call.to_owned())
        }
        (_, "/api/-/levels") => Some(r#"{"filter":"info"}"#.to_owned()),
        (_, "/api/batch") => {
            let row = r#"{"insert":"note","row":{"text":"a","visits":1}}"#;
            Some(format!(r#"{{"operations":[{row}]}}"#))
        }
        (_, "/api/{table}" | "/api/{table}/{id}") => Some(r#"{"text":"b","visits":1}"#.to_owned()),
        (_, "/api/{table}/{id}/{field}/increment") => Some(r#"{"by":1}"#.to_owned()),
        (_, "/api/auth/login") => Some(format!(r#"{{"name":"ann","password":"{PASSWORD}"}}"#)),
        (_, "/api/auth/set-password") => {
            Some(r#"{"name":"ann","token":"none","password":"correct horse"}"#.to_owned())
        }
        (_, "/api/auth/password") => Some(format!(r#"{{"old":"not it","new":"{PASSWORD}"}}"#)),
        (_, "/api/auth/step-up") => Some(r#"{"password":"not it"}"#.to_owned()),
        (_, "/api/auth/sign-in") => Some(r#"{"state":"x","provider_code":"x"}"#.to_owned()),
        (_, "/api/auth/sign-in/{named}") => Some("{}".to_owned()),
        (_, "/api/auth/sign-up" | "/api/auth/reset" | "/api/auth/login-link") => {
            Some(r#"{"email":"ann@example.org"}"#.to_owned())
        }
        (_, "/api/auth/email") => {
            Some(format!(r#"{{"email":"ann@example.org","password":"{PASSWORD}"}}"#))
        }
        (_, "/api/auth/join" | "/api/auth/reset-password") => {
            Some(format!(r#"{{"token":"mt_none","password":"{PASSWORD}"}}"#))
        }
        (_, "/api/auth/login-with-link" | "/api/auth/confirm-email") => {
            Some(r#"{"token":"mt_none"}"#.to_owned())
        }
        (_, "/api/auth/delete-account" | "/api/auth/totp") => {
            Some(r#"{"password":"not it"}"#.to_owned())
        }
        (_, "/api/auth/totp/confirm" | "/api/auth/totp/recovery-codes") => {
            Some(r#"{"code":"000000"}"#.to_owned())
        }
        (_, "/api/auth/totp/remove") => Some(r#"{"password":"not it","code":"000000"}"#.to_owned()),
        (_, "/api/auth/invitations") => Some(r#"{"email":"bea@example.org"}"#.to_owned()),
        (Method::Post, "/api/auth/passkeys") => Some(r#"{"name":"phone","passkey":{}}"#.to_owned()),
        (_, "/api/auth/passkeys/{named}") => Some(r#"{"name":"phone"}"#.to_owned()),
        (_, "/api/auth/passkeys/login") => Some(r#"{"passkey":{}}"#.to_owned()),
        (_, "/api/auth/keys") => Some(r#"{"name":"key"}"#.to_owned()),
        (_, "/api/auth/users") => Some(format!(r#"{{"name":"user{number}"}}"#)),
        (_, "/api/auth/groups/{named}") => Some(r#"{"grants":[]}"#.to_owned()),
        _ => Some("{}".to_owned()),
    };
    (path, body)
}

/// The status of an answer; `error` for one of JSON-RPC that is an error.
fn status(address: SocketAddr, head: &str, body: Option<&str>) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let body = body.unwrap_or_default();
    let length = body.len();
    let head = head.replace("HERE", &address.to_string());
    write!(stream, "{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = Vec::new();
    // An answer may come before the whole body was read. One of events does not end.
    let mut piece = [0; 16 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        answer.extend_from_slice(&piece[..count]);
        if String::from_utf8_lossy(&answer).contains("text/event-stream") {
            break;
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).unwrap_or("none").to_owned();
    if answer.contains("\"error\":{\"code\":") { "error".to_owned() } else { status }
}

/// One line for each route: what each caller is answered.
fn walk(program: fn() -> Program, callers: &[Caller]) -> String {
    let routes = program().router;
    let routes: Vec<(Option<Method>, String)> =
        routes.patterns().map(|(method, pattern)| (method, pattern.to_owned())).collect();
    let mut table = String::new();
    for (method, pattern) in routes {
        // A program of its own, as a route may end sessions.
        let Program { router, tokens, _folder } = program();
        let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).start(router).unwrap();
        let method = method.unwrap_or(Method::Options);
        write!(table, "{method} {pattern}").unwrap();
        for (number, caller) in callers.iter().enumerate() {
            let (path, body) = asked(method, &pattern, number);
            let mut head = format!("{method} {path} HTTP/1.1\r\n{}", caller.headers);
            if let Some(token) = caller.token {
                write!(head, "Authorization: Bearer {}\r\n", tokens[token]).unwrap();
            }
            let answered = status(server.local_addr(), &head, body.as_deref());
            write!(table, " {answered}").unwrap();
        }
        table.push('\n');
        server.shutdown().unwrap();
    }
    table
}

fn compare(table: &str, expected: &str) {
    let lines = |text: &str| {
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.filter(|line| !line.is_empty()).collect::<Vec<_>>()
    };
    let (table, expected) = (lines(table), lines(expected));
    for line in &table {
        assert!(expected.contains(line), "not expected: {line}\nof\n{}", table.join("\n"));
    }
    for line in &expected {
        assert!(table.contains(line), "expected: {line}\nof\n{}", table.join("\n"));
    }
}

#[test]
fn callers_of_a_program_with_accounts_are_answered_what_is_theirs() {
    let callers = [
        caller(None, PROGRAM),
        caller(Some(0), PROGRAM),
        caller(Some(1), PROGRAM),
        caller(Some(2), PROGRAM),
        caller(Some(2), OWN_PAGE),
        caller(Some(2), FOREIGN_PAGE),
        caller(Some(2), FOREIGN_SITE),
        caller(Some(2), FOREIGN_HOST),
    ];
    compare(&walk(with_accounts, &callers), WITH_ACCOUNTS);
}

#[test]
fn a_program_without_accounts_is_open_to_programs_and_closed_to_foreign_pages() {
    let callers = [
        caller(None, PROGRAM),
        caller(None, OWN_PAGE),
        caller(None, FOREIGN_PAGE),
        caller(None, FOREIGN_SITE),
        caller(None, FOREIGN_HOST),
    ];
    compare(&walk(without_accounts, &callers), WITHOUT_ACCOUNTS);
}

/// A route of the program's that is not in the table, and an entry without a route, are found.
#[test]
fn a_route_without_an_entry_is_found() {
    fn with_another() -> Program {
        let Program { router, tokens, _folder } = without_accounts();
        let another = Router::new().get("/another", |_| async { Response::text("open") });
        Program { router: router.nest("/api", another), tokens, _folder }
    }
    let table = walk(with_another, &[]);
    assert!(table.lines().any(|line| line == "GET /api/another"), "{table}");
    let without = |line: &str| {
        table.lines().filter(|other| *other != line).map(|line| format!("{line}\n")).collect()
    };
    let fails = |table: &str, expected: &str| {
        std::panic::catch_unwind(|| compare(table, expected)).is_err()
    };
    compare(&table, &table);
    let fewer: String = without("GET /api/another");
    assert!(fails(&table, &fewer) && fails(&fewer, &table));
}

/// By route: anonymous, a user without grants, one with grants, an administrator; an administrator
/// from a page of the own origin, from a foreign page, from a foreign site without `Origin`, and by
/// a foreign host.
const WITH_ACCOUNTS: &str = "\
    POST /api/auth/login 200 200 200 200 200 403 403 421
    POST /api/auth/set-password 401 401 401 401 401 403 403 421
    POST /api/auth/logout 401 204 204 204 401 403 403 421
    POST /api/auth/logout-everywhere 401 204 204 204 401 403 403 421
    GET /api/auth/setup 200 200 200 200 200 200 200 421
    GET /api/auth/me 401 200 200 200 200 200 200 421
    POST /api/auth/password 401 401 401 401 401 403 403 421
    POST /api/auth/jwt 401 200 200 200 200 403 403 421
    GET /api/auth/keys 401 200 200 200 200 200 200 421
    POST /api/auth/keys 401 201 201 201 201 403 403 421
    DELETE /api/auth/keys/{named} 401 404 404 404 404 403 403 421
    GET /api/auth/users 401 403 403 200 200 200 200 421
    POST /api/auth/users 401 403 403 201 201 403 403 421
    PATCH /api/auth/users/{named} 401 403 403 204 204 403 403 421
    DELETE /api/auth/users/{named} 401 403 403 204 404 403 403 421
    POST /api/auth/users/{named}/token 401 403 403 201 201 403 403 421
    POST /api/auth/users/{named}/logout 401 403 403 204 204 403 403 421
    GET /api/auth/groups 401 403 403 200 200 200 200 421
    PUT /api/auth/groups/{named} 401 403 403 204 204 403 403 421
    DELETE /api/auth/groups/{named} 401 403 403 204 404 403 403 421
    GET /api/auth/options 200 200 200 200 200 200 200 421
    POST /api/auth/step-up 401 401 401 401 401 403 403 421
    POST /api/auth/sign-in 401 401 401 401 401 403 403 421
    POST /api/auth/sign-in/{named} 501 501 501 501 501 403 403 421
    GET /api/auth/identities 401 200 200 200 200 200 200 421
    DELETE /api/auth/identities/{named} 401 404 404 404 404 403 403 421
    GET /api/auth/events 401 403 403 200 200 200 200 421
    POST /api/auth/sign-up 403 403 403 403 403 403 403 421
    POST /api/auth/join 401 401 401 401 401 403 403 421
    POST /api/auth/reset 501 501 501 501 501 403 403 421
    POST /api/auth/reset-password 401 401 401 401 401 403 403 421
    POST /api/auth/login-link 403 403 403 403 403 403 403 421
    POST /api/auth/login-with-link 401 401 401 401 401 403 403 421
    POST /api/auth/email 401 501 501 501 501 403 403 421
    POST /api/auth/confirm-email 401 401 401 401 401 403 403 421
    DELETE /api/auth/sessions/{named} 401 404 404 404 404 403 403 421
    GET /api/auth/data 401 200 200 200 200 200 200 421
    POST /api/auth/delete-account 401 401 401 401 401 403 403 421
    GET /api/auth/invitations 401 403 403 200 200 200 200 421
    POST /api/auth/invitations 401 403 403 403 403 403 403 421
    DELETE /api/auth/invitations/{named} 401 403 403 404 404 403 403 421
    POST /api/auth/totp 401 401 401 401 401 403 403 421
    POST /api/auth/totp/confirm 401 404 404 404 404 403 403 421
    POST /api/auth/totp/recovery-codes 401 404 404 404 404 403 403 421
    POST /api/auth/totp/remove 401 404 404 404 404 403 403 421
    DELETE /api/auth/users/{named}/totp 401 403 403 404 404 403 403 421
    GET /api/auth/passkeys 401 200 200 200 200 200 200 421
    POST /api/auth/passkeys 401 501 501 501 501 403 403 421
    POST /api/auth/passkeys/options 401 501 501 501 501 403 403 421
    PATCH /api/auth/passkeys/{named} 401 404 404 404 404 403 403 421
    DELETE /api/auth/passkeys/{named} 401 404 404 404 404 403 403 421
    POST /api/auth/passkeys/challenge 501 501 501 501 501 403 403 421
    POST /api/auth/passkeys/login 501 501 501 501 501 403 403 421
    DELETE /api/auth/users/{named}/passkeys 401 403 403 404 404 403 403 421
    GET /api 401 200 200 200 200 200 200 421
    OPTIONS /api 204 204 204 204 204 204 204 204
    GET /api/openapi.json 401 200 200 200 200 200 200 421
    OPTIONS /api/openapi.json 204 204 204 204 204 204 204 204
    POST /api/batch 401 403 200 200 200 403 403 421
    OPTIONS /api/batch 204 204 204 204 204 204 204 204
    GET /api/{table} 401 403 200 200 200 200 200 421
    POST /api/{table} 401 403 201 201 201 403 403 421
    DELETE /api/{table} 401 403 200 200 200 403 403 421
    OPTIONS /api/{table} 204 204 204 204 204 204 204 204
    GET /api/{table}/{id} 401 403 200 200 200 200 200 421
    PUT /api/{table}/{id} 401 403 200 200 200 403 403 421
    PATCH /api/{table}/{id} 401 403 200 200 200 403 403 421
    DELETE /api/{table}/{id} 401 403 204 204 204 403 403 421
    OPTIONS /api/{table}/{id} 204 204 204 204 204 204 204 204
    GET /api/{table}/{id}/{field} 401 403 200 200 200 200 200 421
    PUT /api/{table}/{id}/{field} 401 403 204 204 204 403 403 421
    OPTIONS /api/{table}/{id}/{field} 204 204 204 204 204 204 204 204
    POST /api/{table}/{id}/{field}/increment 401 403 200 200 200 403 403 421
    OPTIONS /api/{table}/{id}/{field}/increment 204 204 204 204 204 204 204 204
    OPTIONS /api/{rest:path} 404 404 404 404 404 404 404 404
    GET /api/bank 200 200 200 200 200 200 200 421
    POST /api/bank/transfer 401 403 200 200 200 403 403 421
    GET /api/doubled 401 403 200 200 200 403 403 421
    POST /api/doubled 401 403 200 200 200 403 403 421
    POST /api/-/rpc 401 error 200 200 200 403 403 421
    GET /api/-/services 401 426 426 426 426 403 403 421
    GET /api/-/operations 426 426 426 426 426 403 403 421
    GET /healthz 200 200 200 200 200 200 200 200
    GET /readyz 200 200 200 200 200 200 200 200
    GET /api/-/statistics 401 403 403 200 200 200 200 421
    GET /metrics 401 403 403 200 200 200 200 421
    GET /api/-/levels 401 403 403 200 200 200 200 421
    PUT /api/-/levels 401 403 403 200 200 403 403 421
    GET /api/-/access 401 403 403 200 200 200 200 421
    GET /api/-/access/rows 401 403 403 200 200 200 200 421
    GET /api/-/jobs 401 403 403 200 200 200 200 421
    GET /api/-/jobs/overview 401 403 403 200 200 200 200 421
    GET /api/-/log 401 403 403 200 200 200 200 421
    GET /api/-/log/live 401 403 403 200 200 200 200 421
    GET /api/-/backups 401 403 403 200 200 200 200 421
    GET /api/-/replication 401 403 403 200 200 200 200 421
    GET /api/-/jobs/{job} 401 403 403 404 404 404 404 421
    GET /api/-/backups/{backup}/file 401 403 403 404 404 404 404 421
    GET /api/-/backups/{backup}/manifest 401 403 403 404 404 404 404 421
    POST /api/-/jobs/{job}/retry 401 403 403 404 404 403 403 421
    POST /api/-/jobs/{job}/cancel 401 403 403 404 404 403 403 421
    POST /api/-/backups/{backup}/verify 401 403 403 404 404 403 403 421
    POST /api/-/backups 401 403 403 200 200 403 403 421
    PUT /api/-/backups/schedule 401 403 403 200 200 403 403 421
";

/// By route: a program, a page of the own origin, a foreign page, a foreign site without `Origin`,
/// a foreign host.
const WITHOUT_ACCOUNTS: &str = "\
    GET /api 200 200 200 200 421
    OPTIONS /api 204 204 204 204 204
    GET /api/openapi.json 200 200 200 200 421
    OPTIONS /api/openapi.json 204 204 204 204 204
    POST /api/batch 200 200 403 403 421
    OPTIONS /api/batch 204 204 204 204 204
    GET /api/{table} 200 200 200 200 421
    POST /api/{table} 201 201 403 403 421
    DELETE /api/{table} 200 200 403 403 421
    OPTIONS /api/{table} 204 204 204 204 204
    GET /api/{table}/{id} 200 200 200 200 421
    PUT /api/{table}/{id} 200 200 403 403 421
    PATCH /api/{table}/{id} 200 200 403 403 421
    DELETE /api/{table}/{id} 204 204 403 403 421
    OPTIONS /api/{table}/{id} 204 204 204 204 204
    GET /api/{table}/{id}/{field} 200 200 200 200 421
    PUT /api/{table}/{id}/{field} 204 204 403 403 421
    OPTIONS /api/{table}/{id}/{field} 204 204 204 204 204
    POST /api/{table}/{id}/{field}/increment 200 200 403 403 421
    OPTIONS /api/{table}/{id}/{field}/increment 204 204 204 204 204
    OPTIONS /api/{rest:path} 404 404 404 404 404
    GET /api/bank 200 200 200 200 421
    POST /api/bank/transfer 200 200 403 403 421
    GET /api/doubled 200 200 403 403 421
    POST /api/doubled 200 200 403 403 421
    POST /api/-/rpc 200 200 403 403 421
    GET /api/-/services 426 426 403 403 421
    GET /api/-/operations 426 426 403 403 421
    GET /healthz 200 200 200 200 200
    GET /readyz 200 200 200 200 200
    GET /api/-/statistics 401 401 401 401 421
    GET /metrics 401 401 401 401 421
    GET /api/-/levels 401 401 401 401 421
    PUT /api/-/levels 401 401 403 403 421
    GET /api/-/jobs 200 200 200 200 421
    GET /api/-/jobs/overview 200 200 200 200 421
    GET /api/-/log 200 200 200 200 421
    GET /api/-/log/live 200 200 200 200 421
    GET /api/-/backups 200 200 200 200 421
    GET /api/-/replication 200 200 200 200 421
    GET /api/-/jobs/{job} 404 404 404 404 421
    GET /api/-/backups/{backup}/file 404 404 404 404 421
    GET /api/-/backups/{backup}/manifest 404 404 404 404 421
    POST /api/-/jobs/{job}/retry 404 404 403 403 421
    POST /api/-/jobs/{job}/cancel 404 404 403 403 421
    POST /api/-/backups/{backup}/verify 404 404 403 403 421
    POST /api/-/backups 200 200 403 403 421
    PUT /api/-/backups/schedule 200 200 403 403 421
";
