//! Arguments of handlers that act for the caller: a transaction ends with the answer.

use marmota_auth::{Auth, Settings};
use marmota_derive::Model;
use marmota_http::extract::{Json, Path};
use marmota_http::{Router, Server, Status, TestRequest, TestResponse};
use marmota_memory::Memory;
use marmota_rest::ApiError;
use marmota_rest::extract::{Caller, CallerStore, Transaction};
use marmota_sqlite::Sqlite;
use marmota_store::Store;
use marmota_store::engine::Engine;
use marmota_store::rights::{Grant, Right};

use crate::client::Client;
use crate::slow::slow;

#[derive(Clone, Debug, Model)]
#[model(audit)]
struct Account {
    id: i64,
    owner: i64,
    #[model(range(min = 0))]
    cents: i64,
}

/// Adds an amount, then answers with a status.
async fn add(
    tx: Transaction,
    Path((id, status)): Path<(i64, u16)>,
    Json(cents): Json<i64>,
) -> Result<Status, ApiError> {
    let before = tx.get::<Account>(id).await?.cents;
    tx.patch::<Account>(id).set(Account::CENTS, before + cents).await?;
    assert_ne!(status, 599, "the handler panics");
    Ok(Status::new(status).unwrap())
}

async fn pay(tx: Transaction, Path((from, to)): Path<(i64, i64)>) -> Result<(), ApiError> {
    tx.increment(Account::CENTS, to, 10).await?;
    tx.increment(Account::CENTS, from, -10).await?;
    Ok(())
}

async fn seen(store: CallerStore) -> Result<Json<Vec<i64>>, ApiError> {
    Ok(Json(store.list::<Account>().column(Account::ID).await?))
}

async fn name(caller: Option<Caller>) -> String {
    caller.map_or_else(|| "anonymous".to_owned(), |caller| caller.caller().name.clone())
}

struct Bank {
    store: Store,
    auth: Auth,
}

impl Bank {
    fn open(engine: impl Engine + 'static) -> Self {
        let store = marmota_auth::models(Store::builder(engine).model::<Account>()).open().unwrap();
        let own = [Grant::new("account", &Right::ALL).rule("owner = @user.id")];
        let settings = Settings::default().everyone(own).password_cost(64, 1);
        Self { auth: Auth::new(&store, settings).unwrap(), store }
    }

    /// Adds a user with an account; returns the account and a token.
    fn customer(&self, name: &str, cents: i64) -> (i64, String) {
        let (owner, token) = self.auth.add_user(name, &[], false).unwrap();
        self.auth.set_password(name, &token, "correct horse", None).unwrap();
        let account = self.store.insert(&Account { id: 0, owner, cents }).run().unwrap();
        (account, self.auth.login(name, "correct horse", None).unwrap().token)
    }

    fn router(&self) -> Router {
        let router = Router::with_state(self.auth.clone())
            .post("/add/{id}/{status}", add)
            .post("/pay/{from}/{to}", pay)
            .get("/seen", seen)
            .get("/name", name);
        router.router()
    }

    fn cents(&self, account: i64) -> i64 {
        self.store.get::<Account>(account).run().unwrap().cents
    }
}

fn on_engines(test: impl Fn(Bank)) {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite:{}", folder.path().join("bank.db").display());
    test(Bank::open(Memory::new()));
    test(Bank::open(Sqlite::from_url("sqlite::memory:").unwrap()));
    test(Bank::open(Sqlite::from_url(&file).unwrap()));
}

fn by(router: &Router, token: &str, request: TestRequest) -> TestResponse {
    router.call(request.header("Authorization", format!("Bearer {token}"))).unwrap()
}

#[test]
fn a_transaction_is_committed_with_a_success_only() {
    let test = |bank: Bank| {
        let (account, ann) = bank.customer("ann", 100);
        let router = bank.router();
        let mut cents = 100;
        for status in [200, 201, 303, 400, 404, 422, 500, 599] {
            let request = TestRequest::post(format!("/add/{account}/{status}")).json(&5);
            let answer = by(&router, &ann, request);
            cents += if status < 400 { 5 } else { 0 };
            assert_eq!(answer.status().code(), if status == 599 { 500 } else { status });
            assert_eq!(bank.cents(account), cents, "after {status}");
        }
        let entries = bank.store.history::<Account>(account).run().unwrap();
        let actors: Vec<_> = entries.iter().map(|entry| entry.actor.as_deref()).collect();
        assert_eq!(actors.iter().filter(|actor| **actor == Some("ann")).count(), 3, "{actors:?}");
    };
    on_engines(test);
    test(Bank::open(slow(Memory::new())));
}

#[test]
fn an_error_of_the_store_takes_back_what_was_written_before_it() {
    on_engines(|bank| {
        let (account, ann) = bank.customer("ann", 5);
        let second = bank.store.get::<Account>(account).run().unwrap();
        let second = bank.store.insert(&Account { id: 0, ..second }).run().unwrap();
        let router = bank.router();
        let refused = by(&router, &ann, TestRequest::post(format!("/pay/{account}/{second}")));
        assert_eq!(refused.status(), Status::UNPROCESSABLE_CONTENT, "{}", refused.text());
        assert_eq!((bank.cents(account), bank.cents(second)), (5, 5));
    });
}

#[test]
fn the_callers_rights_apply() {
    on_engines(|bank| {
        let (hers, ann) = bank.customer("ann", 100);
        let (his, bob) = bank.customer("bob", 100);
        let router = bank.router();
        for (token, own, other, own_name) in [(&ann, hers, his, "ann"), (&bob, his, hers, "bob")] {
            assert_eq!(by(&router, token, TestRequest::get("/seen")).text(), format!("[{own}]"));
            assert_eq!(by(&router, token, TestRequest::get("/name")).text(), own_name);
            let foreign = TestRequest::post(format!("/add/{other}/200")).json(&5);
            assert_eq!(by(&router, token, foreign).status(), Status::NOT_FOUND);
        }
        assert_eq!(router.call(TestRequest::get("/name")).unwrap().text(), "anonymous");
        for request in [TestRequest::get("/seen"), TestRequest::post("/pay/1/2")] {
            assert_eq!(router.call(request.clone()).unwrap().status(), Status::UNAUTHORIZED);
            assert_eq!(by(&router, "wrong", request).status(), Status::UNAUTHORIZED);
        }
        assert_eq!(by(&router, "wrong", TestRequest::get("/name")).status().code(), 401);
        let cookie = TestRequest::post(format!("/pay/{hers}/{his}"))
            .header("Cookie", format!("marmota_session={ann}"))
            .header("Sec-Fetch-Site", "cross-site");
        assert_eq!(router.call(cookie).unwrap().status(), Status::FORBIDDEN);
        assert_eq!((bank.cents(hers), bank.cents(his)), (100, 100));
    });
}

#[test]
fn transactions_of_many_clients_follow_each_other() {
    on_engines(|bank| {
        let (account, ann) = bank.customer("ann", 0);
        let server = Server::bind("127.0.0.1:0").unwrap().listeners(2);
        let server = server.start(bank.router()).unwrap();
        let (clients, requests) = (4, 25);
        std::thread::scope(|scope| {
            for _ in 0..clients {
                scope.spawn(|| {
                    let mut client = Client::new(server.local_addr());
                    let bearer = format!("Authorization: Bearer {ann}");
                    let request = format!("POST /add/{account}/200");
                    for _ in 0..requests {
                        let headers = [&*bearer, "Content-Type: application/json"];
                        let answer = client.send(&request, &headers, b"1");
                        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
                    }
                });
            }
        });
        assert_eq!(bank.cents(account), clients * requests);
    });
}
